"""The outputs of a job other than those of whole steps: late records, side outputs, dead letters."""

from collections.abc import Mapping

from mixedmode.config import JobSpec, JoinStep, KeyedAggregateStep, ProcessStep, SinkSpec
from mixedmode.plan.side_outputs import DEAD_LETTER, LATE, LATE_OF_SIDES, dead_letter_output
from mixedmode.plan.stages import KeyedStage

__all__ = ["side_sinks"]


def side_sinks(spec: JobSpec, stages: Mapping[int, KeyedStage]) -> dict[str, SinkSpec]:
    """Return {name of an output: its sink}.  stages: {position of a keyed step: its stage}."""
    sinks: dict[str, SinkSpec] = {
        dead_letter_output(name): sink for name, source in spec.sources.items() for sink in source.outputs.values()
    }
    for index, stage in stages.items():
        step = spec.steps[index]
        if isinstance(step, KeyedAggregateStep) and step.late is not None:
            sinks[stage.output_of(LATE)] = step.late
        if isinstance(step, JoinStep):
            tags = dict(zip(("left", "right"), LATE_OF_SIDES, strict=True))
            sinks |= {stage.output_of(tags[side]): sink for side, sink in step.join.late_sinks.items()}
        if isinstance(step, ProcessStep):
            sinks |= step.outputs
            if step.dead_letter is not None:
                sinks[stage.output_of(DEAD_LETTER)] = step.dead_letter
    return sinks
