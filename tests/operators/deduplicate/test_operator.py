"""One row per key: which rows are late, what waits in the state, and when a key is forgotten."""

from typing import Any

import pyarrow as pa
import pytest

from mixedmode.keys import KeySchema
from mixedmode.operators.deduplicate import DeduplicateOperator
from mixedmode.operators.interface import Changelog
from mixedmode.operators.top import OrderColumn, RowLayout
from mixedmode.testing import OperatorHarness

TIME = OrderColumn(pa.int64(), descending=False, nulls_first=True)
SCHEMA = "k string, v bigint, t timestamp"


def operator_of(*, waits: bool, within_us: int | None = None) -> DeduplicateOperator:
    fields = (pa.field("v", pa.int64()), pa.field("t", pa.timestamp("us", "UTC")))
    layout = RowLayout(KeySchema((pa.field("k", pa.string()),)), (TIME,), fields)
    return DeduplicateOperator(layout, (), waits=waits, within_us=within_us, has_event_time=True)


def harness_of(operator: DeduplicateOperator, **settings: Any) -> OperatorHarness:
    return OperatorHarness(operator, key_by="k", schema=SCHEMA, arguments=["v", "t"], event_time="t", **settings)


def row(v: int, t: int, k: str = "a") -> dict[str, Any]:
    return {"k": k, "v": v, "t": t}


def values(harness: OperatorHarness) -> list[int]:
    return [each["v"] for each in harness.take()]


def test_a_first_row_is_emitted_once_the_watermark_has_passed_its_time() -> None:
    harness = harness_of(operator_of(waits=True))
    harness.feed([row(1, 20), row(2, 10)], watermark=10)
    assert values(harness) == [], "another row of time 10 may come"
    harness.feed([row(3, 10, "b")], watermark=11)
    assert sorted(values(harness)) == [2, 3]
    harness.end()
    assert values(harness) == [], "the row at 20 is a duplicate"


def test_rows_before_the_watermark_are_late_and_counted() -> None:
    harness = harness_of(operator_of(waits=True))
    harness.feed([row(1, 20)], watermark=15)
    harness.feed([row(2, 14), row(3, 15)], watermark=15)
    assert harness.records_late == 1
    harness.end()
    assert values(harness) == [3]


def test_a_key_is_forgotten_so_long_after_its_row() -> None:
    harness = harness_of(operator_of(waits=True, within_us=100))
    harness.feed([row(1, 0), row(2, 99)], watermark=1)
    assert values(harness) == [1]
    assert harness.state_entries == 2, "the key, and when it is forgotten; the row at 99 is a duplicate"
    harness.advance_watermark(99)
    assert harness.state_entries == 2
    harness.advance_watermark(100)
    assert harness.state_entries == 0
    harness.feed([row(3, 100)], watermark=101)
    assert values(harness) == [3], "the first row after it"


def test_any_row_is_emitted_at_once_and_only_one() -> None:
    harness = harness_of(operator_of(waits=False))
    harness.feed([row(1, 20), row(2, 10)])
    assert values(harness) == [2], "of one epoch, the first by time"
    harness.feed([row(3, 0), row(4, 30), row(5, 0, "b")])
    assert values(harness) == [5]


def test_any_row_within_a_time_drops_late_rows_so_that_no_duplicate_comes_back() -> None:
    harness = harness_of(operator_of(waits=False, within_us=10))
    harness.feed([row(1, 0)], watermark=10)
    assert harness.state_entries == 0
    harness.feed([row(2, 9)], watermark=10)
    assert harness.records_late == 1
    assert values(harness) == [1]


def test_a_row_waits_in_the_state_until_its_time_and_leaves_nothing_but_its_key() -> None:
    harness = harness_of(operator_of(waits=True), parallelism=2, max_parallelism=4)
    harness.feed([row(number, 10 + number, f"k{number}") for number in range(20)], watermark=10)
    assert harness.state_entries == 20
    harness.advance_watermark(20)
    assert sorted(values(harness)) == list(range(10))
    assert harness.state_entries == 20, "ten keys, and ten rows that wait"


def test_the_first_row_needs_event_time() -> None:
    with pytest.raises(AssertionError):
        DeduplicateOperator(operator_of(waits=True).layout, (), waits=True, within_us=None, has_event_time=False)


def test_only_operators_that_never_change_a_row_say_so() -> None:
    assert operator_of(waits=True).traits.emits is Changelog.APPEND
    assert operator_of(waits=True).output_key == ()
