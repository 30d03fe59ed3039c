"""Operators as JSON: the manifest keeps them, so that stored state can be read without the job file.

A description has all that gives stored bytes a meaning: key columns, calls, windows, the layout of rows. Its names do
not depend on names of Python. Operators without state have no description. A process function is described by the
states that it declares, because nothing of it has to run again.

Invariant (tests/plan/test_stored_operators.py): operator_from(described(o)) has the states and the columns of o, and
computes the same results from its state.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from mixedmode.errors import CorruptStateError
from mixedmode.keys import KeySchema
from mixedmode.keys.type_names import TypeName, type_name, type_named
from mixedmode.operators.aggregate import (
    AggregateFunction,
    AggregateOperator,
    Aggregator,
    CheckedUpsertOperator,
    FunctionCall,
    MultisetAggregateOperator,
    MultisetAggregator,
    aggregate_function,
    aggregator_for,
)
from mixedmode.operators.aggregate.calls import call_as_json, call_from_json
from mixedmode.operators.apply_changes import ApplyChangesOperator
from mixedmode.operators.async_map import ASYNC_MAP_FUNCTION, AsyncMapOperator, CallSettings
from mixedmode.operators.classes import NamedClass
from mixedmode.operators.co_group import CO_GROUP_FUNCTION, CoGroupBase, CoGroupOperator, SessionCoGroupOperator
from mixedmode.operators.deduplicate import DeduplicateOperator
from mixedmode.operators.interface import KeyedOperator
from mixedmode.operators.join import AsOfJoinOperator, IntervalJoinOperator, JoinLayout, RegularJoinOperator
from mixedmode.operators.over import OverColumn, OverOperator
from mixedmode.operators.process import ProcessOperator
from mixedmode.operators.top import TopOperator
from mixedmode.operators.top.rows import OrderColumn, RowLayout
from mixedmode.operators.window import (
    CountWindowAggregateOperator,
    SessionAggregateOperator,
    TimeWindowAggregateOperator,
)
from mixedmode.time import Cumulating, Sliding, TimeWindows, Tumbling

__all__ = ["Described", "described", "function_of", "keys_of", "operator_from"]

Described = Mapping[str, Any]


def function_of(call: FunctionCall, where: str) -> AggregateFunction:
    """Return the function of a call. Raise InvalidJobError as `aggregate_function` does."""
    number, data_type = (None, None) if call.argument is None else (call.argument.index, call.argument.data_type)
    return aggregate_function(
        call.function,
        number,
        data_type,
        has_event_time=call.has_event_time,
        where=where,
        by=call.by,
        parameters=call.parameters,
        condition=call.condition,
    )


def described(operator: KeyedOperator) -> dict[str, object] | None:
    """Return the description of an operator; None if it keeps no state."""
    if not operator.states:
        return None
    match operator:
        case AggregateOperator():
            own = _aggregator(operator.aggregator, operator.key_schema)
            return {"kind": "aggregate", "changelog": operator.is_changelog, **own}
        case CheckedUpsertOperator():
            return described(operator.counter)
        case MultisetAggregateOperator():
            types = [type_name(data_type) for data_type in operator.argument_types]
            own = _aggregator(operator.aggregator, operator.key_schema)
            return {"kind": "multiset", **own, "row": types}
        case TimeWindowAggregateOperator():
            own = {"window": _windows(operator.windows), "by-clock": operator.by_clock}
            return {"kind": "window", **own, **_windowed(operator)}
        case SessionAggregateOperator():
            return {"kind": "session", "gap-us": operator.gap_us, **_windowed(operator)}
        case CountWindowAggregateOperator():
            own = _aggregator(operator.aggregator, operator.key_schema)
            return {"kind": "count-window", "count": operator.count, **own}
        case TopOperator() | DeduplicateOperator() | OverOperator() | ApplyChangesOperator():
            return _of_ordered_rows(operator)
        case AsOfJoinOperator() | IntervalJoinOperator() | RegularJoinOperator() | CoGroupBase():
            return _pair(operator)
        case ProcessOperator() | AsyncMapOperator():
            return _with_function(operator)
    msg = f"an operator with state and without a description: {type(operator).__name__}"
    raise AssertionError(msg)


def operator_from(stored: Described) -> KeyedOperator:
    """Return the operator that was described; for `process`, see keys_of.

    Raise CorruptStateError for a description that this program does not know.
    """
    kind = stored["kind"]
    if kind in ("top", "deduplicate", "over", "apply-changes"):
        return _ordered_from(stored)
    if kind == "as-of-join":  # only `fold` and `process` need the rest
        return AsOfJoinOperator(
            _join_from(stored), False, False, 0 if stored["forgets"] else None, (), stored["deleted"], None
        )
    if kind == "interval-join":
        lower_us, upper_us = stored["within-us"]
        return IntervalJoinOperator(_join_from(stored), stored["type"], (lower_us, upper_us), None, adds_time=False)
    if kind == "regular-join":
        return RegularJoinOperator(_join_from(stored), stored["type"], is_changelog=stored["changelog"])
    if kind == "async-map":
        return _async_map(stored)
    if kind == "co-group":  # only `fold` and `process` need the rest
        own: dict[str, Any] = {"layout": _join_from(stored), "operator_id": "", "time_columns": (0, 0)}
        own |= {"function": NamedClass(CO_GROUP_FUNCTION, "", ""), "function_fields": ()}
        if "gap-us" in stored:
            return SessionCoGroupOperator(**own, gap_us=stored["gap-us"])
        return CoGroupOperator(**own, windows=_windows_from(stored["window"]))
    if kind in ("window", "session", "count-window", "aggregate", "multiset"):
        return _aggregating(stored, _aggregator_from(stored), keys_of(stored))
    msg = (
        "the manifest describes a step of a kind that this program does not know, so its state cannot be read. Read it "
        f"with the program that wrote it. kind={kind}"
    )
    raise CorruptStateError(msg)


def keys_of(stored: Described) -> KeySchema | None:
    """Return the key columns of a described operator; None for un-keyed input."""
    fields = _fields_from(stored["keys"])
    return KeySchema(fields) if fields else None


def _aggregator(aggregator: Aggregator, schema: KeySchema | None) -> dict[str, object]:
    calls = {}
    for name, function in aggregator.outputs.items():
        assert function.call is not None, name
        calls[name] = call_as_json(function.call)
    kept_rows = {}
    if isinstance(aggregator, MultisetAggregator):
        kept_rows = {"kept-rows": [type_name(data_type) for data_type in aggregator.argument_types]}
    without_count = aggregator_for(aggregator.outputs, arguments=aggregator.arguments, counts_rows=False)
    return {
        "keys": _fields(() if schema is None else schema.fields),
        "calls": calls,
        "arguments": aggregator.arguments,
        "counts-rows": without_count.registers != aggregator.registers,
        **kept_rows,
    }


def _aggregator_from(stored: Described) -> Aggregator:
    calls = {name: call_from_json(call) for name, call in stored["calls"].items()}
    functions = {name: function_of(call, f"aggregate.{name}") for name, call in calls.items()}
    found = aggregator_for(functions, arguments=stored["arguments"], counts_rows=stored["counts-rows"])
    if "kept-rows" not in stored:
        return found
    types = tuple(type_named(name) for name in stored["kept-rows"])
    return MultisetAggregator(found.outputs, found.registers, found.arguments, types)


def _windowed(operator: TimeWindowAggregateOperator | SessionAggregateOperator) -> dict[str, object]:
    return {
        "early-every-ms": operator.early_every_ms,
        "retractions": operator.emits_retractions,
        "lateness-us": operator.allowed_lateness_us,
        **_aggregator(operator.aggregator, operator.key_schema),
    }


def _aggregating(stored: Described, aggregator: Aggregator, schema: KeySchema | None) -> KeyedOperator:
    kind = stored["kind"]
    if kind == "count-window":
        return CountWindowAggregateOperator(aggregator, schema, stored["count"])
    if kind in ("window", "session"):
        return _windowed_from(stored, aggregator, schema)
    assert schema is not None, stored
    if kind == "aggregate":
        return AggregateOperator(aggregator, schema, is_changelog=stored["changelog"], emits_retractions=False)
    types = tuple(type_named(name) for name in stored["row"])
    return MultisetAggregateOperator(aggregator, schema, types, emits_retractions=False)


def _windowed_from(stored: Described, aggregator: Aggregator, schema: KeySchema | None) -> KeyedOperator:
    own = (stored["lateness-us"], stored["early-every-ms"])
    if stored["kind"] == "session":
        return SessionAggregateOperator(
            aggregator, schema, stored["gap-us"], *own, emits_retractions=stored["retractions"]
        )
    windows, by_clock = _windows_from(stored["window"]), stored["by-clock"]
    return TimeWindowAggregateOperator(
        aggregator, schema, windows, *own, emits_retractions=stored["retractions"], by_clock=by_clock
    )


def _windows(windows: TimeWindows) -> dict[str, object]:
    if isinstance(windows, Sliding):
        own: dict[str, object] = {"kind": "sliding", "slide-us": windows.slide_us}
    elif isinstance(windows, Cumulating):
        own = {"kind": "cumulating", "step-us": windows.step_us}
    else:
        own = {"kind": "tumbling"}
    assert isinstance(windows, Sliding | Cumulating | Tumbling), windows
    return {**own, "size-us": windows.size_us, "offset-us": windows.offset_us, "time-zone": windows.time_zone}


def _windows_from(stored: Described) -> TimeWindows:
    rest = (stored["offset-us"], stored["time-zone"])
    if stored["kind"] == "sliding":
        return Sliding(stored["size-us"], stored["slide-us"], *rest)
    if stored["kind"] == "cumulating":
        return Cumulating(stored["size-us"], stored["step-us"], *rest)
    return Tumbling(stored["size-us"], *rest)


def _layout(layout: RowLayout) -> dict[str, object]:
    order = [[type_name(by.data_type), by.descending, by.nulls_first] for by in layout.order]
    return {"keys": _fields(layout.key_schema.fields), "order": order, "row": _fields(layout.row_fields)}


def _of_ordered_rows(
    operator: TopOperator | DeduplicateOperator | OverOperator | ApplyChangesOperator,
) -> dict[str, object]:
    own: dict[str, object]
    match operator:
        case TopOperator():
            own = {"kind": "top", "n": operator.n, "changelog": operator.is_changelog, "rank": operator.has_rank}
        case DeduplicateOperator():
            own = {"kind": "deduplicate", "waits": operator.waits, "within-us": operator.within_us}
            own |= {"event-time": operator.has_event_time}
        case OverOperator():
            own = {"kind": "over", "columns": [_over_column(column) for column in operator.columns]}
            own |= {"has-key": operator.has_key}
        case ApplyChangesOperator():
            tracked = None if operator.tracked is None else [*operator.tracked]
            own = {"kind": "apply-changes", "deletes": operator.deletes, "tracked": tracked}
    return {**own, **_layout(operator.layout)}


def _ordered_from(stored: Described) -> KeyedOperator:
    schema = keys_of(stored)
    assert schema is not None, stored
    order = tuple(OrderColumn(type_named(name), descending, nulls) for name, descending, nulls in stored["order"])
    layout = RowLayout(schema, order, _fields_from(stored["row"]))
    if stored["kind"] == "top":  # only `fold` needs the arguments
        return TopOperator(layout, (), stored["n"], stored["changelog"], stored["rank"])
    if stored["kind"] == "over":
        return OverOperator(layout, (), tuple(map(_over_column_from, stored["columns"])), stored["has-key"])
    if stored["kind"] == "apply-changes":  # only `fold` needs the place for messages
        tracked = stored["tracked"]
        return ApplyChangesOperator(layout, (), stored["deletes"], None if tracked is None else tuple(tracked), "")
    return DeduplicateOperator(layout, (), stored["waits"], stored["within-us"], stored["event-time"])


def _over_column(column: OverColumn) -> dict[str, object]:
    return {
        "name": column.name,
        "function": column.function,
        "argument": column.argument,
        "type": None if column.argument_type is None else type_name(column.argument_type),
        "rows": [column.first, column.last],
        "peers": column.has_peers,
        "ignore-nulls": column.ignores_nulls,
        "span-us": column.span_us,
    }


def _over_column_from(stored: Described) -> OverColumn:
    data_type = None if stored["type"] is None else type_named(stored["type"])
    first, last = stored["rows"]
    own = (stored["name"], stored["function"], stored["argument"], data_type)
    return OverColumn(*own, first, last, stored["peers"], stored["ignore-nulls"], stored["span-us"])


def _with_function(operator: ProcessOperator | AsyncMapOperator) -> dict[str, object]:
    keys = {"keys": _fields(operator.key_schema.fields)}
    if isinstance(operator, ProcessOperator):
        return {"kind": "process", **keys}
    answer = _fields(operator.answer_fields)
    return {"kind": "async-map", **keys, "answer": answer, "remember-ms": operator.remember_ms}


def _async_map(stored: Described) -> KeyedOperator:
    schema = keys_of(stored)
    assert schema is not None, stored
    return AsyncMapOperator(  # only `fold` and `process` need the rest
        operator_id="",
        function=NamedClass(ASYNC_MAP_FUNCTION, "", ""),
        key_schema=schema,
        row_fields=(),
        answer_fields=_fields_from(stored["answer"]),
        calls=CallSettings(1, 1, 1, 0, 1),
        remember_ms=stored["remember-ms"],
    )


def _pair(
    operator: AsOfJoinOperator | IntervalJoinOperator | RegularJoinOperator | CoGroupBase,
) -> dict[str, object]:
    layout = operator.layout
    left, right = layout.sides
    keys = {"keys": _fields(layout.key_schema.fields), "right-keys": list(layout.right_keys)}
    columns = {**keys, "left": _fields(left), "right": _fields(right)}
    if isinstance(operator, SessionCoGroupOperator):
        return {"kind": "co-group", **columns, "gap-us": operator.gap_us}
    if isinstance(operator, CoGroupOperator):
        return {"kind": "co-group", **columns, "window": _windows(operator.windows)}
    if isinstance(operator, AsOfJoinOperator):
        forgets = operator.tolerance_us is not None
        return {"kind": "as-of-join", **columns, "deleted": operator.deleted, "forgets": forgets}
    if isinstance(operator, RegularJoinOperator):
        return {"kind": "regular-join", **columns, "type": operator.type, "changelog": operator.is_changelog}
    assert isinstance(operator, IntervalJoinOperator), operator
    return {"kind": "interval-join", **columns, "type": operator.type, "within-us": list(operator.bounds_us)}


def _join_from(stored: Described) -> JoinLayout:
    schema = keys_of(stored)
    assert schema is not None, stored
    sides = (_fields_from(stored["left"]), _fields_from(stored["right"]))
    return JoinLayout(schema, sides, (), right_keys=tuple(stored.get("right-keys", ())))


def _fields(fields: Sequence[pa.Field]) -> list[list[TypeName]]:
    return [[field.name, type_name(field.type)] for field in fields]


def _fields_from(stored: Sequence[tuple[str, TypeName]]) -> tuple[pa.Field, ...]:
    return tuple(pa.field(name, type_named(text)) for name, text in stored)
