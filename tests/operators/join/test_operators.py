"""Joins, epoch by epoch: when a row is emitted, what is late, what is kept, and that the state does not grow."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.join import AsOfJoinOperator, IntervalJoinOperator, JoinLayout, OutputColumn
from mixedmode.operators.join.layout import JoinType
from mixedmode.operators.join.ranges import ranges_within
from mixedmode.testing import OperatorHarness

VALUE, GONE = pa.field("v", pa.int64()), pa.field("gone", pa.bool_())
SCHEMA = "k string, l bigint, r bigint, gone boolean, t timestamp, _side tinyint"
LAYOUT = JoinLayout(
    KeySchema((pa.field("k", pa.string()),)),
    ((VALUE,), (VALUE, GONE)),
    (OutputColumn("l", 0, 0), OutputColumn("r", 1, 0)),
)


def as_of(**given: Any) -> AsOfJoinOperator:
    defaults = {"keeps_left": True, "strictly": False, "tolerance_us": None, "tie_break": (), "deleted": None}
    return AsOfJoinOperator(LAYOUT, **(defaults | given), event_time=None)


def interval(kind: JoinType, lower_us: int, upper_us: int) -> IntervalJoinOperator:
    return IntervalJoinOperator(LAYOUT, kind, (lower_us, upper_us), event_time=None, adds_time=False)


def harness_of(operator: AsOfJoinOperator | IntervalJoinOperator, **settings: Any) -> OperatorHarness:
    return OperatorHarness(
        operator, key_by="k", schema=SCHEMA, arguments=["l", "r", "gone"], event_time="t", **settings
    )


def left(v: int, t: int, k: str | None = "a") -> dict[str, Any]:
    return {"k": k, "l": v, "t": t, "_side": 0}


def right(v: int, t: int, k: str | None = "a", *, gone: bool | None = None) -> dict[str, Any]:
    return {"k": k, "r": v, "gone": gone, "t": t, "_side": 1}


def pairs(harness: OperatorHarness) -> list[tuple[int | None, int | None]]:
    return sorted(((row["l"], row["r"]) for row in harness.take()), key=str)


def test_a_row_of_the_left_waits_until_the_watermark_has_passed_its_time() -> None:
    harness = harness_of(as_of())
    harness.feed([left(1, 20), right(7, 5)], watermark=20)
    assert pairs(harness) == [], "a row of the right at 20 may come"
    harness.feed([right(8, 20)], watermark=21)
    assert pairs(harness) == [(1, 8)]
    harness.feed([left(2, 30)])
    harness.end()
    assert pairs(harness) == [(2, 8)], "the version is kept"


def test_a_strict_join_takes_an_earlier_version_only() -> None:
    harness = harness_of(as_of(strictly=True))
    harness.feed([right(7, 5), right(8, 20), left(1, 20), left(2, 5)])
    harness.end()
    assert pairs(harness) == [(1, 7), (2, None)]


def test_a_version_that_is_too_old_is_none() -> None:
    harness = harness_of(as_of(tolerance_us=10))
    harness.feed([right(7, 0)], watermark=5)
    harness.feed([left(1, 10), left(2, 11)])
    harness.end()
    assert pairs(harness) == [(1, 7), (2, None)]


def test_an_inner_join_drops_rows_without_a_version_and_with_null_in_the_key() -> None:
    harness = harness_of(as_of(keeps_left=False))
    harness.feed([right(7, 0), right(8, 0, None), left(1, 1), left(2, 1, "b"), left(3, 1, None)])
    harness.end()
    assert pairs(harness) == [(1, 7)]


def test_null_is_equal_to_nothing() -> None:
    for operator in (as_of(), interval("full", 0, 0)):
        harness = harness_of(operator)
        harness.feed([right(8, 1, None), left(3, 1, None)])
        harness.end()
        kept = [] if isinstance(operator, AsOfJoinOperator) else [(None, 8)]
        assert pairs(harness) == [(3, None), *kept]


def test_a_deletion_ends_the_version_also_in_the_state() -> None:
    harness = harness_of(as_of(deleted=1))
    harness.feed([right(7, 0)], watermark=1)
    kept = harness.state_entries
    assert kept == 1
    harness.feed([left(1, 4), right(0, 5, gone=True), left(2, 6)], watermark=7)
    assert pairs(harness) == [(1, 7), (2, None)]
    assert harness.state_entries == 0
    harness.feed([left(3, 9), right(9, 10, gone=False), left(4, 11)])
    harness.end()
    assert pairs(harness) == [(3, None), (4, 9)]


def test_the_greatest_tie_break_counts_and_null_is_the_least() -> None:
    harness = harness_of(as_of(tie_break=(0,)))
    harness.feed([right(7, 0), right(9, 0), {**right(0, 0), "r": None}, right(8, 0), left(1, 0)])
    harness.end()
    assert pairs(harness) == [(1, 9)]


def test_two_versions_of_one_time_stop_the_job_without_tie_break() -> None:
    harness = harness_of(as_of())
    harness.feed([right(7, 5), right(7, 5), left(1, 6)], watermark=7)
    assert pairs(harness) == [(1, 7)], "equal rows leave no doubt"
    with pytest.raises(InvalidJobError, match=r"`tie-break`.*k=a, time=1970-01-01 00:00:00\.000009\+00:00"):
        harness.feed([right(7, 9), right(8, 9)], watermark=10)


def test_a_job_that_stops_at_two_versions_of_one_time_goes_on_with_a_tie_break() -> None:
    stopped = harness_of(as_of())
    stopped.feed([right(7, 5), right(9, 5), right(8, 5), left(1, 6)], watermark=5)
    with pytest.raises(InvalidJobError, match="two of them differ"):
        stopped.advance_watermark(7)
    harness = harness_of(as_of(tie_break=(0,))).restore(stopped.snapshot())
    harness.advance_watermark(7)
    assert pairs(harness) == [(1, 9)]


@pytest.mark.parametrize("operator", [as_of(), interval("full", 0, 0)])
def test_rows_of_either_side_before_the_watermark_are_late(operator: AsOfJoinOperator) -> None:
    harness = harness_of(operator)
    harness.feed([left(1, 20)], watermark=15)
    harness.feed([left(2, 14), right(3, 14), right(4, 15)])
    assert harness.records_late == 2
    harness.end()
    assert (2, None) not in pairs(harness)


def test_equal_rows_that_wait_are_all_emitted() -> None:
    for operator in (as_of(), interval("left", 0, 5)):
        harness = harness_of(operator)
        harness.feed([left(1, 20), left(1, 20)], watermark=10)
        harness.feed([left(1, 20)], watermark=12)
        harness.end()
        assert pairs(harness) == [(1, None)] * 3


def test_a_pair_is_emitted_when_its_second_row_arrives() -> None:
    harness = harness_of(interval("inner", -10, 10))
    harness.feed([left(1, 20)], watermark=1)
    assert pairs(harness) == []
    harness.feed([right(7, 10), right(8, 9), right(9, 30), right(6, 31)], watermark=2)
    assert pairs(harness) == [(1, 7), (1, 9)]
    harness.feed([left(2, 20)], watermark=3)
    assert pairs(harness) == [(2, 7), (2, 9)], "the first row of the left is not joined again"


def test_a_row_without_a_partner_is_emitted_once_none_can_come() -> None:
    harness = harness_of(interval("full", -10, 10))
    harness.feed([left(1, 20), right(7, 50)], watermark=30)
    assert pairs(harness) == [], "a partner at 30 may come"
    harness.advance_watermark(31)
    assert pairs(harness) == [(1, None)]
    harness.advance_watermark(61)
    assert pairs(harness) == [(None, 7)]
    assert harness.state_entries == 0


def test_semi_and_anti_joins_emit_each_row_of_the_left_once() -> None:
    semi, anti = harness_of(interval("semi", 0, 10)), harness_of(interval("anti", 0, 10))
    for harness in (semi, anti):
        harness.feed([left(1, 20), left(2, 40), right(7, 21)], watermark=5)
        harness.feed([right(8, 22)], watermark=6)
        harness.end()
    assert [row["l"] for row in semi.take()] == [1]
    assert [row["l"] for row in anti.take()] == [2]


def test_a_version_is_forgotten_once_no_row_can_meet_it() -> None:
    harness = harness_of(as_of(tolerance_us=10))
    harness.feed([right(7, 20), right(8, 25, "b")], watermark=29)
    assert harness.state_entries == 4, "two versions, and when to look at them"
    harness.feed([right(9, 29)], watermark=30)
    harness.feed([left(1, 30), left(2, 35, "b")], watermark=35)
    assert pairs(harness) == [(1, 9)]
    assert harness.state_entries == 5, "the row at 35 waits"
    harness.advance_watermark(36)
    assert pairs(harness) == [(2, 8)]
    assert harness.state_entries == 2
    harness.advance_watermark(39)
    assert harness.state_entries == 2, "a row at 39 may meet the version of 29"
    harness.advance_watermark(40)
    assert harness.state_entries == 0


def test_a_deletion_leaves_no_version_to_forget_and_a_later_version_is_forgotten() -> None:
    harness = harness_of(as_of(tolerance_us=10, deleted=1))
    harness.feed([right(7, 20)], watermark=21)
    harness.feed([right(0, 22, gone=True)], watermark=23)
    harness.feed([right(8, 24)], watermark=25)
    harness.advance_watermark(34)
    harness.feed([left(1, 34)], watermark=35)
    assert pairs(harness) == [(1, 8)]
    assert harness.state_entries == 0


@pytest.mark.parametrize("end", ["greatest", "max"])
def test_versions_of_the_backlog_are_met_and_forgotten_live(end: str) -> None:
    harness = harness_of(as_of(tolerance_us=10), backlog=True, end_of_key_watermark=end)
    harness.feed([right(7, 20), right(8, 31, "b"), left(5, 40, "c")], watermark=30)
    harness.flip()
    harness.feed([left(1, 30), left(2, 31)], watermark=32)
    assert [pair for pair in pairs(harness) if pair[0] != 5] == [(1, 7), (2, None)]
    harness.advance_watermark(42)
    assert harness.state_entries == 0


@pytest.mark.parametrize("epochs", [120, pytest.param(1000, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("operator", "keys"),
    [(as_of(), 5), (as_of(tolerance_us=50), 1000), (interval("full", -30, 30), 1000)],
    ids=["as-of", "as-of-with-tolerance", "interval"],
)
def test_the_state_does_not_grow_over_many_epochs(
    operator: AsOfJoinOperator | IntervalJoinOperator, keys: int, epochs: int
) -> None:
    """Without a tolerance, a version is kept for each key; else keys that never come again leave nothing."""
    harness = harness_of(operator, max_parallelism=1)  # one key group, so that an epoch is quick
    sizes = []
    for epoch in range(epochs):
        t = 10 * epoch
        harness.feed([left(epoch, t, f"k{epoch % keys}"), right(epoch, t + 3, f"k{epoch % keys}")], watermark=t - 20)
        harness.take()
        sizes.append(harness.state_entries)
    assert max(sizes[epochs // 2 :]) == max(sizes[20 : epochs // 2]) < 40


def test_pairs_are_made_in_blocks() -> None:
    codes = np.zeros(1000, np.int64)
    times = np.arange(1000)
    found = ranges_within((codes, times), (codes, times), (0, 999), np.ones(1, np.bool_))
    blocks = list(found.pairs(1000))
    assert all(len(of_left) <= 1000 for of_left, _ in blocks)
    every = Counter(pair for block in blocks for pair in zip(*(side.tolist() for side in block), strict=True))
    assert every == Counter((i, j) for i in range(1000) for j in range(i, 1000))


def test_times_at_the_ends_of_time_do_not_overflow() -> None:
    greatest = 2**63 - 2
    codes, times = np.array([0, 1]), np.array([greatest, -greatest])
    found = ranges_within((codes, times), (codes, times), (-5, 5), np.ones(2, np.bool_))
    assert [list(map(int, pair)) for pair in zip(found.starts, found.ends, strict=True)] == [[0, 1], [1, 2]]
