"""Runs the epochs of a plan one after the other in this process, without Spark and without a driver.

A live epoch, the backlog, a batch and the end of the input have the timing that the driver has decided. The manifests
of the epochs are kept in memory: nobody resumes such a run.
"""

from collections.abc import Set as AbstractSet
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode.checkpoint.types import Epoch, ExecutionStrategy, Generation, Manifest
from mixedmode.config import JobSpec, SinkSpec
from mixedmode.connectors.files.sink_spec import FileSinkSpec
from mixedmode.executor.local import LocalExecutor, LocalInput
from mixedmode.executor.protocol import EpochResult, EpochTask, StageSettings
from mixedmode.plan.job_plan import JobPlan
from mixedmode.sinks.files import EPOCH_COLUMN, SinkTask
from mixedmode.tasks.replicas import remove_replicas
from mixedmode.tasks.timing import Timing, source_progress, timing_at
from mixedmode.time import MIN_TIME_US

__all__ = ["LocalRun"]

_PARALLELISM = 2  # of a job that sets none
_GENERATION = Generation(1)


class LocalRun:
    """One run of a job from its first epoch to its last. All sinks are Parquet files, and the caller deletes `folder`.

    `outputs`: {name of an output: its rows so far, a table per file}; that of a job with `sink` is "". Upserts have
    `_op`.
    `records_late` and `records_skipped` count all epochs. `clock_ms`: the processing time of the next epoch.
    """

    def __init__(
        self, spec: JobSpec, plan: JobPlan, folder: Path, clock_ms: int, executor: LocalExecutor | None = None
    ) -> None:
        """folder: for checkpoints. clock_ms: the processing time."""
        self._executor = executor or LocalExecutor()
        self._spec = spec
        self._plan = plan
        self.clock_ms = clock_ms
        self._checkpoints = str(folder / "checkpoints")
        self._places = {name: _folder_of(sink) for name, sink in {**spec.results, **plan.side_sinks}.items()}
        self._latest: Manifest | None = None
        self.outputs: dict[str, list[pa.Table]] = {name: [] for name in self._places}
        self.records_late = 0
        self.records_skipped = 0

    def run_batch(self, tables: LocalInput) -> None:
        """Run the only epoch of batch mode, which keeps no state."""
        self._run(tables, self._timing(self._sources).at_the_end(), is_batch=True)

    def run_backlog(self, tables: LocalInput) -> None:
        """Run the first epoch of mixed mode, at the end of which the job flips."""
        self._run(tables, self._timing(self._sources))

    def run_live(self, tables: LocalInput, backlog: AbstractSet[str] = frozenset()) -> None:
        """Run an epoch after the flip.  backlog: the sources that are in backlog again; none: the epoch is live."""
        self._run(tables, self._timing(backlog))

    def end(self) -> None:
        """Run the epoch after the end of the input, in which everything fires."""
        self._run(None, self._timing(frozenset()).at_the_end())

    def close(self) -> None:
        """Delete the replicas of the state, which are outside of the folder."""
        remove_replicas(self._checkpoints)

    def _run(self, tables: LocalInput | None, timing: Timing, *, is_batch: bool = False) -> None:
        strategy: ExecutionStrategy = "sorted" if timing.is_backlog else "streaming"
        epoch = Epoch(0 if self._latest is None else self._latest.epoch + 1)
        settings = self._settings(timing, is_batch=is_batch)
        task = EpochTask.after(self._latest, self._plan, settings, epoch, strategy, timing)
        result = self._executor.run_epoch(task, tables)
        for file in result.outputs:
            rows = pq.read_table(self._places[file.sink] / file.staged_path)
            self.outputs[file.sink].append(rows.drop_columns([EPOCH_COLUMN]))
        self.records_late += result.progress.late
        self.records_skipped += result.skipped
        self._latest = self._manifest(task, result)

    @property
    def _sources(self) -> AbstractSet[str]:
        return frozenset(self._plan.sources_read)

    def _timing(self, backlog: AbstractSet[str]) -> Timing:
        return timing_at(
            self._plan.strategies,
            self._latest,
            self.clock_ms,
            started_ms=self.clock_ms,
            partitioned=self._plan.partitions,
            backlog=backlog,
            fires_all=bool(backlog) and self._spec.execution.backlog.end_of_key_watermark == "max",
        )

    def _settings(self, timing: Timing, *, is_batch: bool) -> StageSettings:
        spec, own = self._spec, self._spec.step_parallelism
        of_backlog = spec.execution.backlog.parallelism if timing.is_backlog else None
        return StageSettings(
            parallelism=of_backlog or spec.parallelism or min(_PARALLELISM, spec.pipeline.max_parallelism),
            step_parallelism={} if of_backlog else {step: count for step, count in own.items() if count is not None},
            max_parallelism=spec.pipeline.max_parallelism,
            sort_memory_bytes=spec.state.backlog.sort_memory_bytes,
            checkpoint_url=None if is_batch else self._checkpoints,
            generation=_GENERATION,
            sinks={name: SinkTask(str(place), "parquet") for name, place in self._places.items()},
            job=spec.name,
            emits_running_results=spec.execution.backlog.emit == "all",
        )

    def _manifest(self, task: EpochTask, result: EpochResult) -> Manifest:
        timing = task.timing
        watermark_us = timing.after(result.progress).watermark_us
        return Manifest(
            job=self._spec.name,
            epoch=task.epoch,
            generation=_GENERATION,
            previous=None if self._latest is None else self._latest.epoch,
            created_ms=self.clock_ms,
            is_backlog=timing.is_backlog,
            backlog_sources=tuple(sorted(timing.backlog)),
            strategy=task.strategy,
            parallelism=task.settings.parallelism,
            max_parallelism=task.settings.max_parallelism,
            sources=source_progress(self._plan.progress_names, timing, result.progress, self._latest),
            offsets="",
            operators=result.operators,
            outputs=result.outputs,
            records_in=result.progress.records,
            rows_out=result.rows_out,
            pairs=result.pairs,
            watermark_us=None if watermark_us == MIN_TIME_US else watermark_us,
            step_watermarks=timing.steps_after(result.progress, self._plan.step_times),
            clock_ms=timing.clock_ms,
            output_names=tuple(self._places),
        )


def _folder_of(sink: SinkSpec) -> Path:
    assert isinstance(sink, FileSinkSpec), sink
    return Path(sink.path)
