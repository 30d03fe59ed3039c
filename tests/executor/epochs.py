"""The first epoch of a job, for an executor without a driver."""

from pathlib import Path

from mixedmode.checkpoint.types import Epoch, Generation
from mixedmode.executor.protocol import EpochTask, StageSettings
from mixedmode.job import Job
from mixedmode.sinks.files import SinkTask
from mixedmode.tasks.timing import Timing
from mixedmode.testing.local_plan import local_plan


def first_epoch(job: Job, base: Path, timing: Timing, *, output: str) -> EpochTask:
    """Its task, with checkpoints and the only output in `base`."""
    settings = StageSettings(
        parallelism=2,
        max_parallelism=4,
        sort_memory_bytes=2**20,
        checkpoint_url=str(base / "checkpoints"),
        generation=Generation(1),
        sinks={output: SinkTask(str(base / "out"), "parquet")},
    )
    return EpochTask.after(None, local_plan(job.spec, job.where), settings, Epoch(0), "sorted", timing)
