"""Example values that the tests of checkpoints and sinks build upon."""

from collections.abc import Sequence

from mixedmode.checkpoint import output_paths, paths
from mixedmode.checkpoint.types import (
    Epoch,
    Generation,
    JobIdentity,
    Manifest,
    OperatorState,
    RunFile,
    SourceProgress,
    StagedFile,
)

IDENTITY = JobIdentity("airport-delays", 128, {"step-1": {"step": "aggregate"}, "step-2": {"step": "upsert"}})
OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000}\n{"logOffset":0}'


def a_run(epoch: int, subtask: int = 0, unique: str = "a", operator_id: str = "step-1") -> RunFile:
    path = paths.run_path(operator_id, Epoch(epoch), subtask, unique)
    return RunFile(path, state_id=0, bytes=5, entries=2, key_group_start=0, key_group_end=64, checksum="0" * 16)


def a_staged(epoch: int, subtask: int = 0, unique: str = "a") -> StagedFile:
    staged = output_paths.staged_path(Epoch(epoch), subtask, unique, "parquet")
    final = output_paths.final_path(Epoch(epoch), subtask, "parquet")
    return StagedFile(staged, final, bytes=7, rows=3, checksum="f" * 16)


def a_manifest(
    epoch: int = 0,
    *,
    generation: int = 1,
    runs: Sequence[RunFile] = (),
    outputs: Sequence[StagedFile] = (),
) -> Manifest:
    return Manifest(
        job="airport-delays",
        epoch=Epoch(epoch),
        generation=Generation(generation),
        previous=Epoch(epoch - 1) if epoch else None,
        created_ms=1_700_000_000_000,
        is_backlog=epoch == 0,
        strategy="sorted" if epoch == 0 else "streaming",
        parallelism=2,
        max_parallelism=128,
        sources={"flights": SourceProgress(1000, 1_699_999_999_000_000, None)},
        offsets=OFFSETS,
        operators=(OperatorState("step-1", {"columns": ["n", "Σ"], "format": 1}, tuple(runs), parallelism=2),),
        outputs=tuple(outputs),
        records_in=1000,
        rows_out=3,
        pairs=3,
    )
