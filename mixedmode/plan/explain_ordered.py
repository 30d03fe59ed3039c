"""The lines of `explain` on steps that order the rows of a key: top, deduplicate, over, apply-changes."""

from collections.abc import Iterator, Sequence
from typing import Any

from mixedmode.config import OrderBy, format_duration_ms
from mixedmode.config.calls import column_in
from mixedmode.counts import counted
from mixedmode.operators.apply_changes import ApplyChangesOperator
from mixedmode.operators.deduplicate import DeduplicateOperator
from mixedmode.operators.over import OverOperator
from mixedmode.operators.top import OrderColumn, TopOperator
from mixedmode.plan.stages import ALL_ROWS, KeyedStage

__all__ = ["Ordered", "ordered_lines", "ordered_state"]

Ordered = TopOperator | DeduplicateOperator | OverOperator | ApplyChangesOperator


def ordered_lines(stage: KeyedStage, operator: Ordered) -> Iterator[str]:
    """Yield the lines on what a step keeps or computes, and when it emits rows."""
    match operator:
        case TopOperator():
            which = (f"the best {operator.n} rows" if operator.has_rank else "the last row") + _of_a_key(stage)
            order = ", ".join(_order_texts(stage, operator, operator.layout.order))
            yield f"  keeps       {which} by {order}, then the whole row"
        case DeduplicateOperator():
            yield from _deduplicate_lines(stage, operator)
        case OverOperator():
            yield from _over_lines(stage, operator)
        case ApplyChangesOperator():
            yield from _apply_changes_lines(stage, operator)


def ordered_state(stage: KeyedStage, operator: Ordered) -> str:
    """Return a phrase on the state that a step stores."""
    match operator:
        case TopOperator(is_changelog=True):
            return f"every row{_of_a_key(stage)}, because a retraction lets a row move up"
        case TopOperator():
            return f"the best {operator.n} row{'s' if operator.n > 1 else ''}{_of_a_key(stage)}"
        case DeduplicateOperator():
            waiting = ", and rows that the watermark has not passed" if operator.waits else ""
            return f"the keys that have their row{waiting}"
        case OverOperator():
            rows = operator.kept_layout.rows_max
            last = f" and the last {counted(rows, 'row')}" if rows else ""
            span_us = operator.kept_layout.span_us
            if span_us is not None:
                last += f" and those of the last {format_duration_ms(span_us // 1000)}"
            return f"the values so far{last}{_of_a_key(stage)}, and rows that the watermark has not passed"
        case ApplyChangesOperator(has_history=True):
            return "all records of a key"
        case ApplyChangesOperator():
            return "the last record of a key, also if it deletes"


def _apply_changes_lines(stage: KeyedStage, operator: ApplyChangesOperator) -> Iterator[str]:
    texts = [column_in(text) or text for text in (stage.arguments[index] for index in operator.order_arguments)]
    condition = texts.pop() if operator.deletes else None
    yield f"  order       records of a key by {', '.join(texts)}; the last one counts"
    if condition is not None:
        yield f"  deletes     the row of a key when {condition}"
    if operator.tracked is not None:
        row = [field.name for field in operator.layout.row_fields]
        which = "any column" if len(operator.tracked) == len(row) else ", ".join(row[at] for at in operator.tracked)
        yield f"  history     a version of a row for each change of {which or 'no column'}"


def _of_a_key(stage: KeyedStage) -> str:
    return "" if ALL_ROWS in stage.key_fields else " of a key"


def _deduplicate_lines(stage: KeyedStage, operator: DeduplicateOperator) -> Iterator[str]:
    if operator.waits:
        order = ", ".join([f"{stage.event_time}", *_order_texts(stage, operator, operator.layout.order[1:])])
        yield f"  keeps       the first row of a key by {order}, then the whole row"
        yield "  emits       a row once the watermark has passed its time"
    else:
        yield "  keeps       the first row of a key that arrives: the keys are certain, the other columns are not"
    if operator.within_us is not None:
        yield f"  forgets     a key {format_duration_ms(operator.within_us // 1000)} after its row"
    if operator.goes_by_watermark:
        yield "  late        records before the watermark are counted and dropped"


def _over_lines(stage: KeyedStage, operator: OverOperator) -> Iterator[str]:
    calls: Any = stage.identity["calls"]
    for name, call in calls.items():
        yield f"  adds        {name}: {call}"
    order = ", ".join([f"{stage.event_time}", *_order_texts(stage, operator, operator.layout.order[1:])])
    yield f"  order       rows{_of_a_key(stage)} by {order}, then by the whole row"
    yield "  emits       a row once the watermark has passed its time"
    yield "  late        records before the watermark are counted and dropped"


def _order_texts(stage: KeyedStage, operator: Ordered, order: Sequence[OrderColumn]) -> Iterator[str]:
    for index, by in zip(operator.order_arguments, order, strict=True):
        text = stage.arguments[index]
        yield str(OrderBy(column_in(text) or text, by.descending, by.nulls_first))
