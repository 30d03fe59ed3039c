"""Values over the rows before, epoch by epoch and in the backlog, against frames that plain Python lists."""

from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sortedcontainers import SortedDict

from mixedmode.config.over_calls import OverCall
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeyGroupRange, KeySchema
from mixedmode.operators.interface import Batch, SubtaskContext
from mixedmode.operators.over import OverColumn, OverOperator
from mixedmode.operators.over.columns import SortedRows
from mixedmode.operators.over.places import Places
from mixedmode.operators.top import OrderColumn, RowLayout
from mixedmode.sort import sort_table
from mixedmode.state import MemoryBackend
from mixedmode.testing import OperatorHarness
from mixedmode.time import MIN_TIME_US, EpochTime
from tests.operators.oracle import order_of
from tests.operators.over.oracle import computed
from tests.random_cases import random_cases

ROW_FIELDS = (
    pa.field("t", pa.timestamp("us", "UTC")),
    pa.field("seq", pa.int64()),
    pa.field("x", pa.int64()),
    pa.field("f", pa.float64()),
    pa.field("s", pa.string()),
    pa.field("d", pa.decimal128(6, 2)),
)
SCHEMA = "k string, t timestamp, seq bigint, x bigint, f double, s string, d decimal(6, 2)"
TYPES = {"k": pa.string()} | {field.name: field.type for field in ROW_FIELDS}
ROW = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.integers(0, 12).map(lambda ms: 1000 * ms),
    st.none() | st.integers(0, 1),
    st.none() | st.integers(-3, 3),
    st.none() | st.sampled_from([0.1, 0.2, 1e16, -1e16, -0.0, float("nan")]),
    st.none() | st.sampled_from(["", "x", "é"]),
    st.none() | st.sampled_from([Decimal("0.10"), Decimal("-9999.99"), Decimal("9999.99")]),
).map(lambda values: dict(zip(TYPES, values, strict=True)))
FRAMES = ["", *(f" rows between {first} preceding and {last}" for first, last in [
    ("unbounded", "current row"), ("unbounded", "2 preceding"), (3, "current row"), (3, "1 preceding"),
    (2, "2 preceding"),
]), *(f" range between {span} preceding and current row" for span in ("1ms", "5ms", "1s"))]  # fmt: skip
CALLS = [
    *("row_number()", "rank()", "dense_rank()", "lag(x)", "lag(f)", "lag(s, 3)", "lag(k, 2)"),
    *("lag(x, 2, -7)", "lag(s, 1, 'none')"),
    *(f"{call}{frame}" for call in [
        *("count(*)", "count(f)", "sum(x)", "sum(f)", "sum(d)", "avg(x)", "avg(f)", "min(f)", "max(f)", "min(s)"),
        *("avg(d)", "max(x)", "max(d)"),
        *("first_value(s)", "last_value(x)", "first_value(x) ignore nulls", "last_value(s) ignore nulls"),
    ] for frame in FRAMES),
]  # fmt: skip
call_of = OverCall.parse


def operator_of(calls: Mapping[str, OverCall], *, ties: bool = True) -> OverOperator:
    time = OrderColumn(pa.int64(), descending=False, nulls_first=True)
    layout = RowLayout(KeySchema((pa.field("k", pa.string()),)), (time, time) if ties else (time,), ROW_FIELDS)
    names = list(TYPES)
    columns = []
    for name, call in calls.items():
        at = None if call.argument is None else names.index(call.argument)
        data_type = None if call.argument is None else TYPES[call.argument]
        frame = (call.first, call.last, call.has_peers)
        span_us = None if call.span_ms is None else 1000 * call.span_ms
        default = None if call.default is None else pa.scalar(literal_eval(call.default), data_type)
        columns.append(OverColumn(name, call.function, at, data_type, *frame, call.ignores_nulls, span_us, default))
    return OverOperator(layout, (1,) if ties else (), tuple(columns))


def harness_of(operator: OverOperator, **more: Any) -> OperatorHarness:
    names = [field.name for field in ROW_FIELDS]
    return OperatorHarness(operator, key_by="k", schema=SCHEMA, arguments=names, event_time="t", **more)


def as_texts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    plain = [{name: _us(value) for name, value in row.items()} for row in rows]
    return sorted(repr(row) for row in plain)


def _us(value: Any) -> Any:
    return round(value.timestamp() * 1e6) if hasattr(value, "timestamp") else value


@settings(max_examples=random_cases(150))
@given(st.data())
def test_any_division_into_epochs_emits_the_values_of_plain_python(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=4))
    calls = {f"c{number}": call_of(text) for number, text in enumerate(texts)}
    ties, rows = data.draw(st.booleans()), data.draw(st.lists(ROW, max_size=40))
    ties &= all(call.span_ms is None for call in calls.values())
    backlog = data.draw(st.integers(0, len(rows)))
    harness = harness_of(
        operator_of(calls, ties=ties), backlog=backlog > 0, sort_memory=data.draw(st.sampled_from(["1KB", "1MB"]))
    )
    expected = computed(rows, calls, ["k"], lambda row: (row["t"], *((order_of(row["seq"]),) if ties else ())))
    rows.sort(key=lambda row: row["t"] // 4000)
    harness.feed(rows[:backlog])
    at = backlog
    if backlog:
        harness.flip()
        if data.draw(st.booleans()):
            harness = harness_of(operator_of(calls, ties=ties)).restore(harness.snapshot(), parallelism=2)
    while at < len(rows):
        more = data.draw(st.integers(1, 10))
        epoch, at = rows[at : at + more], at + more
        left = min((row["t"] for row in rows[at:]), default=99_000)
        harness.feed(epoch, watermark=left)
    harness.end()
    assert as_texts(harness.take()) == as_texts(expected)
    assert harness.records_late == 0


@settings(max_examples=random_cases(60))
@given(st.lists(st.sampled_from(CALLS), min_size=1, max_size=4), st.lists(ROW, max_size=30), st.data())
def test_any_division_of_the_sorted_rows_emits_the_same_and_keeps_the_same(
    texts: Sequence[str], rows: Sequence[Mapping[str, Any]], data: st.DataObject
) -> None:
    operator = operator_of({f"c{number}": call_of(text) for number, text in enumerate(texts)})
    columns = {name: pa.array([each[name] for each in rows], kind) for name, kind in TYPES.items()}
    times = np.array([each["t"] for each in rows], np.int64)
    batch = Batch([columns.pop("k")], list(columns.values()), times, weights=None)
    table = sort_table(operator.fold(batch, late_us=MIN_TIME_US, max_parallelism=2).table)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    pieces = [table.slice(start, end - start) for start, end in pairwise([0, *cuts, len(rows)])]
    assert outcome(operator, pieces) == outcome(operator, [table])


def outcome(operator: OverOperator, tables: Sequence[pa.Table]) -> tuple[list[str], SortedDict]:
    """The rows that an epoch emits whose watermark is 8,000, and what it writes."""
    time = EpochTime(MIN_TIME_US, 8000, clock_ms=0, clock_before_ms=None, is_backlog=False, was_backlog=None)
    backend = MemoryBackend(entries := SortedDict())
    changes = operator.process(iter(tables), SubtaskContext(backend, time, KeyGroupRange(0, 2), 0))
    rows = [row for change in changes for row in change.rows.to_pylist()]
    backend.commit()
    return list(map(repr, rows)), entries


def row(t: int, x: int | None, k: str = "a") -> dict[str, Any]:
    return {"k": k, "t": t, "seq": 0, "x": x, "f": None, "s": None, "d": None}


def test_a_row_waits_until_no_row_before_it_can_come() -> None:
    harness = harness_of(operator_of({"n": call_of("row_number()")}))
    harness.feed([row(20, 1), row(10, 2)], watermark=10)
    assert harness.take() == []
    harness.feed([row(10, 3)], watermark=11)
    assert [(each["x"], each["n"]) for each in harness.take()] == [(2, 1), (3, 2)]
    harness.feed([row(10, 4)])
    assert harness.records_late == 1
    harness.end()
    assert [(each["x"], each["n"]) for each in harness.take()] == [(1, 3)]


def test_the_state_has_one_entry_for_a_key_and_one_for_a_row_that_waits() -> None:
    harness = harness_of(operator_of({"before": call_of("lag(x, 2)")}))
    harness.feed([row(t, t) for t in range(10)], watermark=10)
    assert harness.state_entries == 1
    harness.feed([row(20, 1), row(20, 1), row(21, 1)])
    assert harness.state_entries == 3, "equal rows are one entry with their number"


def test_equal_rows_that_wait_are_emitted_as_often_as_they_came_beside_other_keys() -> None:
    harness = harness_of(operator_of({"n": call_of("row_number()")}), max_parallelism=1)
    harness.feed([row(1, 1, "b"), row(1, 1, "b"), row(2, 5, "a")])  # by time, the state has b first; by key, a is
    harness.end()
    assert sorted((each["k"], each["x"], each["n"]) for each in harness.take()) == [
        ("a", 5, 1),
        ("b", 1, 1),
        ("b", 1, 2),
    ]


def test_columns_in_another_order_go_on_from_what_each_has_kept() -> None:
    calls = {"total": call_of("sum(x)"), "n": call_of("count(*)")}
    harness = harness_of(operator_of(calls))
    harness.feed([row(1, 40)], watermark=2)
    harness = harness_of(operator_of(dict(reversed(calls.items())))).restore(harness.snapshot())
    harness.feed([row(2, 2)], watermark=3)
    assert [(each["total"], each["n"]) for each in harness.take()] == [(42, 2)]


def test_the_output_of_all_rows_has_no_key() -> None:
    operator = replace(operator_of({"n": call_of("count(*)")}), has_key=False)
    assert [field.name for field in operator.output_fields] == [*(field.name for field in ROW_FIELDS), "n"]
    harness = harness_of(operator)
    harness.feed([row(1, 4), row(2, 5)])
    harness.end()
    assert [(each["x"], each["n"]) for each in harness.take()] == [(4, 1), (5, 2)]


@pytest.mark.parametrize("frame", ["", " rows between 3 preceding and current row"])
def test_a_sum_that_is_too_large_is_refused(frame: str) -> None:
    harness = harness_of(operator_of({"total": call_of(f"sum(x){frame}")}))
    with pytest.raises(InvalidJobError, match="total: sum is too large for its result type"):
        harness.feed([row(1, 2**62), row(2, 2**62)], watermark=10)


@pytest.mark.parametrize("function", ["row_number", "rank", "dense_rank"])
def test_a_rank_that_is_too_large_is_refused(function: str) -> None:
    one, before = np.zeros(1, np.int64), np.array([2**31 - 1])
    rows = SortedRows(Places(one, one, before, one), {}, one, one)
    with pytest.raises(InvalidJobError, match=f"n: {function} is too large for its type.* greatest=2147483648"):
        OverColumn("n", function).of(rows, [pa.array(before)])


@pytest.mark.parametrize("frame", ["", " rows between 3 preceding and current row", " range 1h preceding"])
def test_a_sum_of_decimals_that_is_too_large_is_refused(frame: str) -> None:
    call, kind = OverCall.parse(f"sum(d){frame}"), pa.decimal128(38, 0)
    least, most = Decimal("-" + 38 * "9"), Decimal(38 * "9")
    column = OverColumn("d", "sum", 2, kind, call.first, 0, call.has_peers, span_us=10**9 if call.span_ms else None)
    time = OrderColumn(pa.int64(), descending=False, nulls_first=True)
    layout = RowLayout(KeySchema((pa.field("k", pa.string()),)), (time,), (ROW_FIELDS[0], pa.field("n", kind)))
    operator = OverOperator(layout, (), (column,))
    harness = OperatorHarness(
        operator, key_by="k", schema="k string, t timestamp, n decimal(38, 0)", arguments=["t", "n"], event_time="t"
    )
    harness.feed([{"k": "a", "t": 1, "n": least}, {"k": "a", "t": 2, "n": most}], watermark=5)
    assert [each["d"] for each in harness.take()] == [least, 0]
    with pytest.raises(InvalidJobError, match="d: sum is too large for its result type"):
        harness.feed([{"k": "a", "t": 7, "n": most}, {"k": "a", "t": 8, "n": 1}], watermark=10)
