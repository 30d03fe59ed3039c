"""Manifests of a large job, to bytes and back: a live epoch does both once."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from mixedmode.checkpoint import output_paths, paths
from mixedmode.checkpoint.manifest import decode_manifest, encode_manifest
from mixedmode.checkpoint.types import Epoch, Generation, Manifest, OperatorState, RunFile, SourceProgress, StagedFile

SUBTASKS = 32
RUNS_PER_SUBTASK = 16

pytestmark = pytest.mark.benchmark(group=f"manifest of {SUBTASKS * RUNS_PER_SUBTASK} runs", min_rounds=3, max_time=0.5)


def test_encode_manifest(benchmark: BenchmarkFixture) -> None:
    assert benchmark(encode_manifest, _manifest())


def test_decode_manifest(benchmark: BenchmarkFixture) -> None:
    manifest = _manifest()
    assert benchmark(decode_manifest, encode_manifest(manifest), where="bench") == manifest


def _manifest() -> Manifest:
    epoch = Epoch(RUNS_PER_SUBTASK)
    runs = tuple(_run(Epoch(e), subtask) for e in range(RUNS_PER_SUBTASK) for subtask in range(SUBTASKS))
    outputs = tuple(
        StagedFile(
            output_paths.staged_path(epoch, subtask, "0123456789abcdef", "parquet"),
            output_paths.final_path(epoch, subtask, "parquet"),
            bytes=1_234_567,
            rows=50_000,
            checksum="0123456789abcdef",
        )
        for subtask in range(SUBTASKS)
    )
    return Manifest(
        job="bench",
        epoch=epoch,
        generation=Generation(1),
        previous=Epoch(epoch - 1),
        created_ms=1_700_000_000_000,
        is_backlog=False,
        strategy="streaming",
        parallelism=SUBTASKS,
        max_parallelism=128,
        sources={"events": SourceProgress(10_000_000, 1_700_000_000_000_000, 1_700_000_000_000_000)},
        offsets='v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000}\n{"logOffset":16}',
        operators=(OperatorState("aggregate-1", {"states": [{"id": 0, "name": "aggregate"}]}, runs, parallelism=2),),
        outputs=outputs,
        records_in=500_000,
        rows_out=1_600_000,
        pairs=1_600_000,
    )


def _run(epoch: Epoch, subtask: int) -> RunFile:
    groups = 128 // SUBTASKS
    return RunFile(
        path=paths.run_path("aggregate-1", epoch, subtask, f"{epoch:08x}{subtask:08x}s0"),
        state_id=0,
        bytes=12_345_678,
        entries=500_000,
        key_group_start=subtask * groups,
        key_group_end=(subtask + 1) * groups,
        checksum="0123456789abcdef",
    )
