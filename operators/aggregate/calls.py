"""The call of an aggregate function as a value: it is enough to build the function again, without the job file.

The manifest keeps the calls of a step as JSON, so that a reader can compute results from stored registers.

Invariant (tests/plan/test_stored_operators.py): call_from_json(call_as_json(call)) == call, but for the
type that `count` does not use
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mixedmode.keys.type_names import type_name, type_named
from mixedmode.operators.aggregate.registers import Register
from mixedmode.operators.aggregate.results import State

__all__ = ["AggregateFunction", "Column", "FunctionCall", "call_as_json", "call_from_json"]


@dataclass(frozen=True, slots=True)
class Column:
    """An argument column of a step: its 0-based index, and its type."""

    index: int
    data_type: pa.DataType


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call in a step: the name of the function, and its arguments as `aggregate_function` takes them."""

    function: str
    argument: Column | None
    has_event_time: bool
    by: Column | None = None
    parameters: tuple[float, ...] = ()
    condition: Column | None = None


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """One aggregate of a step: its registers, its result type, and `result`, which computes (g,) results from state.

    `call` is the call that `aggregate_function` built it from.
    """

    registers: tuple[Register, ...]
    result_type: pa.DataType
    result: Callable[[State], pa.Array]
    call: FunctionCall | None = None


def call_as_json(call: FunctionCall) -> dict[str, object]:
    """Return a call as JSON. Absent arguments are left out."""
    columns = {"argument": call.argument, "by": call.by, "condition": call.condition}
    is_count = call.function == "count"  # takes any type, even one without a name here, and does not use it
    named = {
        name: [at.index, "null" if is_count and name == "argument" else type_name(at.data_type)]
        for name, at in columns.items()
        if at is not None
    }
    parameters = {"parameters": list(call.parameters)} if call.parameters else {}
    return {"function": call.function, "event-time": call.has_event_time, **named, **parameters}


def call_from_json(described: Mapping[str, Any]) -> FunctionCall:
    """Return the call that `call_as_json` described."""

    def column(name: str) -> Column | None:
        found = described.get(name)
        return None if found is None else Column(found[0], type_named(found[1]))

    return FunctionCall(
        described["function"],
        column("argument"),
        described["event-time"],
        column("by"),
        tuple(described.get("parameters", ())),
        column("condition"),
    )
