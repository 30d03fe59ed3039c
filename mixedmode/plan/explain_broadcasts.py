"""The lines of `explain` on the broadcast inputs of a function."""

from collections.abc import Iterator, Mapping

from mixedmode.config import SinkSpec, format_duration_ms
from mixedmode.operators.process import BroadcastInput, ProcessOperator
from mixedmode.plan.explain_joins import late_lines
from mixedmode.plan.stages import KeyedStage, Side

__all__ = ["BROADCAST_STATE", "broadcast_lines"]

BROADCAST_STATE = "records that wait; the rows of broadcast inputs, once for each key group"


def broadcast_lines(stage: KeyedStage, operator: ProcessOperator, side_sinks: Mapping[str, SinkSpec]) -> Iterator[str]:
    """Yield the lines on the broadcast inputs of a function, and what they mean for its records; none without one."""
    if operator.broadcasts is None:
        return
    for given, side in zip(operator.broadcasts.inputs, stage.sides[operator.broadcasts.mains :], strict=True):
        yield f"  broadcast   {_of_input(given, side)}"
    yield "  waits       a record is processed once the watermark of all inputs has passed its time"
    yield from late_lines(stage, side_sinks)


def _of_input(given: BroadcastInput, side: Side) -> str:
    names = [field.name for field in given.fields]
    key = ", ".join(names[index] for index in given.key)
    parts = [f"{given.name}: the last row of {', '.join(side.roots)} for each {key}, to every subtask"]
    if given.tie_break:
        parts.append(f"of one time the greatest by {', '.join(names[index] for index in given.tie_break)}")
    if given.tolerance_us is not None:
        parts.append(f"at most {format_duration_ms(given.tolerance_us // 1000)} old")
    if given.deleted is not None:
        parts.append(f"a row with {names[given.deleted]} ends the one before")
    if given.history_us:
        parts.append(f"known for {format_duration_ms(given.history_us // 1000)} before the record")
    return "; ".join(parts)
