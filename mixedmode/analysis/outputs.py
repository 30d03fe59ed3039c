"""The outputs of a job other than those of whole steps: late records, side outputs, dead letters."""

from collections.abc import Mapping

from mixedmode.config import JobSpec, SinkSpec
from mixedmode.config.step_outputs import side_outputs_of, tag_of
from mixedmode.plan.side_outputs import dead_letter_output
from mixedmode.plan.stages import KeyedStage

__all__ = ["side_sinks"]


def side_sinks(spec: JobSpec, stages: Mapping[int, KeyedStage]) -> dict[str, SinkSpec]:
    """Return {name of an output: its sink}.  stages: {position of a keyed step: its stage}."""
    sinks: dict[str, SinkSpec] = {
        dead_letter_output(name): sink for name, source in spec.sources.items() for sink in source.outputs.values()
    }
    for index, stage in stages.items():
        step = spec.steps[index]
        sinks |= {stage.output_of(tag_of(path)): sink for path, sink in side_outputs_of(step).items()}
    return sinks
