"""The outputs of a step other than that of its rows, and its inputs that every subtask has. Pure."""

from collections.abc import Mapping
from typing import Any, TypeVar

from mixedmode.config.broadcasts import BroadcastSpec
from mixedmode.config.document import Path
from mixedmode.config.fields import Section
from mixedmode.config.function_settings import FallibleClass, FunctionSettings
from mixedmode.config.function_steps import CoProcessSpec, CoProcessStep
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.steps import ProcessStep
from mixedmode.config.two_inputs import TwoInputs, TwoInputStep

__all__ = [
    "FunctionSection",
    "FunctionStep",
    "broadcasts_of",
    "function_section",
    "own_section",
    "side_outputs_of",
    "tag_of",
    "with_settings",
    "with_side_outputs",
]

#: a keyed step with a function that has state and side outputs
FunctionStep = ProcessStep | CoProcessStep
#: its section with the settings of the function: class, columns, side outputs, what failures do
FunctionSection = ProcessStep | CoProcessSpec
AnyStep = TypeVar("AnyStep", bound=Section)


def function_section(step: FunctionStep) -> tuple[Path, FunctionSection]:
    """Return the path and the section in a step of the settings of its function."""
    return ((), step) if isinstance(step, ProcessStep) else ((step.section,), step.co_process)


def broadcasts_of(step: Section | None) -> dict[str, BroadcastSpec]:
    """Return {name: input} of the inputs of a step whose rows every subtask has."""
    return dict(function_section(step)[1].broadcast) if isinstance(step, FunctionStep) else {}


def side_outputs_of(step: Section) -> dict[Path, SinkSpec]:
    """Return {path in the step: sink} of the outputs of a step other than that of its rows."""
    here, own = own_section(step)
    found = dict[Path, SinkSpec]()
    late = getattr(own, "late", None)
    if isinstance(late, SinkSpec):
        found[*here, "late"] = late
    if isinstance(own, TwoInputs):
        found |= {(*here, "late", side): sink for side, sink in own.late_sinks.items()}
    if isinstance(own, FunctionSettings):
        found |= {(*here, "outputs", tag): sink for tag, sink in own.outputs.items()}
    if isinstance(own, FallibleClass) and own.dead_letter is not None:
        found[*here, "dead-letter"] = own.dead_letter
    return found


def with_side_outputs(step: AnyStep, sinks: Mapping[Path, SinkSpec]) -> AnyStep:
    """Return the same step with other sinks of the outputs that `side_outputs_of` returns.  sinks: as there."""
    here, own = own_section(step)
    update = dict[str, Any]()
    for path, sink in sinks.items():
        match path[len(here) :]:
            case ("late", side) if isinstance(own, TwoInputs):
                update["late"] = update.get("late", own.late).model_copy(update={str(side): sink})
            case ("outputs", tag) if isinstance(own, FunctionSettings):
                update["outputs"] = {**update.get("outputs", own.outputs), tag: sink}
            case (key,):
                update[str(key).replace("-", "_")] = sink
    return with_settings(step, update)


def with_settings(step: AnyStep, update: Mapping[str, Any]) -> AnyStep:
    """Return the same step with other settings, in the section with its two inputs if it has one."""
    if not update or not isinstance(step, TwoInputStep):
        return step.model_copy(update=update)
    return step.model_copy(update={step.section.replace("-", "_"): step.pair.model_copy(update=update)})


def own_section(step: Section) -> tuple[Path, Section]:
    """Return the path and the section with the settings of a step: that of its two inputs, or the step itself."""
    return ((step.section,), step.pair) if isinstance(step, TwoInputStep) else ((), step)


def tag_of(path: Path) -> str:
    """Return the tag of the output at a path of `side_outputs_of`: `late`, `late-left`, `dead-letter`, or its own."""
    return "-".join(map(str, path[-2:])) if path[-2:-1] == ("late",) else str(path[-1])
