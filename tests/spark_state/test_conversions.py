"""State of Spark's windows, sessions and keys as entries that the operators of the steps read."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from sortedcontainers import SortedDict

from mixedmode.config import KeyedAggregateStep
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeyGroupRange
from mixedmode.operators.interface import KeyedOperator, SideRows, SubtaskContext
from mixedmode.operators.window import SessionAggregateOperator, TimeWindowAggregateOperator
from mixedmode.plan.keyed_operators import StepColumns, aggregate_operator
from mixedmode.sort import sort_table
from mixedmode.spark_state.buffers import buffers_of
from mixedmode.spark_state.conversions import Sessions, Windows
from mixedmode.spark_state.entries import Entries
from mixedmode.spark_state.keys import KeyColumns
from mixedmode.spark_state.matching import check_watermarks
from mixedmode.spark_state.progress import SparkProgress
from mixedmode.state import MemoryBackend
from mixedmode.time import EpochTime
from tests.spark_state.test_keys import BOUNDS

GROUPS = 8
KEY = pa.field("k", pa.string())
SECOND = 1_000_000


def operator(window: dict[str, str]) -> KeyedOperator:
    step = KeyedAggregateStep.model_validate({"key-by": "k", "window": window, "aggregate": {"s": "sum(v)"}})
    columns = StepColumns((KEY,), {"v": pa.int64()}, has_event_time=True, is_changelog=False)
    return aggregate_operator(step, columns, lambda *_: "step")


def windows(size: str) -> Windows:
    made = operator({"tumbling": size})
    assert isinstance(made, TimeWindowAggregateOperator)
    return Windows(made, KeyColumns((KEY,), (1,), window=0), buffers_of(made.aggregator, "step"), 100 * SECOND)


def sessions(gap: str) -> Sessions:
    made = operator({"session": gap})
    assert isinstance(made, SessionAggregateOperator)
    return Sessions(made, KeyColumns((KEY,), (1,), window=0), buffers_of(made.aggregator, "step"), 100 * SECOND)


def bounds(*found: tuple[int, int]) -> pa.Array:
    return pa.array([{"start": start * SECOND, "end": end * SECOND} for start, end in found], BOUNDS)


def fired(made: KeyedOperator, entries: Iterable[Entries], until: int) -> list[dict[str, Any]]:
    """The rows that a step emits of imported state when the watermark goes from 100 to `until` seconds."""
    stored = SortedDict()
    for one in entries:
        stored.update(zip(one.keys.to_pylist(), one.values.to_pylist(), strict=True))
    time = EpochTime(100 * SECOND, until * SECOND, 0, 0, is_backlog=False, was_backlog=False)
    context = SubtaskContext(MemoryBackend(stored), time, KeyGroupRange(0, GROUPS), epoch=1)
    table = sort_table(pa.concat_tables(made.due(context)))
    changes = made.process(iter([table]), context)
    return [row for one in changes if not isinstance(one, SideRows) for row in one.upserts().to_pylist()]


def test_windows_fire_with_their_results_when_the_watermark_passes_them() -> None:
    made = windows("10s")
    columns = [bounds((100, 110), (110, 120), (120, 130)), pa.array(["a", None, "a"])]
    entries = made.entries(columns, [pa.array([1, 2, None], pa.int64())], max_parallelism=GROUPS)
    rows = fired(made.operator, entries, until=120)
    assert sorted((row["k"] or "", row["s"]) for row in rows) == [("", 2), ("a", 1)]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ((105, 115), r"window_in_spark=\[1970-01-01T00:01:45"),
        ((100, 120), "not the same query"),
        ((90, 100), "windows that its watermark has passed"),
    ],
)
def test_a_window_that_the_step_does_not_have_is_refused(found: tuple[int, int], words: str) -> None:
    columns = [bounds((110, 120), found), pa.array(["a", "b"])]
    with pytest.raises(InvalidJobError, match=words):
        windows("10s").entries(columns, [pa.array([1, 2])], max_parallelism=GROUPS)


def test_a_session_has_an_entry_by_key_and_one_by_its_end() -> None:
    made = sessions("10s")
    values = [bounds((95, 107), (110, 120)), pa.array(["a", "b"]), pa.array([1, 2])]
    found = made.entries(values[1:2], values, max_parallelism=GROUPS)
    assert [len(one.keys) for one in found] == [2, 2]
    assert [one.state_id for one in found] == [0, 1]


def test_a_session_shorter_than_the_gap_is_refused() -> None:
    values: Sequence[pa.Array] = [bounds((95, 107), (110, 120)), pa.array(["a", "b"]), pa.array([1, 2])]
    with pytest.raises(InvalidJobError, match="gap_us=11000000, shortest_session_us=10000000"):
        sessions("11s").entries(values[1:2], values, max_parallelism=GROUPS)


def test_the_watermark_of_the_fastest_of_several_sources_is_refused() -> None:
    progress = SparkProgress(1, 0, 0, 0, (), {"spark.sql.streaming.multipleWatermarkPolicy": "max"})
    check_watermarks(progress, {"a": 1})
    with pytest.raises(InvalidJobError, match="sources=a, b"):
        check_watermarks(progress, {"a": 1, "b": 1})
