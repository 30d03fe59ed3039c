"""The needs of keyed steps of the rows that they read, and which keyed steps upstream do not emit such rows. Pure."""

from dataclasses import dataclass

from mixedmode.config.apply_changes import ApplyChangesStep
from mixedmode.config.async_maps import AsyncMapStep
from mixedmode.config.function_steps import CoGroupStep, CoProcessStep
from mixedmode.config.steps import (
    DeduplicateStep,
    JoinStep,
    KeyedAggregateStep,
    KeyedStep,
    OverStep,
    ProcessStep,
    TopStep,
)

__all__ = ["Needs", "needs_of", "refusal_of"]


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of a step of the rows that it reads: that they do not change, and perhaps that they have event time.

    `setting`: the setting of the step because of which it needs this. `cannot`: why the step cannot read rows that
    change. `goes_by_time`: the begin of the sentence that says that the step needs event time; None if it does not.
    `takes_changing_windows`: the step can read the rows of windows that change, since they say for how long.
    """

    setting: str
    cannot: str
    goes_by_time: str | None = None
    takes_changing_windows: bool = False


def needs_of(step: KeyedStep) -> Needs | None:
    """Return what a step needs of the rows that it reads; None if it can read all rows."""
    match step:
        case ProcessStep():
            goes = "a process step with broadcast goes" if step.broadcast else None
            return Needs("process", "a function cannot retract a row", goes)
        case KeyedAggregateStep() if step.window is not None and step.window.global_ is not None:
            return Needs("window", "a global window that is full cannot retract a row", "windows go")
        case AsyncMapStep():
            return Needs("async-map", "a call cannot be undone when its row is retracted")
        case CoGroupStep():
            return Needs("co-group", "a function cannot retract a row", "co-group goes")
        case CoProcessStep():
            return Needs("co-process", "a function cannot retract a row", "co-process goes")
        case KeyedAggregateStep() if step.window is not None:
            return Needs(
                "window",
                "a window fires once no row of it can change any more",
                None if step.window.is_by_clock else "windows go",
                takes_changing_windows=True,
            )
        case DeduplicateStep() if step.is_append_only:
            goes = "deduplicate goes" if step.goes_by_watermark else None
            return Needs("deduplicate", "a row that was kept cannot be retracted", goes)
        case OverStep():
            return Needs("over", "a row that was emitted cannot be retracted", "over goes")
        case ApplyChangesStep():
            return Needs("apply-changes", "a record of a change cannot be retracted")
        case JoinStep() if not step.join.is_regular:
            return Needs("join", "a row that was joined cannot be retracted", "the join goes")
        case _:
            return None


def refusal_of(needs: Needs, before: KeyedStep, place: str) -> str | None:
    """Return why a step with these needs cannot read the rows of the keyed step `before`; None if it may.

    place: that of `before` in the job. The text follows the name of the setting. Of some rows, only the analysis knows
    whether they change.
    """
    match before:
        case ProcessStep():
            return _of_function(needs, before.event_time, place)
        case CoGroupStep():
            return None  # its windows are final
        case CoProcessStep():
            return _of_function(needs, before.co_process.event_time, f"{place}.co-process")
        case JoinStep():
            return _of_join(needs, before, place)
        case AsyncMapStep() | OverStep():
            return None  # its rows are those of its own input
        case TopStep() | DeduplicateStep():
            return _of_best_rows(needs, before, place)
        case ApplyChangesStep():
            return (
                f" cannot read the rows of {place}, which change with each record: {needs.cannot}. Put this step "
                "before it, or use an aggregate here."
            )
        case KeyedAggregateStep():
            return _of_aggregate(needs, before, place) if before.window is None else _of_windows(needs, before, place)


def _of_function(needs: Needs, event_time: str | None, place: str) -> str | None:
    if needs.goes_by_time is None or event_time is not None:
        return None
    return (
        f" goes by event time, and the rows of the function before it have none. Add `event-time` to {place}, the "
        "column of its output that says when a row happened."
    )


def _of_join(needs: Needs, before: JoinStep, place: str) -> str | None:
    if before.join.lacks_event_time and needs.goes_by_time is not None:
        return (
            f" goes by event time, and the rows of the join before it have none. Add `event-time` to {place}.join, the "
            "name of a column with the later time of a pair."
        )
    is_inner = before.join.type == "inner"
    if not before.join.is_regular or (is_inner and needs.goes_by_time is None):
        return None
    why = "have no event time" if is_inner else f"change: {needs.cannot}"
    return (
        f" cannot read the rows of the join in {place}, which {why}. Give the join `within` or `as-of`, put this step "
        "before it, or use an aggregate here."
    )


def _of_best_rows(needs: Needs, before: TopStep | DeduplicateStep, place: str) -> str | None:
    if before.has_window_key or (isinstance(before, DeduplicateStep) and before.is_append_only):
        return None
    return (
        f" cannot read the rows of {place}, which change when a better row comes: {needs.cannot}. Put this step before "
        "it, let its key have `window_start` and `window_end` of a window, or use an aggregate here."
    )


def _of_aggregate(needs: Needs, before: KeyedAggregateStep, place: str) -> str | None:
    if before.has_window_key:
        return None
    return (
        f" cannot read the rows of the aggregate in {place}, which change and have no event time: {needs.cannot}. Give "
        "the aggregate a window, put this step before it, or use an aggregate here."
    )


def _of_windows(needs: Needs, before: KeyedAggregateStep, place: str) -> str | None:
    assert before.window is not None, before
    if (before.window.global_ is not None or before.window.is_by_clock) and needs.goes_by_time is not None:
        kind = "window of processing time" if before.window.is_by_clock else "global window"
        return (
            f" goes by event time, and the rows of the {kind} in {place} have none. Use a window there that ends with "
            "event time, or an aggregate here."
        )
    if before.has_final_windows or needs.takes_changing_windows:
        return None
    key = "allowed-lateness" if before.allowed_lateness_ms else "early-results-every"
    return (
        f" cannot read the rows of {place}, which change: with `{key}`, a window may be emitted more than once. Remove "
        "that setting, or use an aggregate here."
    )
