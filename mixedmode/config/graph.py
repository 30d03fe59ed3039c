"""The graph of a job: which sources and steps each step and each output reads. Pure.

A step reads what its `from` names; without it, it reads the step before it, and the first step reads the sources. Then
come the inputs of which every subtask has the rows (`broadcast`). An output reads its `from`; without it, it reads the
last step.

A `Ref` is the path of what is read: ("sources", name) or ("steps", index). A step refers to earlier steps only, so a
graph has no cycle.

Invariants (tests/config/test_graph.py):
  I1  a step refers only to sources and to steps before it
  I2  a job without `from` and `outputs` is a chain
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from mixedmode.config.document import Path, path_text
from mixedmode.config.spelling import did_you_mean
from mixedmode.config.step_outputs import FunctionStep, broadcasts_of, function_section
from mixedmode.config.steps import KeyedStep, SqlStep, Step
from mixedmode.config.two_inputs import TwoInputStep

__all__ = ["MAIN", "MAIN_OUTPUT", "PREVIOUS", "STEP_BEFORE", "Graph", "Ref", "input_findings", "output_name"]

#: the name of the only output of a job with `sink`, in stored documents; and the one by which a person asks for it
MAIN, MAIN_OUTPUT = "", "sink"

#: the name by which a sql step reads the rows of the step before it
PREVIOUS = "previous"
STEP_BEFORE = "the step before, in sql,"  # the owner of this name, in messages

#: ("sources", name) or ("steps", index)
Ref = Path


@dataclass(frozen=True, slots=True)
class Graph:
    """The inputs of each step and of each output. `inputs`: of each step, in order; `outputs`: of each output, by name.

    The first step of a job may be sql over all sources; only Spark knows which of them the text reads.
    """

    inputs: tuple[tuple[Ref, ...], ...]
    outputs: Mapping[str, Ref]

    @classmethod
    def of(cls, sources: Iterable[str], steps: Sequence[Step | None], outputs: Mapping[str, str | None]) -> Self:
        """Return the graph of a job.

        outputs: {name: its `from`}; None: the last step. Names that are unknown are left out. A step that is wrong is
        None.
        """
        known: dict[str, Ref] = {name.lower(): ("sources", name) for name in sources}
        every = tuple(known.values())
        inputs = list[tuple[Ref, ...]]()
        for index, step in enumerate(steps):
            names = () if step is None else step.from_
            default = (("steps", index - 1),) if index else every
            mains = tuple(known[name.lower()] for name in names if name.lower() in known) if names else default
            others = (one.from_.lower() for one in broadcasts_of(step).values())
            inputs.append((*mains, *(known[name] for name in others if name in known)))
            if step is not None and step.name is not None:
                known.setdefault(step.name.lower(), ("steps", index))
        last: Ref = ("steps", len(steps) - 1)
        return cls(
            tuple(inputs),
            {output: last if name is None else known.get(name.lower(), last) for output, name in outputs.items()},
        )

    @property
    def is_chain(self) -> bool:
        """True if each step reads the one before it, and the only output reads the last step."""
        chained = all(refs == (("steps", index),) for index, refs in enumerate(self.inputs[1:]))
        return chained and list(self.outputs.values()) == [("steps", len(self.inputs) - 1)]

    def readers(self, ref: Ref) -> int:
        """Return how many steps and outputs read a source or a step."""
        return sum(ref in refs for refs in self.inputs) + sum(ref == one for one in self.outputs.values())

    def keyed_upstream(self, index: int, steps: Sequence[Step | None]) -> tuple[list[int], list[str]]:
        """Return (the nearest keyed steps, the sources) whose rows a step reads, also through sql and map steps."""
        keyed, sources = dict[int, None](), dict[str, None]()
        refs = list(self.inputs[index])
        while refs:
            match refs.pop(0):
                case ("sources", str(name)):
                    sources[name] = None
                case (_, int(number)) if isinstance(steps[number], KeyedStep):
                    keyed[number] = None
                case (_, int(number)):
                    refs += self.inputs[number]
        return list(keyed), list(sources)


def input_findings(
    sources: Iterable[str],
    steps: Sequence[Step],
    outputs: Mapping[str, str | None],
    *,
    dimensions: Iterable[str] = (),
) -> Iterator[tuple[Path, str]]:
    """Yield the mistakes in what steps and outputs read. Arguments are as for Graph.of.

    dimensions: their names. Only the text of a sql step can read a dimension.
    """
    tables = {name.lower() for name in dimensions}
    earlier = {name.lower(): name for name in sources}
    later = {step.name.lower() for step in steps if step.name is not None}
    for index, step in enumerate(steps):
        seen = set[str]()
        places: list[Path] = [("steps", index, "from")] * len(step.from_)
        if isinstance(step, TwoInputStep):
            places = [("steps", index, step.section, side) for side in ("left", "right")]
        for place, name in zip(places, step.from_, strict=True):
            if name.lower() in seen and not isinstance(step, TwoInputStep):
                yield place, f" names an input twice. Remove one. found={name}"
            seen.add(name.lower())
            yield from _unknown(place, name, earlier, later, tables)
        for place, name in broadcast_places(index, step):
            yield from _unknown(place, name, earlier, later, tables)
        if step.name is not None:
            earlier[step.name.lower()] = step.name
    for output, wanted in outputs.items():
        if wanted is not None:
            yield from _unknown(("outputs", output, "from"), wanted, earlier, later, tables)
    graph = Graph.of(sources, steps, outputs)
    for index, step in enumerate(steps):
        if not graph.readers(("steps", index)):
            name = "" if step.name is None else f" ({step.name})"
            text = (
                f": nothing reads the rows of this step{name}. Name it in the `from` of a later step or of an output, "
                "or remove it."
            )
            yield ("steps", index), text
        elif not isinstance(step, SqlStep) and not step.from_ and _mains(graph, index, step) > 1:
            text = (
                ": this step reads one input, and the job has several sources. Add `from` with one source, or with "
                f"several to read their rows together. sources={', '.join(sources)}"
            )
            yield ("steps", index), text


def broadcast_places(index: int, step: Step) -> Iterator[tuple[Path, str]]:
    """Yield (place, source or step) of the inputs of a step whose rows every subtask has."""
    own = function_section(step)[0] if isinstance(step, FunctionStep) else ()
    for name, given in broadcasts_of(step).items():
        yield ("steps", index, *own, "broadcast", name, "from"), given.from_


def _mains(graph: Graph, index: int, step: Step) -> int:
    return len(graph.inputs[index]) - len(broadcasts_of(step))


def _unknown(
    path: Path, name: str, earlier: Mapping[str, str], later: Iterable[str], dimensions: Iterable[str]
) -> Iterator[tuple[Path, str]]:
    if name.lower() in earlier:
        return
    if name.lower() in dimensions:
        text = (
            ": this is a dimension, which is joined in the text of a sql step and has no rows of its own. Remove it "
            f"here, and write JOIN {name} in the sql; or make the table a source. found={name}"
        )
    elif path[0] == "steps" and name.lower() in later:
        text = f" names a step that comes later, or this one. Put the step that is read first. found={name}"
    else:
        known = list(earlier.values())
        text = (
            f": there is no source or step of this name.{did_you_mean(name, known)} Known here: {', '.join(known)}. "
            f"found={name}"
        )
    yield path, text


def output_name(path: Path) -> str:
    """Return the name of the output whose sink is at this path of the job: `sink`, its own name, or `steps[0].late`."""
    return str(path[1]) if path[0] == "outputs" else path_text(path)
