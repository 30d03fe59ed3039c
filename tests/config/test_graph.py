"""Inputs of steps and outputs: names are resolved, and mistakes are found without Spark."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.config import JobSpec
from mixedmode.config.graph import MAIN, Graph
from mixedmode.config.load import job_spec_from_mapping
from mixedmode.errors import InvalidJobError
from tests.config.test_steps import COUNT

SOURCES = {name: {"format": "parquet", "path": f"/{name}", "event-time": "at"} for name in ("a", "b")}
SINK = {"format": "parquet", "path": "/out"}


def job(*steps: dict[str, Any], sources: Any = SOURCES, **outputs: Any) -> dict[str, Any]:
    given = {"outputs": outputs} if outputs else {"sink": SINK}
    return {"name": "j", "execution.runtime-mode": "batch", "sources": sources, "steps": list(steps), **given}


def output(step: str | None = None, path: str = "/x") -> dict[str, Any]:
    return {"format": "parquet", "path": path, **({} if step is None else {"from": step})}


def messages(given: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidJobError) as told:
        job_spec_from_mapping(given)
    return str(told.value).splitlines()


def selected(name: str, *read: str) -> dict[str, Any]:
    return {"name": name, "sql": "SELECT 1", **({"from": list(read)} if read else {})}


def test_names_are_resolved_whatever_their_case_and_defaults_are_those_of_a_chain() -> None:
    steps = [selected("x", "A"), selected("y"), {"name": "z", "from": ["X", "y"], "key-by": "k", "aggregate": COUNT}]
    graph = job_spec_from_mapping(job(*steps, o=output("Y"), p=output(path="/p"))).graph
    assert graph.inputs == ((("sources", "a"),), (("steps", 0),), (("steps", 0), ("steps", 1)))
    assert graph.outputs == {"o": ("steps", 1), "p": ("steps", 2)}
    assert not graph.is_chain


def test_a_job_without_from_and_outputs_is_a_chain() -> None:
    graph = job_spec_from_mapping(job(selected("x"), selected("y"))).graph
    assert graph.inputs == ((("sources", "a"), ("sources", "b")), (("steps", 0),))
    assert graph.outputs == {MAIN: ("steps", 1)}
    assert graph.is_chain


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            job(selected("x", "orderz")),
            "steps[0].from: there is no source or step of this name. Known here: a, b. found=orderz",
        ),
        (
            job(selected("x", "y"), selected("y", "a")),
            "steps[0].from names a step that comes later, or this one. Put the step that is read first. found=y",
        ),
        (job(selected("x", "a", "A")), "steps[0].from names an input twice. Remove one. found=A"),
        (
            job(selected("x", "a"), selected("y", "b")),
            (
                "steps[0]: nothing reads the rows of this step (x). Name it in the `from` of a later step or of an "
                "output, or remove it."
            ),
        ),
        (
            job(selected("x", "a"), o=output("xx")),
            "outputs.o.from: there is no source or step of this name. Did you mean x? Known here: a, b, x. found=xx",
        ),
        (
            {**job(selected("x", "a")), "outputs": {"o": output("x")}},
            "outputs and sink exclude each other. Write sink as one of the outputs, or remove it.",
        ),
        (
            {**job(selected("x", "a")), "sink": {**SINK, "from": "x"}},
            (
                "sink.from has no effect here: it says which step an entry of `outputs` reads. Remove it, or use "
                "`outputs`."
            ),
        ),
        (
            {name: value for name, value in job(selected("x", "a")).items() if name != "sink"},
            "sink is missing: where the rows of the last step go. Add it, or `outputs` for the rows of several steps.",
        ),
        (
            job(selected("x", "a"), o=output("x"), p=output("x")),
            (
                "outputs.p.path: outputs.o.path has this folder, or one in it or around it, and a reader could not "
                "tell their rows apart. Choose another, outside of it. found=/x, outputs.o.path=/x"
            ),
        ),
        (
            job({"map": "a:B", "output": "k string", "from": "a", "name": "m"}, o=output("m"), p=output("m", "/p")),
            (
                "steps[0].map is for jobs that are a chain: each step reads the one before it, and the only output the "
                "last one. Remove `from` and `outputs`, or put the map step into a job of its own."
            ),
        ),
        (
            job(
                {"name": "n", "from": "a", "key-by": "k", "aggregate": COUNT},
                selected("s", "n"),
                {"name": "w", "from": ["b", "s"], "key-by": "k", "window": {"tumbling": "1h"}, "aggregate": COUNT},
            ),
            (
                "steps[2].window cannot read the rows of the aggregate in steps[0], which change and have no event "
                "time: a window fires once no row of it can change any more. Give the aggregate a window, put this "
                "step before it, or use an aggregate here."
            ),
        ),
    ],
)
def test_a_wrong_graph_is_refused_with_the_place(given: dict[str, Any], expected: str) -> None:
    assert expected in messages(given)


def test_only_sources_that_reach_a_window_need_event_time() -> None:
    untimed = {**SOURCES, "b": {"format": "parquet", "path": "/b"}}
    windowed = {"name": "w", "from": "a", "key-by": "k", "window": {"tumbling": "1h"}, "aggregate": COUNT}
    counted = {"name": "c", "from": "b", "key-by": "k", "aggregate": COUNT}
    both = job(windowed, counted, sources=untimed, o=output("w"), p=output("c", "/p"))
    assert isinstance(job_spec_from_mapping(both), JobSpec)
    assert messages(job({**windowed, "from": ["a", "b"]}, sources=untimed)) == [
        (
            "sources.b.event-time is missing: windows go by the time of a record. Name the column that says when it "
            "happened."
        )
    ]


@given(
    reads=st.lists(st.lists(st.integers(0, 5), max_size=3, unique=True), min_size=1, max_size=5),
    ends=st.lists(st.integers(0, 5), min_size=1, max_size=3),
)
def test_a_step_refers_only_to_sources_and_to_steps_before_it(reads: list[list[int]], ends: list[int]) -> None:
    names = ["a", "s0", "s1", "s2", "s3", "s4"]
    steps = [{"name": f"s{i}", "sql": "SELECT 1", "from": [names[n] for n in one]} for i, one in enumerate(reads)]
    outputs = {f"o{i}": output(names[n], f"/{i}") for i, n in enumerate(ends)}
    try:
        spec = job_spec_from_mapping(job(*steps, sources={"a": SOURCES["a"]}, **outputs))
    except InvalidJobError:
        return
    for index, refs in enumerate(spec.graph.inputs):
        assert refs
        assert all(ref[0] == "sources" or int(ref[1]) < index for ref in refs)
    assert spec.graph == Graph.of(spec.sources, spec.steps, {n: one.from_ for n, one in spec.results.items()})
