"""Bounds of a range of windows, against plain Python; and the reasons why a job's windows cannot be replaced."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.plan.backfill import BackfillStep, BoundPath, around, replaced_rows
from mixedmode.time import Cumulating, Sliding, TimeWindows, Tumbling
from mixedmode.time.window_range import BOUND_TYPE, WindowRange

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KINDS = [
    (Tumbling(10), [(k * 10, k * 10 + 10) for k in range(-20, 20)]),
    (Tumbling(10, 3), [(k * 10 + 3, k * 10 + 13) for k in range(-20, 20)]),
    (Sliding(10, 4), [(k * 4, k * 4 + 10) for k in range(-40, 40)]),
    (Sliding(10, 10, 7), [(k * 10 + 7, k * 10 + 17) for k in range(-20, 20)]),
    (Cumulating(12, 4), [(k * 12, k * 12 + j) for k in range(-20, 20) for j in (4, 8, 12)]),
]


@pytest.mark.parametrize(("windows", "every"), KINDS, ids=lambda kind: type(kind).__name__)
@given(start=st.integers(-40, 40), length=st.integers(1, 60))
def test_around_a_range_is_the_smallest_one_at_which_a_window_begins_and_another_ends(
    windows: TimeWindows, every: list[tuple[int, int]], start: int, length: int
) -> None:
    end = start + length
    first = max(begin for begin, _ in every if begin <= start)
    last = min(over for _, over in every if over >= end)
    assert around([windows], WindowRange(start, end)) == WindowRange(first, last)


@pytest.mark.parametrize(("windows", "every"), KINDS, ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize(
    ("start", "end"),
    [(("from",), ("to",)), (("from",), None), (None, ("to",)), (("window", "from"), ("to",)), (None, ("window", "to"))],
    ids=str,
)
@given(start_us=st.integers(-40, 40), length=st.integers(1, 60))
def test_the_replaced_rows_are_those_of_the_windows_in_the_range(
    windows: TimeWindows,
    every: list[tuple[int, int]],
    start: BoundPath | None,
    end: BoundPath | None,
    start_us: int,
    length: int,
) -> None:
    """One bound is enough, but for the start of windows that cumulate, by which no job is planned."""
    if end is None and isinstance(windows, Cumulating):
        return
    operator: Any = SimpleNamespace(windows=windows)
    stage: Any = None
    wanted = around([windows], WindowRange(start_us, start_us + length))
    columns = zip(("from", "to"), zip(*every, strict=True), strict=True)
    bounds = {name: pa.array([*values], BOUND_TYPE) for name, values in columns}
    window = pa.StructArray.from_arrays([*bounds.values()], [*bounds])
    read = {path[0] for path in (start, end) if path is not None}
    rows = pa.table({**bounds, "window": window}).select([*read])
    found = replaced_rows(BackfillStep(stage, operator, start, end), wanted).has(rows).to_pylist()
    assert found == [wanted.start_us <= begin and over <= wanted.end_us for begin, over in every]


@given(start=st.integers(-100, 100), length=st.integers(1, 60))
def test_a_range_of_two_kinds_of_windows_begins_and_ends_with_windows_of_both(start: int, length: int) -> None:
    found = around([Tumbling(12), Tumbling(30), Sliding(12, 4)], WindowRange(start, start + length))
    assert found == WindowRange(start // 60 * 60, -(-(start + length) // 60) * 60)


def test_days_of_a_time_zone_begin_at_its_midnight() -> None:
    def us(moment: datetime) -> int:
        return (moment - _EPOCH) // timedelta(microseconds=1)

    days = Tumbling(86_400_000_000, 0, "Europe/Berlin")
    start, end = datetime(2024, 3, 30, 23, tzinfo=UTC), datetime(2024, 3, 31, 22, tzinfo=UTC)  # 23 hours
    whole, hour = WindowRange(us(start), us(end)), timedelta(hours=1)
    assert around([days], whole) == whole == around([days], WindowRange(us(start + hour), us(end - hour)))
    assert around([days], WindowRange(us(start), us(end + hour))) == WindowRange(us(start), us(end + timedelta(days=1)))
