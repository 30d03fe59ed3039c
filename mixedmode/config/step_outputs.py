"""The outputs of a step other than that of its rows: late records, side outputs by tag, dead letters. Pure."""

from collections.abc import Mapping
from typing import Any, TypeVar

from mixedmode.config.async_maps import AsyncMapStep
from mixedmode.config.document import Path
from mixedmode.config.fields import Section
from mixedmode.config.function_steps import CoProcessSpec, CoProcessStep
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.steps import JoinStep, KeyedAggregateStep, ProcessStep

__all__ = ["FunctionSection", "FunctionStep", "function_section", "side_outputs_of", "tag_of", "with_function_section"]

#: a keyed step with a function
FunctionStep = ProcessStep | CoProcessStep
#: its section with the settings of the function: class, columns, side outputs, what failures do
FunctionSection = ProcessStep | CoProcessSpec
AnyStep = TypeVar("AnyStep", bound=Section)


def function_section(step: FunctionStep) -> tuple[Path, FunctionSection]:
    """Return the path and the section in a step of the settings of its function."""
    return ((), step) if isinstance(step, ProcessStep) else ((step.section,), step.co_process)


def with_function_section(step: AnyStep, update: Mapping[str, Any]) -> AnyStep:
    """Return the same step with other settings of its function."""
    if isinstance(step, CoProcessStep):
        return step.model_copy(update={"co_process": step.co_process.model_copy(update=update)})
    return step.model_copy(update=update)


def side_outputs_of(step: Section) -> dict[Path, SinkSpec]:
    """Return {path in the step: sink} of the outputs of a step other than that of its rows."""
    if isinstance(step, KeyedAggregateStep):
        return {} if step.late is None else {("late",): step.late}
    if isinstance(step, JoinStep):
        return {(step.section, "late", side): sink for side, sink in step.join.late_sinks.items()}
    if isinstance(step, AsyncMapStep):
        return {} if step.dead_letter is None else {("dead-letter",): step.dead_letter}
    if not isinstance(step, FunctionStep):
        return {}
    path, section = function_section(step)
    sinks: dict[Path, SinkSpec] = {(*path, "outputs", tag): sink for tag, sink in section.outputs.items()}
    if section.dead_letter is not None:
        sinks[*path, "dead-letter"] = section.dead_letter
    return sinks


def tag_of(path: Path) -> str:
    """Return the tag of the output at a path of `side_outputs_of`: `late`, `late-left`, `dead-letter`, or its own."""
    return "-".join(map(str, path[-2:])) if path[-2:-1] == ("late",) else str(path[-1])
