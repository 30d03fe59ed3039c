"""The local executor by itself: what it refuses, and that a lost attempt changes nothing.

Its answers are checked wherever jobs run without Spark: tests/walk and tests/differential.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.types import Epoch
from mixedmode.config.graph import MAIN
from mixedmode.errors import InvalidJobError
from mixedmode.executor.local import LocalExecutor
from mixedmode.executor.protocol import EpochResult, EpochTask
from mixedmode.job import Job, Sink, Source
from mixedmode.plan.reads import Reads, SqlText
from mixedmode.tasks.timing import Timing
from mixedmode.time import WatermarkState
from tests.executor.epochs import first_epoch

ROWS = [pa.table({"k": ["a", "b", "a"], "v": [1, 2, 3]}), pa.table({"k": ["c", "b"], "v": [4, 5]})]
TIMING = Timing(WatermarkState.initial({}, 0), {}, 0, None, {"t"}, None, True, None, fires_all=False)


def task(base: Path, **call: str) -> EpochTask:
    """The first epoch of a job with two steps."""
    source = Source.parquet(base / "in", schema="k string, v bigint")
    job = Job("sums", sources={"t": source}, mode="mixed", checkpoint_dir=base / "checkpoints")
    job = job.key_by("k").aggregate(call or {"s": "sum(v)"}).key_by("s").aggregate(n="count(*)")
    job = job.write(Sink.parquet(base / "out"))
    return first_epoch(job, base, TIMING, output=MAIN)


def counts(result: EpochResult) -> dict[str, Any]:
    """The part of a result that does not depend on the names of files."""
    return {
        "progress": result.progress,
        "rows_out": result.rows_out,
        "pairs": result.pairs,
        "runs": [
            [(run.entries, run.state_id, run.key_group_start) for run in operator.runs] for operator in result.operators
        ],
        "outputs": len(result.outputs),
    }


def test_an_attempt_that_is_lost_leaves_files_and_changes_no_result(tmp_path: Path) -> None:
    whole = LocalExecutor().run_epoch(task(tmp_path / "whole"), {"t": ROWS})
    lossy = LocalExecutor(lost={0, 1}).run_epoch(task(tmp_path / "lossy"), {"t": ROWS})
    assert counts(whole) == counts(lossy)
    assert whole.rows_out == 2, "the sums are 4, 7 and 4"
    named = {run.path for operator in lossy.operators for run in operator.runs}
    stored = {str(path.relative_to(tmp_path / "lossy" / "checkpoints")) for path in runs_in(tmp_path / "lossy")}
    assert named < stored
    assert len(stored) == 2 * len(named) == 2 * len(runs_in(tmp_path / "whole"))


def runs_in(base: Path) -> list[Path]:
    return [path for path in (base / "checkpoints" / paths.RUNS).rglob("*") if path.is_file()]


def test_an_epoch_without_input_keeps_the_state(tmp_path: Path) -> None:
    first = task(tmp_path)
    result = LocalExecutor().run_epoch(first, {"t": ROWS})
    later = LocalExecutor().run_epoch(replace(first, epoch=Epoch(1), state=result.operators), None)
    assert (later.operators, later.rows_out, later.outputs) == (result.operators, 0, ())


def test_what_needs_spark_is_refused(tmp_path: Path) -> None:
    given = task(tmp_path)
    first, *others = given.plan.stages
    selecting = replace(first, reads=Reads(("s",), (SqlText("SELECT * FROM t", {"t": "t"}, "s"),), ("t",)))
    with pytest.raises(InvalidJobError, match=r"needs Spark\. it_has=sql"):
        LocalExecutor().run_epoch(replace(given, plan=replace(given.plan, stages=(selecting, *others))), {"t": ROWS})
    stage = replace(first, arguments=("v + 1",))
    with pytest.raises(InvalidJobError, match=r"only Spark computes expressions.* expression=v \+ 1"):
        LocalExecutor().run_epoch(replace(given, plan=replace(given.plan, stages=(stage, *others))), {"t": ROWS})
