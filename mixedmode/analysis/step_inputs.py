"""The relations that a keyed step reads, with its computed keys, and limited to the range of a backfill."""

from collections.abc import Sequence
from dataclasses import replace

from mixedmode.analysis.keyed_steps import with_computed_keys
from mixedmode.analysis.relations import Relation, Roots
from mixedmode.config import KeyedAggregateStep, OneInputStep
from mixedmode.config.calls import quoted
from mixedmode.config.graph import PREVIOUS
from mixedmode.config.steps import Step, operator_id
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.reads import SqlText
from mixedmode.time.window_range import WindowRange

__all__ = ["with_keys", "within_range"]


def with_keys(given: Relation, step: OneInputStep, keyed_before: int, where: Where, *, is_changelog: bool) -> Relation:
    """Return the input of a step with the keys that it computes.  keyed_before: the number of earlier keyed steps."""
    frame, sql = with_computed_keys(given.frame, step, PREVIOUS, where, is_changelog=is_changelog)
    if sql is None:
        return given
    makes = f"{operator_id(step, keyed_before)}-keys-of-{given.name}"
    text = SqlText(sql, {PREVIOUS: given.name}, makes)
    return replace(given, name=makes, frame=frame, sql=(*given.sql, text))


def within_range(inputs: Sequence[Relation], step: Step, roots: Roots, within: WindowRange | None) -> list[Relation]:
    """Return the inputs of a step: those of windows of event time over records, with only the records in a range.

    within: None for all records.
    """
    if within is None or not isinstance(step, KeyedAggregateStep) or step.window is None or step.window.is_by_clock:
        return [*inputs]
    upstream = roots.upstream_of(inputs, 0)
    if upstream.reads.stages or upstream.event_time is None:
        return [*inputs]
    return [_records_within(one, upstream.event_time, within) for one in inputs]


def _records_within(given: Relation, event_time: str, within: WindowRange) -> Relation:
    """Return the rows whose event time is in [start, end) of a range."""
    start, end = within.sql_bounds
    column, makes = quoted(event_time), f"{given.name}-in-range"
    condition = f"{column} >= {start} AND {column} < {end}"
    text = SqlText(f"SELECT * FROM {PREVIOUS} WHERE {condition}", {PREVIOUS: given.name}, makes)  # noqa: S608 - quoted
    return replace(given, name=makes, frame=given.frame.where(condition), sql=(*given.sql, text))
