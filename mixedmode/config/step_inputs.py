"""What a keyed step may read: whether rows that change, or have no event time, are refused for it, and why."""

from collections.abc import Iterator

from mixedmode.config.document import Path, path_text
from mixedmode.config.steps import (
    DeduplicateStep,
    JoinStep,
    KeyedAggregateStep,
    KeyedStep,
    ProcessStep,
    TopStep,
)

__all__ = ["input_findings_of", "reads_added_rows"]

#: {setting of a step that cannot read rows that change: why}
_CANNOT = {
    "window": "a window has a time for each row",
    "process": "a function cannot retract a row",
    "deduplicate": "a row that was kept cannot be retracted",
    "join": "a row that was joined cannot be retracted",
}


def reads_added_rows(step: KeyedStep) -> str | None:
    """Return the setting for which a step cannot read rows that change; None if it can read them."""
    match step:
        case ProcessStep():
            return "process"
        case KeyedAggregateStep():
            return None if step.window is None else "window"
        case DeduplicateStep():
            return "deduplicate" if step.is_append_only else None
        case JoinStep():
            return None if step.join.is_regular else "join"
        case TopStep():
            return None


def input_findings_of(path: Path, index: int, before: KeyedStep, *, needs_time: bool) -> Iterator[tuple[Path, str]]:
    """Yield why the step with the setting at `path` cannot read the rows of the keyed step `before` at `index`."""
    place = path_text(("steps", index))
    if isinstance(before, ProcessStep):
        if needs_time and before.event_time is None:
            text = (
                f" goes by event time, and the rows of the function before it have none. Add `event-time` to {place}, "
                "the column of its output that says when a row happened."
            )
            yield path, text
        return
    cannot = _CANNOT[str(path[-1])]
    if isinstance(before, JoinStep) and before.join.is_regular:
        why = "have no event time" if before.join.type == "inner" else f"change: {cannot}"
        text = (
            f" cannot read the rows of the join in {place}, which {why}. Give the join `within` or `as-of`, put this "
            "step before it, or use an aggregate here."
        )
        if needs_time or before.join.type != "inner":
            yield path, text
        return
    if isinstance(before, TopStep) or (isinstance(before, DeduplicateStep) and not before.is_append_only):
        text = (
            f" cannot read the rows of {place}, which change when a better row comes: {cannot}. Put this step before "
            "it, or use an aggregate here."
        )
        if not (isinstance(before, TopStep) and before.has_window_key):
            yield path, text
    elif isinstance(before, KeyedAggregateStep) and before.window is None:
        if before.has_window_key:
            return  # its results may be final; the analysis knows
        text = (
            f" cannot read the rows of the aggregate before it, which change and have no event time: {cannot}. Give "
            f"{place} a window, put this step before it, or use an aggregate here."
        )
        yield path, text
    elif isinstance(before, KeyedAggregateStep) and before.window is not None and before.window.global_ is not None:
        text = (
            f" goes by event time, and the rows of the global window in {place} have none. Use a window there that "
            "ends with time, or an aggregate here."
        )
        if needs_time:
            yield path, text
    elif isinstance(before, KeyedAggregateStep) and not before.has_final_windows and path[-1] != "window":
        key = "allowed-lateness" if before.allowed_lateness_ms else "early-results-every"
        text = (
            f" cannot read the rows of {place}, which change: with `{key}`, a window may be emitted more than once. "
            "Remove that setting, or use an aggregate here."
        )
        yield path, text
