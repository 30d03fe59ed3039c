"""Co-groups, epoch by epoch: when a group is emitted, what is late, what is kept, and that the state does not grow."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeyGroupRange, KeySchema
from mixedmode.operators.co_group import (
    CO_GROUP_FUNCTION,
    CoGroupContext,
    CoGroupFunction,
    CoGroupOperator,
    SessionCoGroupOperator,
)
from mixedmode.operators.interface import Batch, KeyedOperator, SubtaskContext
from mixedmode.operators.join import JoinLayout
from mixedmode.operators.process import OnError
from mixedmode.plan.stored_operators import described, operator_from
from mixedmode.queryable.parts import Moment
from mixedmode.queryable.views import views_of
from mixedmode.sort import sort_table
from mixedmode.state import StateRange
from mixedmode.testing import OperatorHarness
from mixedmode.time import MIN_TIME_US, EpochTime, Sliding, TimeWindows, Tumbling
from tests.operators.epochs import MemoryState

TIME = pa.field("t", pa.timestamp("us", "UTC"))
LAYOUT = JoinLayout(
    KeySchema((pa.field("k", pa.string()),)),
    ((pa.field("l", pa.int64()), TIME), (pa.field("r", pa.int64()), TIME)),
    (),
)
SCHEMA = "k string, l bigint, lt timestamp, r bigint, rt timestamp, t timestamp, _side tinyint"


class Numbers(CoGroupFunction):
    """The values of both sides, and the bounds of the window as the function sees them."""

    def co_group(self, left: pa.Table, right: pa.Table, context: CoGroupContext) -> dict[str, Any]:
        values = [str(value) for table, name in ((left, "l"), (right, "r")) for value in table[name].to_pylist()]
        return {"seen": f"{context.window_start}-{context.window_end} {' '.join(values)}"}


def common() -> dict[str, Any]:
    function = CO_GROUP_FUNCTION.named(f"{__name__}:Numbers")
    fields = (pa.field("seen", pa.string()),)
    own = {"function": function, "function_fields": fields}
    return {"layout": LAYOUT, "operator_id": "groups", "time_columns": (1, 1), **own}


def operator_of(windows: TimeWindows | int) -> CoGroupOperator | SessionCoGroupOperator:
    """Return the operator of windows of fixed bounds, or of sessions with this gap."""
    if isinstance(windows, int):
        return SessionCoGroupOperator(**common(), gap_us=windows)
    return CoGroupOperator(**common(), windows=windows)


class Picky(Numbers):
    """Fails for windows in which the left has a 13, after it has made a row."""

    def co_group(self, left: pa.Table, right: pa.Table, context: CoGroupContext) -> Any:
        yield super().co_group(left, right, context)
        if 13 in left["l"].to_pylist():
            msg = "thirteen"
            raise ValueError(msg)


def harness_of(windows: TimeWindows | int, **settings: Any) -> OperatorHarness:
    arguments = ["l", "lt", "r", "rt"]
    return OperatorHarness(
        operator_of(windows), key_by="k", schema=SCHEMA, arguments=arguments, event_time="t", **settings
    )


def left(v: int, t: int, k: str | None = "a") -> dict[str, Any]:
    return {"k": k, "l": v, "lt": t, "t": t, "_side": 0}


def right(v: int, t: int, k: str | None = "a") -> dict[str, Any]:
    return {"k": k, "r": v, "rt": t, "t": t, "_side": 1}


def seen(harness: OperatorHarness) -> list[tuple[str | None, str]]:
    return sorted(((row["k"], row["seen"]) for row in harness.take()), key=str)


def test_a_group_is_emitted_when_the_watermark_reaches_the_end_of_its_window() -> None:
    harness = harness_of(Tumbling(10))
    harness.feed([left(1, 7), right(5, 3), left(2, 10)], watermark=9)
    assert seen(harness) == []
    harness.feed([left(3, 9)], watermark=10)
    assert seen(harness) == [("a", "0-10 1 3 5")]
    harness.end()
    assert seen(harness) == [("a", "10-20 2")]
    assert harness.state_entries == 0


def test_a_row_is_late_when_all_of_its_windows_were_emitted() -> None:
    harness = harness_of(Sliding(10, 5))
    harness.feed([left(1, 7)], watermark=10)
    assert seen(harness) == [("a", "0-10 1")]
    harness.feed([left(2, 6), left(3, 4)], watermark=12)  # the windows of 3 end at 5 and 10
    assert harness.records_late == 1
    harness.end()
    assert seen(harness) == [("a", "5-15 2 1")]


def test_a_null_key_has_groups_too_and_rows_are_ordered_by_time_then_by_value() -> None:
    harness = harness_of(Tumbling(10))
    harness.feed([left(5, 3, None), left(4, 3, None), left(9, 1, None), right(1, 0)])
    harness.end()
    assert seen(harness) == [("a", "0-10 1"), (None, "0-10 9 4 5")]


def test_a_session_merges_over_both_sides_and_over_epochs() -> None:
    harness = harness_of(10)
    harness.feed([left(1, 0), right(2, 21)], watermark=9)
    harness.feed([right(3, 11), left(4, 40)], watermark=31)  # 11 touches [0, 10) not; 21 is the end of [11, 21)
    assert seen(harness) == [("a", "0-10 1")]
    harness.feed([left(5, 31), left(5, 31)], watermark=31)  # at the end of [11, 31), and near [40, 50)
    assert seen(harness) == []
    harness.feed([], watermark=50)
    assert seen(harness) == []
    harness.feed([], watermark=51)
    assert seen(harness) == [("a", "11-50 5 5 4 3 2")]
    assert harness.state_entries == 0


def test_a_session_fires_when_the_watermark_is_beyond_its_end_and_a_row_alone_behind_it_is_late() -> None:
    harness = harness_of(10)
    harness.feed([left(1, 5), right(9, 5, "b")], watermark=15)
    assert seen(harness) == []
    harness.feed([left(2, 5), right(3, 6)], watermark=16)  # [5, 15) is over at 15
    assert harness.records_late == 1
    assert seen(harness) == [("b", "5-15 9")]
    harness.end()
    assert seen(harness) == [("a", "5-16 1 3")]


def test_equal_rows_of_a_session_in_several_epochs_are_all_there() -> None:
    harness = harness_of(10)
    for _ in range(3):
        harness.feed([left(1, 5, None), right(1, 5, None), right(1, 5, None)], watermark=5)
    harness.end()
    assert seen(harness) == [(None, f"5-15 {' '.join(['1'] * 9)}")]


@pytest.mark.parametrize("windows", [Sliding(40, 20), 12])
@pytest.mark.parametrize("epochs", [120, pytest.param(1000, marks=pytest.mark.soak)])
def test_the_state_does_not_grow_over_many_epochs(epochs: int, windows: TimeWindows | int) -> None:
    harness = harness_of(windows, max_parallelism=2)  # few key groups, so that an epoch is quick
    sizes = []
    for epoch in range(epochs):
        t = 10 * epoch
        harness.feed([left(epoch, t, f"k{epoch % 5}"), right(epoch, t + 3, f"k{epoch % 3}")], watermark=t - 20)
        harness.take()
        sizes.append(harness.state_entries)
    assert max(sizes[60:]) == max(sizes[20:60])


def harness_of_function(
    function: type[CoGroupFunction],
    on_error: OnError = "fail",
    windows: TimeWindows | int = Tumbling(10),  # noqa: B008 - frozen
) -> OperatorHarness:
    source = CO_GROUP_FUNCTION.named(f"{__name__}:{function.__name__}")
    operator = replace(operator_of(windows), function=source, on_error=on_error)
    arguments = ["l", "lt", "r", "rt"]
    return OperatorHarness(operator, key_by="k", schema=SCHEMA, arguments=arguments, event_time="t")


def picky(on_error: OnError, windows: TimeWindows | int = Tumbling(10)) -> OperatorHarness:  # noqa: B008 - frozen
    harness = harness_of_function(Picky, on_error, windows)
    harness.feed([left(13, 7), right(5, 3), left(2, 8), left(1, 1, "b"), left(4, 12)])
    harness.end()
    return harness


def test_the_rows_of_a_group_that_failed_are_dead_letters_or_are_counted() -> None:
    harness = picky("dead-letter")
    assert seen(harness) == [("a", "10-20 4"), ("b", "0-10 1")]
    letters = harness.side("dead-letter")
    assert [(row["key"], row["time"].microsecond) for row in letters] == [('"a"', 7), ('"a"', 8), ('"a"', 3)]
    assert '"l": 13' in letters[0]["record"]
    assert "thirteen" in letters[2]["error"]
    harness = picky("skip", 3)  # sessions from 1, from 3, from 7 with the one of 8, and from 12
    assert seen(harness) == [("a", "12-15 4"), ("a", "3-6 5"), ("b", "1-4 1")]
    assert harness.records_skipped == 2
    harness = picky("skip")
    assert seen(harness) == [("a", "10-20 4"), ("b", "0-10 1")]
    assert harness.records_skipped == 3


def test_a_group_that_failed_stops_the_job_and_names_its_window() -> None:
    with pytest.raises(InvalidJobError) as raised:
        picky("fail")
    assert "thirteen" in str(raised.value)
    assert 'key="a", window=1970-01-01 00:00:00+00:00 to 1970-01-01 00:00:00.000010+00:00' in str(raised.value)
    assert "on-error" in str(raised.value)


class Lifecycle(Numbers):
    """Fails in one of its methods, and notes that it is closed."""

    closed: ClassVar[list[str]] = []
    fails_in: ClassVar[str] = ""

    def open(self) -> None:
        self.fail("open")

    def close(self) -> None:
        self.closed.append(self.fails_in)
        self.fail("close")

    def fail(self, method: str) -> None:
        if method == self.fails_in:
            msg = "no model"
            raise OSError(msg)


@pytest.mark.parametrize("method", ["open", "close"])
def test_a_failure_outside_of_groups_ends_the_epoch_and_the_function_is_closed(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lifecycle, "fails_in", method)
    harness = harness_of_function(Lifecycle)
    with pytest.raises(InvalidJobError) as raised:
        harness.feed([left(1, 1)])
    assert str(raised.value).startswith(f"the co-group function raised OSError: no model in `{method}`, which")
    assert "`on-error` does not apply" in str(raised.value)
    assert Lifecycle.closed[-1] == method


def stored_again(operator: CoGroupOperator | SessionCoGroupOperator) -> tuple[KeyedOperator, list[pa.Table]]:
    """Return the operator that is read back from its text, and the rows that wait in the state of each side."""
    times = pa.array([7, 7, 8], pa.timestamp("us", "UTC"))
    batch = Batch(
        keys=[pa.array(["a", "a", None])],
        arguments=[pa.array([1, 1, None]), times, pa.array([None, None, 2]), times],
        times_us=np.array([7, 7, 8]),
        weights=None,
        sides=np.array([0, 0, 1], np.uint8),
    )
    state = MemoryState()
    with state.epoch() as backend:
        table = sort_table(operator.fold(batch, late_us=MIN_TIME_US, max_parallelism=1).table)
        time = EpochTime(MIN_TIME_US, 0, 0, None, is_backlog=False, was_backlog=None)
        assert list(operator.process(iter([table]), SubtaskContext(backend, time, KeyGroupRange(0, 1), 0))) == []
    stored = described(operator)
    assert stored is not None
    views = views_of({"operator": stored, "states": [dict(one.as_json()) for one in operator.states]}, Moment(None, 0))
    found = []
    for side, view in enumerate(views.values()):
        own = [(key, value) for key, value in state.entries.items() if key[2] == side]
        found.append(view.part.decode(StateRange([key for key, _ in own], [value for _, value in own])))
    return operator_from(stored), found


def columns(rows: pa.Table, *names: str) -> list[tuple[object, ...]]:
    """Return some columns of each row. Times are microseconds."""
    found = [rows.column(name) for name in names]
    found = [one.cast(pa.int64()) if pa.types.is_timestamp(one.type) else one for one in found]
    return list(zip(*(one.to_pylist() for one in found), strict=True))


def test_the_waiting_rows_can_be_read_with_the_bounds_of_their_windows() -> None:
    operator = operator_of(Sliding(10, 5))
    again, (lefts, rights) = stored_again(operator)
    assert isinstance(again, CoGroupOperator)
    assert (again.states, again.layout, again.windows) == (operator.states, LAYOUT, Sliding(10, 5))
    bounds = ("window_start", "window_end", "k")
    assert columns(lefts, *bounds, "l") == [(0, 10, "a", 1)] * 2 + [(5, 15, "a", 1)] * 2
    assert columns(rights, *bounds, "r") == [(0, 10, None, 2), (5, 15, None, 2)]


def test_the_waiting_rows_of_sessions_can_be_read() -> None:
    operator = operator_of(10)
    again, (lefts, rights) = stored_again(operator)
    assert isinstance(again, SessionCoGroupOperator)
    assert (again.states, again.layout, again.gap_us) == (operator.states, LAYOUT, 10)
    assert (columns(lefts, "k", "l"), columns(rights, "k", "r")) == ([("a", 1)] * 2, [(None, 2)])
