"""An operator that is built from its description computes what the described one computes."""

import json
from typing import Any

import pyarrow as pa
import pytest

from mixedmode.config.calls import AGGREGATE_FUNCTIONS
from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import (
    AggregateOperator,
    CheckedUpsertOperator,
    Column,
    FunctionCall,
    MultisetAggregateOperator,
    MultisetAggregator,
    aggregator_for,
)
from mixedmode.operators.aggregate.calls import call_as_json, call_from_json
from mixedmode.operators.apply_changes import ApplyChangesOperator
from mixedmode.operators.async_map import ASYNC_MAP_FUNCTION, AsyncMapOperator, CallSettings
from mixedmode.operators.classes import NamedClass
from mixedmode.operators.deduplicate import DeduplicateOperator
from mixedmode.operators.final import FinalOperator
from mixedmode.operators.interface import KeyedOperator
from mixedmode.operators.join import RIGHT, JoinLayout, RegularJoinOperator
from mixedmode.operators.over import OverColumn, OverOperator
from mixedmode.operators.top import OrderColumn, RowLayout, TopOperator
from mixedmode.operators.window import (
    CountWindowAggregateOperator,
    SessionAggregateOperator,
    TimeWindowAggregateOperator,
)
from mixedmode.plan.stored_operators import described, function_of, operator_from
from mixedmode.time import Cumulating, Sliding, Tumbling

KEYS = KeySchema((pa.field("k", pa.string()), pa.field("day", pa.timestamp("us", "Europe/Berlin"))))
DECIMAL = pa.decimal128(12, 3)
CALLS = {
    "n": FunctionCall("count", None, has_event_time=True),
    "total": FunctionCall("sum", Column(0, DECIMAL), has_event_time=True),
    "some": FunctionCall("sum", Column(0, DECIMAL), has_event_time=True, condition=Column(2, pa.bool_())),
    "newest": FunctionCall("last", Column(1, pa.string()), has_event_time=True),
    "best": FunctionCall("max_by", Column(1, pa.string()), has_event_time=True, by=Column(0, DECIMAL)),
    "some_values": FunctionCall("collect_list", Column(1, pa.string()), has_event_time=True, parameters=(5.0,)),
}
AGGREGATOR = aggregator_for(
    {name: function_of(call, name) for name, call in CALLS.items()}, arguments=3, counts_rows=True
)
TYPES = (DECIMAL, pa.string(), pa.bool_())
MULTISET = MultisetAggregator(AGGREGATOR.outputs, AGGREGATOR.registers, 3, TYPES)
LAYOUT = RowLayout(
    KEYS,
    (OrderColumn(pa.float64(), descending=True, nulls_first=False), OrderColumn(pa.string(), False, True)),
    (pa.field("v", pa.float64()), pa.field("amount", DECIMAL)),
)


def window(windows: Any, **more: Any) -> TimeWindowAggregateOperator:
    settings = {"allowed_lateness_us": 0, "early_every_ms": None, "emits_retractions": False, **more}
    return TimeWindowAggregateOperator(AGGREGATOR, KEYS, windows, **settings)


OPERATORS: list[KeyedOperator] = [
    AggregateOperator(AGGREGATOR, KEYS, is_changelog=True, emits_retractions=False),
    MultisetAggregateOperator(AGGREGATOR, KEYS, TYPES, emits_retractions=False),
    window(Tumbling(86_400_000_000, 5, "Europe/Berlin")),
    window(Sliding(60, 20), allowed_lateness_us=7, early_every_ms=100),
    window(Cumulating(60, 20, 3), early_every_ms=100, emits_retractions=True),
    SessionAggregateOperator(AGGREGATOR, None, 30, 5, None, emits_retractions=False),
    SessionAggregateOperator(MULTISET, KEYS, 30, 5, None, emits_retractions=False),
    CountWindowAggregateOperator(AGGREGATOR, KEYS, 3),
    TopOperator(LAYOUT, (), 3, is_changelog=True, has_rank=False),
    DeduplicateOperator(LAYOUT, (), waits=True, within_us=60, has_event_time=True),
    OverOperator(LAYOUT, (), (OverColumn("n", "count", has_peers=True, span_us=60),)),
    OverOperator(LAYOUT, (), (OverColumn("n", "row_number"), OverColumn("before", "lag", 3, DECIMAL, 2, 2))),
    OverOperator(
        LAYOUT,
        (),
        (
            OverColumn("total", "sum", 2, pa.float64(), has_peers=True),
            OverColumn("seen", "last_value", 0, pa.string(), ignores_nulls=True),
            OverColumn("rows", "count", None, None, 5, 1),
        ),
        has_key=False,
    ),
    ApplyChangesOperator(LAYOUT, (), deletes=True, tracked=None, where=""),
    ApplyChangesOperator(LAYOUT, (), deletes=False, tracked=(0, 1), where=""),
    AsyncMapOperator(
        "asked",
        NamedClass(ASYNC_MAP_FUNCTION, "a", "B"),
        KEYS,
        (),
        (pa.field("n", pa.int64()), pa.field("amount", DECIMAL)),
        CallSettings(batch_size=5, capacity=6, timeout_ms=7, retries=8, backoff_ms=9),
        remember_ms=1000,
    ),
]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: type(operator).__name__)
def test_a_described_operator_is_built_again_from_json(operator: KeyedOperator) -> None:
    stored = described(operator)
    assert stored is not None
    found = operator_from(json.loads(json.dumps(stored)))
    assert (found.states, found.output_fields) == (operator.states, operator.output_fields)
    assert json.dumps(described(found)) == json.dumps(stored)
    assert json.loads(json.dumps(stored)) == stored, "a manifest holds JSON values only"


@pytest.mark.parametrize("operator", OPERATORS[:6], ids=lambda operator: type(operator).__name__)
def test_a_rebuilt_aggregator_has_the_same_registers_in_the_same_order(operator: Any) -> None:
    found: Any = operator_from(described(operator) or {})
    assert found.aggregator.registers == operator.aggregator.registers
    assert found.aggregator.result_fields == operator.aggregator.result_fields


def test_the_state_of_a_checked_upsert_is_a_count_of_each_key() -> None:
    operator = CheckedUpsertOperator(KEYS, (pa.field("v", pa.int64()),))
    stored = described(operator)
    assert stored is not None
    assert operator_from(stored).states == operator.states
    assert [field.name for field in operator_from(stored).output_fields] == ["k", "day", "rows"]


def test_a_description_without_the_names_of_the_right_is_read_with_those_of_the_left() -> None:
    layout = JoinLayout(KEYS, ((pa.field("v", pa.int64()),), ()), (), right_keys=("other", "date"))
    stored = described(RegularJoinOperator(layout, "inner", is_changelog=False))
    assert stored is not None
    assert [field.name for field in keys_on_the_right(stored)] == ["other", "date"]
    del stored["right-keys"]
    assert [field.name for field in keys_on_the_right(stored)] == ["k", "day"]


def keys_on_the_right(stored: dict[str, Any]) -> tuple[pa.Field, ...]:
    found = operator_from(stored)
    assert isinstance(found, RegularJoinOperator)
    return found.layout.keys_on(RIGHT)


def test_an_operator_without_state_has_no_description() -> None:
    assert described(FinalOperator(OPERATORS[0])) is None


@pytest.mark.parametrize("function", sorted(AGGREGATE_FUNCTIONS.keys() - {"count"}))
def test_the_call_of_every_aggregate_survives_json(function: str) -> None:
    call = FunctionCall(
        function, Column(1, pa.int64()), has_event_time=True, by=Column(0, DECIMAL), parameters=(0.5, 9.0)
    )
    assert call_from_json(json.loads(json.dumps(call_as_json(call)))) == call


def test_a_count_of_a_type_without_a_name_is_described() -> None:
    call = FunctionCall("count", Column(0, pa.list_(pa.int8())), has_event_time=False)
    found = call_from_json(call_as_json(call))
    assert function_of(found, "n").registers == function_of(call, "n").registers
