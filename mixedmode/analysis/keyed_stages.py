"""Makes the stage of a keyed step of one input: each kind of step has its own analysis."""

from mixedmode.analysis.apply_changes import analysed_apply_changes
from mixedmode.analysis.async_maps import analysed_async_map
from mixedmode.analysis.keyed_steps import AggregateStage, RankedStage, StepInput, analysed_process
from mixedmode.analysis.over_steps import analysed_over
from mixedmode.config import (
    AsyncMapStep,
    DeduplicateStep,
    KeyedAggregateStep,
    OneInputStep,
    OverStep,
    ProcessStep,
    TopStep,
)
from mixedmode.config.apply_changes import ApplyChangesStep
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.stages import KeyedStage

__all__ = ["keyed_stage"]


def keyed_stage(step: OneInputStep, given: StepInput, where: Where) -> KeyedStage:
    """Return the stage of a keyed step. Raise InvalidJobError with every mistake.  where: names a place in the step."""
    match step:
        case KeyedAggregateStep():
            return AggregateStage(step, given, where).build()
        case ProcessStep():
            return analysed_process(step, given, where)
        case AsyncMapStep():
            return analysed_async_map(step, given, where)
        case TopStep() | DeduplicateStep():
            return RankedStage(step, given, where).build()
        case OverStep():
            return analysed_over(step, given, where)
        case ApplyChangesStep():
            return analysed_apply_changes(step, given, where)
