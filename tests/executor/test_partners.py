"""Rows of a join that are left out before the exchange: those without a partner that leave no trace, and no others."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.checkpoint.types import OperatorState
from mixedmode.errors import InvalidJobError
from mixedmode.executor import epoch_run, partners
from mixedmode.executor.local import LocalExecutor
from mixedmode.executor.partners import FEW_ROWS, MANY_ROWS, MANY_TIMES, side_to_thin
from mixedmode.executor.protocol import EpochTask
from mixedmode.job import Job, Sink, Source
from mixedmode.keys import KeySchema
from mixedmode.keys.hash import xxhash64
from mixedmode.operators.interface import KEY_COLUMN, SIDE_COLUMN, TIME_COLUMN
from mixedmode.operators.join import LEFT, RIGHT, IntervalJoinOperator
from mixedmode.operators.join.layout import JoinLayout, JoinType
from mixedmode.tasks.block_rows import BlockKind
from mixedmode.tasks.blocks import blocks_of
from mixedmode.tasks.failures import encode_failure
from mixedmode.tasks.partner_keys import hashes_in
from mixedmode.tasks.partners import Partners
from mixedmode.tasks.timing import Timing
from mixedmode.time import MAX_TIME_US, EpochTime, Strategy, WatermarkState
from tests.executor.epochs import first_epoch
from tests.harness import output_rows, run, write_parquet

KINDS: tuple[JoinType, ...] = ("inner", "left", "right", "full", "semi", "anti")
LAYOUT = JoinLayout(KeySchema((pa.field("k", pa.int64()),)), ((), ()), ())
Rows = list[tuple[int, int, bytes]]  # (side, time, key)
ROWS: st.SearchStrategy[Rows] = st.lists(
    st.tuples(st.integers(0, 1), st.integers(-5, 30), st.sampled_from([b"a", b"b", b"\0"])), max_size=12
)


def interval(kind: JoinType) -> IntervalJoinOperator:
    return IntervalJoinOperator(LAYOUT, kind, (-2, 3), None, adds_time=False)


def time_of(firing_us: int) -> EpochTime:
    return EpochTime(
        late_us=-100,
        firing_us=firing_us,
        clock_ms=0,
        clock_before_ms=None,
        is_backlog=True,
        was_backlog=None,
        is_final=firing_us == MAX_TIME_US,
    )


def table_of(rows: Rows) -> pa.Table:
    return pa.table(
        {
            KEY_COLUMN: pa.array([key for _, _, key in rows], pa.large_binary()),
            TIME_COLUMN: pa.array([time_us for _, time_us, _ in rows], pa.int64()),
            SIDE_COLUMN: pa.array([side for side, _, _ in rows], pa.uint8()),
        }
    )


@pytest.mark.parametrize("kind", KINDS)
@given(rows=ROWS, side=st.integers(0, 1), firing_us=st.sampled_from([0, 10, 25, MAX_TIME_US]))
def test_what_is_left_out_has_no_partner_and_is_neither_emitted_nor_kept(
    kind: JoinType, rows: Rows, side: int, firing_us: int
) -> None:
    operator, time = interval(kind), time_of(firing_us)
    if not operator.drops_alone(side):
        assert kind in ("full", "anti") or (kind, side) in {("left", LEFT), ("right", RIGHT)}
        return
    keys = {key for other, _, key in rows if other != side}
    hashes = xxhash64(pa.array(sorted(keys), pa.large_binary()))
    found = Partners(side, hashes, time).with_partners(operator, table_of(rows))
    reach_us = 3 if side == LEFT else 2  # how much later than the row its last partner may be
    expected = [
        row
        for row in rows
        if row[0] != side or row[2] in keys or not (firing_us == MAX_TIME_US or row[1] + reach_us < firing_us)
    ]
    columns = (found.column(name).to_pylist() for name in (SIDE_COLUMN, TIME_COLUMN, KEY_COLUMN))
    assert list(zip(*columns, strict=True)) == expected


def test_hashes_of_several_tasks_are_each_there_once_and_an_error_is_raised() -> None:
    blocks = [
        (BlockKind.ROWS, bytes(block))
        for part in ([7, 2**64 - 1], [7])
        for block in blocks_of(pa.table({KEY_COLUMN: pa.array(part, pa.uint64())}))
    ]
    assert hashes_in(blocks).tolist() == [7, 2**64 - 1]
    assert hashes_in([]).tolist() == []
    with pytest.raises(InvalidJobError, match="a wrong time"):
        hashes_in([*blocks, (BlockKind.FAILURE, encode_failure(InvalidJobError("a wrong time")))])


STRATEGY = Strategy(0, None, None)
BACKLOG = Timing(
    WatermarkState.initial({"t": STRATEGY}, 0), {"t": STRATEGY}, 0, None, {"t"}, None, True, None, fires_all=False
)
#: values 0 to 9 in each of ten seconds; only 9 is the greatest one
RECORDS = pa.table(
    {
        "v": [v for _ in range(10) for v in range(10)],
        "at": pa.array([1_000_000 * n for n in range(10) for _ in range(10)], pa.timestamp("us", "UTC")),
    }
)


def highest_values(base: Path, kind: JoinType = "inner") -> EpochTask:
    """The first epoch of a job that joins records with the greatest value of their second."""
    source = Source.parquet(base / "in", schema="v bigint, at timestamp", event_time="at")
    job = Job("highest", sources={"t": source}, mode="mixed", checkpoint_dir=base / "checkpoints")
    every = job.source("t")
    highest = every.window(name="highest", tumbling="1s").aggregate(v="max(v)")
    select = ["left.v", "left.at"]
    pairs = every.interval_join(highest, on="v", within=("0s", "1s"), type=kind, select=select, name="pairs")
    job = job.output("pairs", pairs, Sink.parquet(base / "out"))
    return first_epoch(job, base, BACKLOG, output="pairs")


def test_a_large_side_is_thinned_if_all_rows_of_the_small_one_are_there(tmp_path: Path) -> None:
    task = highest_values(tmp_path)
    stage = task.plan.stages[1]
    assert side_to_thin(task, stage, {"highest": 10, "t": MANY_ROWS}) == LEFT
    assert side_to_thin(task, stage, {"highest": 10, "t": MANY_ROWS - 1}) is None, "it is hardly worth it"
    assert side_to_thin(task, stage, {"highest": FEW_ROWS, "t": MANY_TIMES * FEW_ROWS - 1}) is None
    assert side_to_thin(task, stage, {"highest": FEW_ROWS + 1, "t": 10**9}) is None, "too many keys"
    assert side_to_thin(task, stage, {"t": 10**9}) is None, "the rows of the step are not there"
    assert side_to_thin(task, stage, {"highest": 10**9, "t": 10}) is None, "a source may have more rows than we know"


def test_nothing_is_left_out_live_nor_with_stored_rows_nor_where_rows_without_a_partner_are_kept(
    tmp_path: Path,
) -> None:
    task, sizes = highest_values(tmp_path), {"highest": 10, "t": MANY_ROWS}
    stage = task.plan.stages[1]
    live = replace(task, timing=replace(BACKLOG, backlog=frozenset(), is_backlog=False))
    assert side_to_thin(live, stage, sizes) is None
    stored = OperatorState("pairs", {}, ("a run",), parallelism=2)  # type: ignore[arg-type]
    assert side_to_thin(replace(task, state=[stored]), stage, sizes) is None
    left = highest_values(tmp_path, "left")
    assert side_to_thin(left, left.plan.stages[1], sizes) is None


def test_tasks_leave_out_what_the_watermark_has_passed_and_the_rows_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = LocalExecutor().run_epoch(highest_values(tmp_path), {"t": [RECORDS]})
    monkeypatch.setattr(partners, "MANY_ROWS", 0)
    thinned = LocalExecutor().run_epoch(highest_values(tmp_path), {"t": [RECORDS]})
    assert thinned.progress.left_out == {"pairs": 9 * 8}, "all but the greatest values of seconds that have passed"
    assert replace(thinned.progress, left_out={}) == whole.progress
    assert (thinned.rows_out, thinned.pairs, thinned.joins) == (whole.rows_out, whole.pairs, whole.joins)


@pytest.mark.spark
@pytest.mark.parametrize(
    "sql", ["SELECT v, window_time FROM highest", "SELECT initcap(v) AS v, window_time FROM highest"]
)
def test_on_spark_the_rows_are_the_same_whether_the_small_side_is_in_arrow_or_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    records = RECORDS.set_column(0, "v", RECORDS.column("v").cast(pa.string()))
    found, sides = [], list[int | None]()

    def decided(*given: Any) -> int | None:
        sides.append(side_to_thin(*given))
        return sides[-1]

    monkeypatch.setattr(epoch_run, "side_to_thin", decided)
    for least in (MANY_ROWS, 0):
        monkeypatch.setattr(partners, "MANY_ROWS", least)
        monkeypatch.setattr(partners, "MANY_TIMES", least)
        base = tmp_path / str(least)
        write_parquet(base / "in", "a.parquet", records)
        source = Source.parquet(base / "in", schema="v string, at timestamp", event_time="at")
        job = Job("highest", sources={"t": source}, mode="mixed", parallelism=2, checkpoint_dir=base / "checkpoints")
        every = job.source("t")
        highest = every.window(name="highest", tumbling="1s").aggregate(v="max(v)").sql(sql, name="few")
        pairs = every.interval_join(highest, on="v", within=("0s", "1s"), select=["left.v", "left.at"], name="pairs")
        run(job.output("pairs", pairs, Sink.parquet(base / "pairs")), spark)
        found.append(sorted(output_rows(base / "pairs"), key=repr))
    assert sides == [None, None, None, LEFT]
    assert found[0] == found[1]
    assert [row["v"] for row in found[0]] == ["9"] * 9, "the last second is open"
