"""Joins with `end-of-key-watermark: max`: the backlog is joined by itself, and only the last versions live on.

The oracle is plain Python. Live rows may be earlier than rows of the backlog, as long as they are not late.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.operators.join.layout import JoinType
from tests.operators.join.test_operators import as_of, harness_of, interval, left, right
from tests.random_cases import random_cases

WATERMARK_US = 10  #: of the backlog, whose rows are up to 20

some_key = st.sampled_from(["a", "b"])
Row = dict[str, Any]


def some_rows(earliest_us: int) -> st.SearchStrategy[list[Row]]:
    times, values = st.integers(earliest_us, 20), st.integers(0, 3)
    gone = st.sampled_from([None, None, True])
    row = st.builds(left, values, times, some_key) | st.builds(right, values, times, some_key, gone=gone)
    return st.lists(row, max_size=12)


def is_right(row: Row) -> bool:
    return bool(row["_side"] == 1)


def rank(row: Row) -> tuple[int, int, bool]:
    return row["t"], row["r"], row["gone"] is not None


def in_force(row: Row, versions: list[Row], *, strictly: bool, tolerance_us: int | None) -> int | None:
    """Return the value of the last version of the key at the time of a row; of one time, the greatest."""
    begun = [one for one in versions if one["t"] < row["t"] or (one["t"] == row["t"] and not strictly)]
    found = max(begun, key=rank, default=None)
    if found is None or found["gone"] or (tolerance_us is not None and row["t"] - found["t"] > tolerance_us):
        return None
    return int(found["r"])


def by_value(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(found, key=str)


@settings(max_examples=random_cases(40))
@given(
    some_rows(0), some_rows(WATERMARK_US), st.booleans(), st.sampled_from([None, 3]), st.sampled_from(["200B", "64MB"])
)
def test_a_live_row_meets_the_last_version_of_the_backlog_or_a_later_one(
    backlog: list[Row], live: list[Row], strictly: bool, tolerance_us: int | None, memory: str
) -> None:
    join = as_of(strictly=strictly, tolerance_us=tolerance_us, tie_break=(0, 1), deleted=1)
    harness = harness_of(join, backlog=True, end_of_key_watermark="max", sort_memory=memory)
    harness.feed(backlog, watermark=WATERMARK_US)
    harness.flip()
    harness.feed(live)
    harness.end()
    expected = []
    for number, part in enumerate((backlog, live)):
        for row in part:
            if is_right(row):
                continue
            before = [one for one in backlog if is_right(one) and one["k"] == row["k"]]
            last = sorted(before, key=rank)[-1:]
            kept = [one for one in last if not one["gone"]]  # none that has ended lives on
            own = [one for one in live if is_right(one) and one["k"] == row["k"]]
            versions = [*kept, *own] if number else before
            expected.append((row["l"], in_force(row, versions, strictly=strictly, tolerance_us=tolerance_us)))
    assert by_value([(row["l"], row["r"]) for row in harness.take()]) == by_value(expected)


@pytest.mark.parametrize("memory", ["200B", "64MB"])
def test_a_live_version_of_the_time_of_the_last_one_of_the_backlog_has_to_equal_it_without_tie_break(
    memory: str,
) -> None:
    harness = harness_of(as_of(), backlog=True, end_of_key_watermark="max", sort_memory=memory)
    harness.feed([right(7, 15), right(5, 12), right(9, 18, "b")], watermark=WATERMARK_US)
    harness.flip()
    harness.feed([right(7, 15), right(6, 12), left(1, 14), left(2, 15)], watermark=16)
    assert by_value([(row["l"], row["r"]) for row in harness.take()]) == [(1, 6), (2, 7)]
    with pytest.raises(InvalidJobError, match=r"two of them differ.*k=b, time=1970-01-01 00:00:00\.000018"):
        harness.feed([right(8, 18, "b")], watermark=19)


@settings(max_examples=random_cases(50))
@given(some_rows(0), some_rows(WATERMARK_US), st.sampled_from(["inner", "left", "right", "full"]))
def test_no_row_of_the_backlog_is_a_partner_of_a_live_one(backlog: list[Row], live: list[Row], kind: JoinType) -> None:
    harness = harness_of(interval(kind, -3, 3), backlog=True, end_of_key_watermark="max")
    harness.feed(backlog, watermark=WATERMARK_US)
    harness.flip()
    assert harness.state_entries == 0
    harness.feed(live)
    harness.end()
    expected = list[tuple[Any, ...]]()
    for part in (backlog, live):
        lefts, rights = ([row for row in part if is_right(row) == side] for side in (False, True))
        pairs = [(a, b) for a in lefts for b in rights if a["k"] == b["k"] and abs(b["t"] - a["t"]) <= 3]
        expected += [(a["l"], b["r"]) for a, b in pairs]
        if kind in ("left", "full"):
            expected += [(a["l"], None) for a in lefts if not any(a is one for one, _ in pairs)]
        if kind in ("right", "full"):
            expected += [(None, b["r"]) for b in rights if not any(b is one for _, one in pairs)]
    assert by_value([(row["l"], row["r"]) for row in harness.take()]) == by_value(expected)
