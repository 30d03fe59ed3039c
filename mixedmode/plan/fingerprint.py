"""Fingerprints of steps: the properties that must not change, or stored state is unreadable, as canonical JSON.

A fingerprint is stored in job.json and in savepoints, and is compared by value. Its names are defined here, and do not
depend on names of Python classes or fields; so classes may be renamed, and fields added. Default values are left out;
so a new setting that is not used changes no stored fingerprint. The order of a list matters where the layout of state,
or Spark's numbering of sources, follows that order.

    {"version": 1, "step": "aggregate", "keys": [{"name": "origin", "type": "string"}],
     "calls": {"flights": "count(*)"}, "window": {"kind": "tumbling", "size-ms": 3600000},
     "registers": [{"register": "count"}]}

Invariants (tests/plan/test_fingerprint.py, with tests/golden/fingerprints.json):
  I1  the fingerprints of the golden steps do not change, or VERSION does
  I2  steps whose stored state has another layout or meaning have different fingerprints, and so have steps that would
      retract other rows than they have inserted
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from mixedmode.config import DeduplicateStep, KeyedAggregateStep, TopStep
from mixedmode.config.windows import (
    CumulatingSpec,
    EventWindowSpec,
    GlobalSpec,
    SessionSpec,
    SlidingSpec,
    TumblingSpec,
    WindowSpec,
)
from mixedmode.operators.aggregate import Aggregator, MultisetAggregateOperator, MultisetAggregator
from mixedmode.operators.aggregate.bits import BitParity, Bits
from mixedmode.operators.aggregate.collect import Collected, Distinct
from mixedmode.operators.aggregate.counted import Counted, Occurrences
from mixedmode.operators.aggregate.edges import EdgeBy, EdgeInTime
from mixedmode.operators.aggregate.moments import PairMoments, ShapeMoments
from mixedmode.operators.aggregate.registers import (
    Count,
    CountTrue,
    ExactSum,
    Extreme,
    Filtered,
    FloatSum,
    IsPresent,
    Moments,
    Register,
)
from mixedmode.operators.aggregate.sketches import DistinctSketch, QuantileSketch
from mixedmode.operators.final import FinalOperator
from mixedmode.operators.interface import KeyedOperator

__all__ = [
    "VERSION",
    "Fingerprint",
    "aggregate_fingerprint",
    "apply_changes_fingerprint",
    "async_map_fingerprint",
    "of_list",
    "of_sources",
    "over_fingerprint",
    "ranked_fingerprint",
    "step_fingerprint",
    "window_fingerprint",
]

Fingerprint = Mapping[str, object]

#: registers that are fully described by their name and their argument
_PLAIN: Mapping[type, str] = {
    Count: "count",
    CountTrue: "count-true",
    FloatSum: "float-sum",
    Moments: "moments",
    ShapeMoments: "shape-moments",
    BitParity: "bit-parity",
}
#: of all fingerprints; if the fingerprint of the same step changes, the version changes
VERSION = 1


def step_fingerprint(step: str, keys: Sequence[pa.Field] = ()) -> Fingerprint:
    """Return the fingerprint of a step that depends only on its kind and keys."""
    return _given({"version": VERSION, "step": step, "keys": [_column(field) for field in keys]})


def aggregate_fingerprint(
    step: KeyedAggregateStep, keys: Sequence[pa.Field], arguments: Mapping[str, pa.DataType], operator: KeyedOperator
) -> Fingerprint:
    """Return the fingerprint of an aggregate step.  arguments: {expression: type} of its calls, in order.

    It has the calls, too, although several may read the same state: a retraction is computed again from stored state,
    so a step downstream would get a row that was never inserted.
    """
    calls = {name: str(call) for name, call in step.aggregate.items()}
    head = {**step_fingerprint("aggregate", keys), "calls": calls}
    if isinstance(operator, MultisetAggregateOperator):
        return {**head, **_rows(arguments)}
    inner = operator.operator if isinstance(operator, FinalOperator) else operator
    aggregator: Aggregator = inner.aggregator  # type: ignore[attr-defined]
    return {
        **head,
        **_given(
            {
                "window": None if step.window is None else window_fingerprint(step.window),
                "allowed-lateness-ms": step.allowed_lateness_ms,
                "early-results": step.early_results_every_ms is not None,
            }
        ),
        **_kept(aggregator, arguments),
    }


def _kept(aggregator: Aggregator, arguments: Mapping[str, pa.DataType]) -> Fingerprint:
    """Return what the state of an aggregate has for each key or window: rows, or registers."""
    if isinstance(aggregator, MultisetAggregator):
        return _rows(arguments)
    return {"registers": [_register(register, list(arguments.items())) for register in aggregator.registers]}


def _rows(arguments: Mapping[str, pa.DataType]) -> Fingerprint:
    return {"rows": [{"expression": text, "type": str(data_type)} for text, data_type in arguments.items()]}


def ranked_fingerprint(
    step: TopStep | DeduplicateStep,
    keys: Sequence[pa.Field],
    row: Sequence[pa.Field],
    order: Sequence[tuple[str, bool, bool]],
    *,
    is_changelog: bool,
) -> Fingerprint:
    """Return the fingerprint of a step with `top` or `deduplicate`.

    row: the columns other than the key. order: (expression, descending, NULLs first) each.
    """
    own: Fingerprint
    if isinstance(step, TopStep):
        head, own = step_fingerprint("top", keys), {"n": step.top.n}
    else:
        head = step_fingerprint("deduplicate", keys)
        own = {"keep": step.deduplicate.keep, "within-ms": step.deduplicate.within_ms or 0}
    orders = [
        _given({"expression": text, "descending": descending, "nulls-first": nulls_first})
        for text, descending, nulls_first in order
    ]
    given = {**own, "order": orders, "row": [_column(field) for field in row], "changelog": is_changelog}
    return {**head, **_given(given)}


def over_fingerprint(
    keys: Sequence[pa.Field], calls: Mapping[str, str], row: Sequence[pa.Field], tie_break: Sequence[str]
) -> Fingerprint:
    """Return the fingerprint of an `over` step.

    calls: {column: its call}. row: the columns other than the key. tie_break: those that order rows of one event time.
    """
    own = {"tie-break": list(tie_break), "row": [_column(field) for field in row]}
    return {**step_fingerprint("over", keys), "calls": dict(calls), **_given(own)}


def apply_changes_fingerprint(
    keys: Sequence[pa.Field], row: Sequence[pa.Field], order: Sequence[str], tracked: Sequence[str] | None
) -> Fingerprint:
    """Return the fingerprint of an `apply-changes` step.

    row: the columns other than the key. order: the expressions of the sequence and of the records that delete. tracked:
    the columns whose change begins a version; None without history.
    """
    own = {"order": list(order), "row": [_column(field) for field in row], "history": tracked is not None}
    return {**step_fingerprint("apply-changes", keys), **_given({**own, "tracked": list(tracked or ())})}


def async_map_fingerprint(keys: Sequence[pa.Field], remembered: Sequence[pa.Field] | None) -> Fingerprint:
    """Return the fingerprint of an async-map step.  remembered: the columns of an answer; None if none is stored."""
    stored = [_column(field) for field in remembered or ()]
    return {**step_fingerprint("async-map", keys), **_given({"remembered": stored})}


def of_list() -> Fingerprint:
    """Return the fingerprint of a map step that keeps a list. The items are checked separately, one by one."""
    return step_fingerprint("map")


def of_sources(names: Sequence[str], entries: Mapping[str, Sequence[str]], *, has_clock: bool) -> Fingerprint:
    """Return the fingerprint of the sources. Spark stores its progress by the number of a source, so order matters.

    entries: {step or output: the sources that it reads}, if several read sources.
    """
    read_by = {entry: list(sources) for entry, sources in entries.items()}
    return _given({"version": VERSION, "sources": list(names), "read-by": read_by, "clock": has_clock})


def window_fingerprint(window: WindowSpec | EventWindowSpec) -> Fingerprint:
    """Return the part of a fingerprint on the windows of a step."""
    kind = window.kind
    if isinstance(kind, GlobalSpec):
        return {"kind": "count", "count": kind.count}
    if isinstance(kind, SessionSpec):
        return {"kind": "session", "gap-ms": kind.gap_ms}
    own: Fingerprint
    if isinstance(kind, SlidingSpec):
        own = {"kind": "sliding", "slide-ms": kind.slide_ms}
    elif isinstance(kind, CumulatingSpec):
        own = {"kind": "cumulating", "step-ms": kind.step_ms}
    else:
        assert isinstance(kind, TumblingSpec), kind
        own = {"kind": "tumbling"}
    own = {**own, "size-ms": kind.size_ms, "offset-ms": kind.offset_ms, "time-zone": kind.time_zone}
    by_clock = isinstance(window, WindowSpec) and window.is_by_clock
    return _given({**own, "processing-time": by_clock})


def _register(register: Register, arguments: Sequence[tuple[str, pa.DataType]]) -> Fingerprint:
    """Return the fingerprint of a register: its expressions, and all that decides layout or meaning of its value."""
    if isinstance(register, Filtered):
        inner = _register(register.register, arguments)
        condition = arguments[register.condition.argument][0]
        said = {"present": condition} if isinstance(register.condition, IsPresent) else {"condition": condition}
        return {"register": "filtered", **said, "of": inner}
    if isinstance(register, Count) and register.argument is None:
        return {"register": "count"}
    number: int = register.argument  # type: ignore[attr-defined]
    text, data_type = arguments[number]
    name, own = _own(register, arguments, data_type)
    return {"register": name, "argument": text, **_given(own)}


def _own(
    register: Register, arguments: Sequence[tuple[str, pa.DataType]], data_type: pa.DataType
) -> tuple[str, Fingerprint]:
    """Return (name of a register, its properties besides the argument)."""
    if type(register) in _PLAIN:
        return _PLAIN[type(register)], {}
    own: dict[str, object]
    match register:
        case ExactSum():
            return "exact-sum", {"limbs": register.limbs, "scale": getattr(data_type, "scale", 0)}
        case Extreme():
            return ("max" if register.largest else "min"), {"type": str(data_type)}
        case EdgeInTime():
            return ("last" if register.last else "first"), {"type": str(data_type)}
        case EdgeBy():
            own = {"type": str(data_type), "by": arguments[register.by][0], "by-type": str(arguments[register.by][1])}
            return ("max-by" if register.largest else "min-by"), own
        case Bits():
            return ("bits-of-any" if register.any_of else "bits-of-all"), {}
        case PairMoments():
            return "pair-moments", {"with": arguments[register.by][0]}
    return _of_values(register, str(data_type))


def _of_values(register: Register, kind: str) -> tuple[str, Fingerprint]:
    """Do the same as `_own` for registers that keep values or a sketch of values."""
    match register:
        case Distinct():
            return "distinct", {"type": kind, "limit": register.limit}
        case Collected():
            return "list", {"type": kind, "limit": register.limit, "by-time": register.has_time}
        case DistinctSketch():
            return "distinct-sketch", {"lg-k": register.lg_k, "type": kind}
        case Counted():
            return "counted", {"type": kind}
        case Occurrences():
            return "occurrences", {"type": kind}
        case QuantileSketch():
            return "quantile-sketch", {"k": register.k, "type": kind}
    msg = f"a register without a name in fingerprints: {register!r}"
    raise AssertionError(msg)


def _column(field: pa.Field) -> Fingerprint:
    return {"name": field.name, "type": str(field.type)}


def _given(values: Fingerprint) -> dict[str, object]:
    """Return the values without unset ones: None, 0, False, an empty list. Strings always stay."""
    return {name: value for name, value in values.items() if value or isinstance(value, str)}
