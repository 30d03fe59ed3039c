"""The outputs of a job other than the main one: late records, side outputs, dead letters."""

from collections.abc import Sequence

from mixedmode.config import JobSpec, KeyedAggregateStep, ProcessStep, SinkSpec
from mixedmode.plan.stages import DEAD_LETTER, LATE, KeyedStage, dead_letter_output

__all__ = ["side_sinks"]


def side_sinks(spec: JobSpec, stages: Sequence[KeyedStage]) -> dict[str, SinkSpec]:
    """Return {name of an output: its sink}.  stages: of the keyed steps, in order, and maybe one more."""
    sinks: dict[str, SinkSpec] = {
        dead_letter_output(name): sink for name, source in spec.sources.items() for sink in source.outputs.values()
    }
    keyed = [step for step in spec.steps if isinstance(step, KeyedAggregateStep | ProcessStep)]
    for step, stage in zip(keyed, stages, strict=False):  # a last stage that makes upserts is of no step
        if isinstance(step, KeyedAggregateStep) and step.late is not None:
            sinks[stage.output_of(LATE)] = step.late
        if isinstance(step, ProcessStep):
            sinks |= step.outputs
            if step.dead_letter is not None:
                sinks[stage.output_of(DEAD_LETTER)] = step.dead_letter
    return sinks
