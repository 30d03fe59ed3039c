"""The lines of `explain` on joins: which rows meet, when a row is emitted, and what is stored."""

from collections.abc import Iterator, Mapping

from mixedmode.config import SinkSpec, format_duration_ms
from mixedmode.operators.co_group import CoGroupBase, SessionCoGroupOperator
from mixedmode.operators.interface import Changelog
from mixedmode.operators.join import RIGHT, AsOfJoinOperator, IntervalJoinOperator, RegularJoinOperator
from mixedmode.plan.stages import KeyedStage

__all__ = ["GROWS", "join_lines", "join_state", "late_lines"]

#: of a join without as-of and within
GROWS = "keeps all rows of both inputs. A join with within or as-of forgets rows that are out of reach in event time"

JoinOperator = AsOfJoinOperator | IntervalJoinOperator | RegularJoinOperator

_PAIRS = "a pair when its second row arrives"
#: {type of an interval join: what it emits}, of those without pairs
_EMITTED = {
    "semi": "a row of the left when its first partner arrives",
    "anti": "a row of the left without a partner, once none can come any more",
}


def join_lines(stage: KeyedStage, operator: JoinOperator, side_sinks: Mapping[str, SinkSpec]) -> Iterator[str]:
    """Yield the lines on which rows of a join meet, and when they are emitted."""
    match operator:
        case AsOfJoinOperator():
            yield from _as_of_lines(stage, operator)
            yield from late_lines(stage, side_sinks)
        case IntervalJoinOperator():
            yield from _interval_lines(stage, operator)
            yield from late_lines(stage, side_sinks)
        case RegularJoinOperator():
            yield from _regular_lines(stage, operator)


def join_state(operator: JoinOperator | CoGroupBase) -> str:
    """Return a phrase on the state of a join or a co-group."""
    match operator:
        case SessionCoGroupOperator():
            return "rows of both sides whose session has not ended, and the bounds of these sessions"
        case CoGroupBase():
            return "rows of both sides whose window has not ended, once for each of their windows"
        case AsOfJoinOperator():
            kept = "rows of both sides that the watermark has not passed, and one row of the right per key"
            return kept if operator.tolerance_us is None else f"{kept}, until it is too old to be met"
        case IntervalJoinOperator():
            return "rows of both sides that may still find a partner"
        case RegularJoinOperator():
            return "all rows of both sides, for ever: a row goes only when it is retracted"


def _as_of_lines(stage: KeyedStage, operator: AsOfJoinOperator) -> Iterator[str]:
    left, right = (", ".join(side.roots) for side in stage.sides)
    kept = "kept with NULL" if operator.keeps_left else "dropped"
    when = "before it" if operator.strictly else "at its time or before"
    yield f"  joins       each row of {left} with the last row of {right} {when}; without one, it is {kept}"
    if operator.tie_break:
        names = [operator.layout.sides[RIGHT][index].name for index in operator.tie_break]
        yield f"  ties        rows of {right} with one key and time: the greatest by {', '.join(names)}"
    if operator.tolerance_us is not None:
        yield f"  tolerance   a row of {right} is at most {_duration(operator.tolerance_us)} older"
    if operator.deleted is not None:
        column = operator.layout.sides[RIGHT][operator.deleted].name
        yield f"  deleted     a row of {right} with {column} ends the one before"
    yield "  emits       a row once the watermark has passed its time"


def _interval_lines(stage: KeyedStage, operator: IntervalJoinOperator) -> Iterator[str]:
    left, right = (", ".join(side.roots) for side in stage.sides)
    lower, upper = (f"{'-' * (bound < 0)}{_duration(abs(bound))}" for bound in operator.bounds_us)
    yield f"  joins       {operator.type}: {left} with {right} whose time is from {lower} to {upper} after its own"
    yield from _condition_lines(operator)
    yield f"  emits       {_EMITTED.get(operator.type, _PAIRS)}"
    if operator.traits.delay_us:
        delay = _duration(operator.traits.delay_us)
        yield f"  delay       a row is emitted up to {delay} behind the watermark"


def _regular_lines(stage: KeyedStage, operator: RegularJoinOperator) -> Iterator[str]:
    left, right = (", ".join(side.roots) for side in stage.sides)
    texts = {
        "inner": f"each row of {left} with each row of {right} of its key",
        "left": f"each row of {left} with each row of {right} of its key, or with NULL",
        "right": f"each row of {right} with each row of {left} of its key, or with NULL",
        "full": f"each row of {left} and {right} with each one of the other of its key, or with NULL",
        "semi": f"the rows of {left} with a row of {right} of their key",
        "anti": f"the rows of {left} without a row of {right} of their key",
    }
    yield f"  joins       {texts[operator.type]}, whatever their times are"
    yield from _condition_lines(operator)
    if operator.traits.emits is Changelog.RETRACT:
        yield "  emits       changes: a row is retracted when its match comes or goes"
    yield f"  grows       the state {GROWS}"


def late_lines(
    stage: KeyedStage, side_sinks: Mapping[str, SinkSpec], which: str = "rows before the watermark"
) -> Iterator[str]:
    """Yield the line on the late rows of each input.  which: rows are late."""
    fates = []
    for side in stage.sides:
        output = stage.output_of(side.late_tag)
        fate = f"go to the sink {output}" if output in side_sinks else "are counted and dropped"
        fates.append(f"of {', '.join(side.roots)} {fate}")
    yield f"  late        {which}: those {', those '.join(fates)}"


def _condition_lines(operator: IntervalJoinOperator | RegularJoinOperator) -> Iterator[str]:
    if operator.condition is not None:
        text = " ".join(operator.condition.text.split())
        yield f"  condition   {text}; a pair without it is none. It is computed in the join"


def _duration(span_us: int) -> str:
    return format_duration_ms(span_us // 1000)
