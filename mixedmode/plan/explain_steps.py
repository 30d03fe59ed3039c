"""The lines of `explain` on the operators of stages: windows, lateness, functions, state.

This module alone distinguishes the kinds of operators, so that explain.py need not.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mixedmode.config import SinkSpec, format_duration_ms
from mixedmode.counts import counted
from mixedmode.operators.aggregate import (
    AggregateOperator,
    CheckedUpsertOperator,
    MultisetAggregateOperator,
    MultisetAggregator,
    UpsertOperator,
)
from mixedmode.operators.apply_changes import ApplyChangesOperator
from mixedmode.operators.async_map import AsyncMapOperator
from mixedmode.operators.co_group import CoGroupBase, CoGroupOperator, SessionCoGroupOperator
from mixedmode.operators.deduplicate import DeduplicateOperator
from mixedmode.operators.final import FinalOperator
from mixedmode.operators.interface import Changelog, KeyedOperator
from mixedmode.operators.join import AsOfJoinOperator, IntervalJoinOperator, RegularJoinOperator
from mixedmode.operators.over import OverOperator
from mixedmode.operators.process import CoProcessOperator, ProcessOperator
from mixedmode.operators.process.descriptions import shown
from mixedmode.operators.top import TopOperator
from mixedmode.operators.window import (
    CountWindowAggregateOperator,
    SessionAggregateOperator,
    TimeWindowAggregateOperator,
)
from mixedmode.plan.async_maps import async_map_lines, async_map_state
from mixedmode.plan.explain_broadcasts import BROADCAST_STATE, broadcast_lines
from mixedmode.plan.explain_joins import GROWS, join_lines, join_state, late_lines
from mixedmode.plan.explain_ordered import ordered_lines, ordered_state
from mixedmode.plan.side_outputs import DEAD_LETTER, LATE, LATE_OF_SIDES
from mixedmode.plan.stages import ALL_ROWS, EmittedRows, KeyedStage, MapStage
from mixedmode.time import Cumulating, Sliding, TimeWindows, Tumbling

TimedOperator = TimeWindowAggregateOperator | SessionAggregateOperator

_ON_ERROR = {
    "fail": "the job stops, and nothing of the epoch is committed",
    "skip": "what failed is counted and left out",
    "dead-letter": "what failed is left out, and goes to an output of its own",
}


_HANDED_ON = {
    "split": "one list per subtask; when their number changes, the items are dealt out anew (split)",
    "union": "one list per subtask; each subtask is given the items of all (union)",
    None: "one list per subtask, which nobody else may have: their number must not change",
}


def map_lines(stage: MapStage, subtasks: int, backlog: int) -> Iterator[str]:
    """Yield the lines of a map stage, without its sql."""
    differs = f", {backlog} in backlog" if backlog != subtasks else ""
    yield f"  exchange    dealt out to {subtasks} subtasks{differs}, Arrow blocks"
    yield f"  function    {stage.operator.function.label}, rows in no certain order"
    yield f"  computes    {', '.join(f'{field.name} {field.type}' for field in stage.operator.output_fields)}"
    yield f"  state       {_HANDED_ON[stage.redistribution] if stage.keeps_list else 'none'}"


def goes_by_time(stage: KeyedStage) -> bool:
    """Return whether the watermark decides which rows the stage emits, and when."""
    return stage.operator.traits.fires_by_watermark


def combined(stage: KeyedStage) -> str:
    """Return the end of a phrase that says which rows are combined before the shuffle; empty if none are."""
    operator = _inner(stage)
    match operator:
        case AggregateOperator():
            per = "key"
        case TimeWindowAggregateOperator():
            per = "key and window"
        case SessionAggregateOperator():
            per = "key and session"
        case TopOperator(is_changelog=False):
            per = "" if ALL_ROWS in stage.key_fields else " per key"
            return f", cut to the best {operator.n}{per} before the shuffle"
        case DeduplicateOperator():
            per = "key" if operator.within_us is None else "key and time"
        case _:
            return ""
    return f", combined per {per} before the shuffle"


def step_lines(stage: KeyedStage, side_sinks: Mapping[str, SinkSpec]) -> Iterator[str]:
    """Yield the lines on windows or on the function; none for a plain aggregate."""
    operator = _inner(stage)
    match operator:
        case TimeWindowAggregateOperator():
            told_by = "clock" if operator.by_clock else "watermark"
            domain = ", of processing time" if operator.by_clock else ""
            yield f"  windows     {_windows(operator.windows)}{domain}; emitted when the {told_by} reaches their end"
            if not operator.by_clock:
                yield from _lateness(operator, stage.output_of(LATE), side_sinks)
        case SessionAggregateOperator():
            gap = _duration(operator.gap_us)
            yield f"  windows     sessions, gap {gap}; emitted when the watermark is past their end"
            yield from _lateness(operator, stage.output_of(LATE), side_sinks)
        case CountWindowAggregateOperator():
            records = counted(operator.count, "record")
            yield f"  windows     every {records} of a key; emitted when full, whatever the watermark"
        case CoGroupBase():
            left, right = (", ".join(side.roots) for side in stage.sides)
            yield f"  windows     {_group_windows(operator)}"
            yield f"  function    {operator.function.label}, the rows of {left} and {right} of a key and window"
            yield f"  on error    {operator.on_error}: {_ON_ERROR[operator.on_error]}"
            yield from late_lines(stage, side_sinks, "rows of windows that were emitted")
        case ProcessOperator():
            which = "records"
            if isinstance(operator, CoProcessOperator):
                left, right = (", ".join(side.roots) for side in stage.sides[:2])
                which = f"records of {left} and {right}"
            yield f"  function    {operator.function.label}, the {which} of a key in order of event time"
            yield f"  on error    {operator.on_error}: {_ON_ERROR[operator.on_error]}"
            yield from broadcast_lines(stage, operator, side_sinks)
        case AsyncMapOperator():
            yield from async_map_lines(operator)
        case TopOperator() | DeduplicateOperator() | OverOperator() | ApplyChangesOperator():
            yield from ordered_lines(stage, operator)
        case AsOfJoinOperator() | IntervalJoinOperator() | RegularJoinOperator():
            yield from join_lines(stage, operator, side_sinks)


def growing_states(stages: Iterable[KeyedStage]) -> Iterator[str]:
    """Yield a sentence on each step whose state may grow for ever, for a person to see before the first epoch."""
    for stage in stages:
        if isinstance(stage.operator, RegularJoinOperator):
            yield f"the state of {stage.operator_id} grows for ever: it {GROWS}"


def _inner(stage: KeyedStage) -> KeyedOperator:
    return stage.operator.operator if isinstance(stage.operator, FinalOperator) else stage.operator


def emitted_text(emitted: EmittedRows) -> str:
    """Return a phrase on the rows that a stage emits to the next one."""
    if emitted.changelog is Changelog.RETRACT:
        time = "" if emitted.event_time is None else f", event time {emitted.event_time}"
        return f"changes: a new row of a key retracts the one before{time}"
    time = "without event time" if emitted.event_time is None else f"event time {emitted.event_time}"
    return f"rows that never change, {time}"


def _group_windows(operator: CoGroupBase) -> str:
    if isinstance(operator, SessionCoGroupOperator):
        return f"sessions of both sides, gap {_duration(operator.gap_us)}; emitted when the watermark is past their end"
    assert isinstance(operator, CoGroupOperator), operator
    return f"{_windows(operator.windows)}; emitted when the watermark reaches their end"


def state_text(stage: KeyedStage) -> str:
    """Return a phrase on the state that the stage stores."""
    operator = stage.operator
    match operator:
        case CheckedUpsertOperator():
            return "the keys of the output, to refuse a second row of a key"
        case UpsertOperator():
            return "none: rows retracted and rows added become one upsert per key"
        case FinalOperator():
            return "none: all rows of a window come in one epoch, so its results are final"
        case TopOperator() | DeduplicateOperator() | OverOperator() | ApplyChangesOperator():
            return ordered_state(stage, operator)
        case AsyncMapOperator():
            return async_map_state(operator)
        case AsOfJoinOperator() | IntervalJoinOperator() | RegularJoinOperator() | CoGroupBase():
            return join_state(operator)
        case MultisetAggregateOperator():
            return "every row of a key with its multiplicity, because these aggregates cannot retract a row"
        case ProcessOperator():
            declared: Any = operator.state_schema()["states"]
            states = [_state(name, state) for name, state in declared.items()]
            waiting = [] if operator.broadcasts is None else [BROADCAST_STATE]
            return "; ".join([*states, "timers", *waiting])
        case TimeWindowAggregateOperator():
            return _window_state(operator, "window")
        case SessionAggregateOperator():
            return _window_state(operator, "session")
        case _:
            return _columns_per(operator, "key")


def _window_state(operator: TimedOperator, per: str) -> str:
    if isinstance(operator.aggregator, MultisetAggregator):
        return f"every row of a {per} with its multiplicity, because rows may be retracted"
    return _columns_per(operator, f"key and {per}")


def _columns_per(operator: KeyedOperator, per: str) -> str:
    count = len(operator.states[0].fields)
    return f"{count} column{'s' if count > 1 else ''} per {per}"


def side_rows(stages: tuple[KeyedStage, ...], name: str) -> str:
    """Return a phrase on the rows of an output other than the main one."""
    for stage in stages:
        if name == stage.output_of(LATE):
            has_windows = not isinstance(stage.operator, ProcessOperator)
            return "records that came " + ("too late for all of their windows" if has_windows else "too late")
        for tag, side in zip(LATE_OF_SIDES, ("left", "right"), strict=True):
            if name == stage.output_of(tag):
                return f"rows of the {side} that came too late"
        if name == stage.output_of(DEAD_LETTER):
            failed = "records on which the function failed"
            is_asked = isinstance(stage.operator, AsyncMapOperator)
            return f"{'rows whose request failed' if is_asked else failed}, and the error"
        if name in stage.side_outputs:
            return ", ".join(f"{field.name} {field.type}" for field in stage.side_outputs[name])
    return f"records that the source {name.removesuffix(f'-{DEAD_LETTER}')} cannot decode, and the reason"


def _windows(windows: TimeWindows) -> str:
    assert isinstance(windows, Tumbling | Sliding | Cumulating), windows
    size = _duration(windows.size_us)
    match windows:
        case Tumbling():
            text = f"tumbling, {size}"
        case Sliding():
            text = f"sliding, {size} every {_duration(windows.slide_us)}"
        case Cumulating():
            text = f"cumulating, up to {size} by {_duration(windows.step_us)}"
    if windows.offset_us:
        text += f", offset {_duration(windows.offset_us)}"
    return text if windows.time_zone is None else f"{text}, days of {windows.time_zone}"


def _lateness(operator: TimedOperator, late: str, side_sinks: Mapping[str, SinkSpec]) -> Iterator[str]:
    fate = f"go to the sink {late}" if late in side_sinks else "are counted and dropped"
    if operator.allowed_lateness_us:
        lateness = _duration(operator.allowed_lateness_us)
        yield f"  late        up to {lateness} after its end a record changes a window; later ones {fate}"
    else:
        yield f"  late        records of windows that were emitted {fate}"
    if operator.early_every_ms is not None:
        every = format_duration_ms(operator.early_every_ms)
        yield f"  early       open windows that have changed are emitted every {every} while live"


def _state(name: str, state: Mapping[str, Any]) -> str:
    kind = "" if state["kind"] in {"value", "list"} else f"{state['kind']} "
    held = shown(state["type"])
    if state["kind"] == "map":
        held = f"[{shown(state['key'])}, {held}]"
    lives = "" if state["ttl_ms"] is None else f" for {format_duration_ms(state['ttl_ms'])}"
    return f"{name} {kind}{held}{lives}"


def _duration(span_us: int) -> str:
    return format_duration_ms(span_us // 1000)
