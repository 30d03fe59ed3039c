"""Jobs that are graphs: branches, unions, several sources and several outputs.

Whatever the mode, the flip, the epochs, the parallelism and the restarts are, each output has the answer of the records
alone. The oracle is plain Python: each step is a function from a list of rows to a list of rows.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.driver.engine import Engine
from mixedmode.driver.phases import Until
from mixedmode.job import Job, Sink, Source, Stream
from tests.differential.stories import local_cases
from tests.differential.test_time_in_chains import (
    ON_SPARK,
    SCHEMA,
    Row,
    Step,
    best,
    by_key,
    earliest,
    final,
    function,
    session,
    told,
    tumbling,
)
from tests.differential.timelines import MODES, MS, Case, Event, Mode, cases
from tests.harness import SPARK, manifests, output_rows, run, write_parquet
from tests.local_engine import LocalEngine, World, local_session

SOURCES = ("t", "u")


def source_of(event: Event, sources: int) -> str:
    return SOURCES[event.time_us // 7 % sources]


@dataclass(frozen=True)
class Join:
    """A step over two nodes, and what it makes of their rows in plain Python."""

    add: Callable[[Stream, Stream], Stream]
    apply: Callable[[Sequence[Row], Sequence[Row]], list[Row]]


@dataclass(frozen=True)
class Node:
    """A source, or a step over earlier nodes. `columns`: nodes with the same ones can be read together."""

    step: Step | Join | None
    inputs: tuple[int, ...] = ()
    columns: str = "records"
    is_changelog: bool = False

    @property
    def has_key(self) -> bool:
        return not isinstance(self.step, Step) or self.step.has_key

    @property
    def has_rank(self) -> bool:
        return isinstance(self.step, Step) and self.step.has_rank

    @property
    def emits_windows(self) -> bool:
        return isinstance(self.step, Step) and self.step.emits_windows


@dataclass(frozen=True)
class Graph:
    """Nodes, of which the first are the sources; and the nodes whose rows are outputs.

    source_of: tells which source a record is of, among this number of them.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    source_of: Callable[[Event, int], str] = source_of

    @property
    def sources(self) -> int:
        return sum(node.step is None for node in self.nodes)


def by_n() -> Step:
    """An aggregate by a result of another aggregate, which is retracted when the result changes."""

    def apply(rows: Sequence[Row]) -> list[Row]:
        found = Counter(row["n"] for row in rows)
        return [{"k": None, "v": count, "n": n, "t": None} for n, count in found.items()]

    return Step(lambda job: job.key_by("n").aggregate(v="count(*)"), apply, emits_windows=False, has_key=False)


def next_steps(inputs: Sequence[Node], draw: st.DrawFn) -> list[tuple[Callable[[], Step], str, bool]]:
    """(a step, its columns, whether its rows change) of all steps that can read these nodes together."""
    if any(node.is_changelog for node in inputs):
        return [(by_n, "by n", True)]
    has_key = all(node.has_key for node in inputs)
    size = draw(st.sampled_from([5, 20, 60]))
    found: list[tuple[Callable[[], Step], str, bool]] = [
        (partial(tumbling, size, is_keyed=has_key), f"windows {has_key}", False),
        (partial(tumbling, 30, is_keyed=False), "windows False", False),
    ]
    if has_key:
        found += [
            (partial(session, draw(st.sampled_from([3, 10, 25]))), "windows True", False),
            (function, "function", False),
            (earliest, f"earliest of {inputs[0].columns}", False),
            (by_key, "by key", True),
        ]
    if len(inputs) == 1 and inputs[0].emits_windows:
        found.append((partial(final, is_keyed=False), "windows False", False))
        if has_key and not inputs[0].has_rank:
            found.append((best, f"best of {inputs[0].columns}", False))
    return found


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """One or two sources, and two to six steps. The rows of every node that nothing reads are an output."""
    sources = draw(st.integers(1, 2))
    nodes = [Node(None) for _ in range(sources)]
    for _ in range(draw(st.integers(2, 6))):
        first = draw(st.integers(0, len(nodes) - 1))
        alike = [i for i, node in enumerate(nodes) if node.columns == nodes[first].columns]
        inputs = {first}
        if draw(st.booleans()) and not nodes[first].has_rank:
            inputs |= {draw(st.sampled_from(alike))}
        chosen = tuple(sorted(inputs))
        step, columns, is_changelog = draw(st.sampled_from(next_steps([nodes[i] for i in chosen], draw)))
        if columns == "by n" and all(nodes[i].columns == "by n" for i in chosen):
            continue  # its rows have no value to go on with
        nodes.append(Node(step(), chosen, columns, is_changelog))
    read = {i for node in nodes for i in node.inputs}
    steps = range(sources, len(nodes))
    outputs = {i for i in steps if i not in read} | set(draw(st.lists(st.sampled_from(steps), max_size=2)))
    used = _needed(nodes, outputs)
    assert used, nodes
    return Graph(tuple(nodes), tuple(sorted(outputs)))


def _needed(nodes: Sequence[Node], outputs: set[int]) -> set[int]:
    found, left = set[int](), list(outputs)
    while left:
        found.add(left[-1])
        left += nodes[left.pop()].inputs
    return found


def records(events: Sequence[Event], graph: Graph, source: str) -> list[Row]:
    return [event.row | {"n": 1} for event in events if graph.source_of(event, graph.sources) == source]


def streams(graph: Graph, job: Job) -> list[Stream]:
    found: list[Stream] = []
    for number, node in enumerate(graph.nodes):
        if node.step is None:
            found.append(job.source(SOURCES[number]))
            continue
        first, *others = [found[i] for i in node.inputs]
        if isinstance(node.step, Join):
            found.append(node.step.add(first, *others))
            continue
        given: Any = first.union(*others) if others else first
        found.append(node.step.add(given))  # type: ignore[arg-type]
    return found


def play(
    case: Case, mode: Mode, graph: Graph, base: Path, spark: SparkSession | None, run_job: Callable[..., object] = run
) -> dict[int, Counter[tuple[Any, ...]]]:
    """Run the case, and stop and start again after the epochs that it names. Return the rows of each output.

    run_job: called in the place of `run`.
    """
    names = SOURCES[: graph.sources]
    before = case.events[: {"mixed": case.flip, "streaming": 0, "batch": len(case.events)}[mode]]
    epochs = [*([before] if mode != "streaming" else []), *case.epochs(mode)]
    world, parallelism = World(lost={0} if case.slices > 1 else set()), case.parallelism
    for name in names:
        (base / name).mkdir(parents=True)

    def arrive(number: int) -> None:
        for name in names:
            table = pa.Table.from_pylist(records(epochs[number], graph, name), SCHEMA)
            if spark is None:
                world.files[f"{name}/{number:03}"] = table
            else:
                write_parquet(base / name, f"{number:03}.parquet", table)

    def start(until: Until, feed: Sequence[Callable[[], object]] = ()) -> None:
        sources = {
            name: Source.parquet(
                base / name,
                schema="k string, v bigint, n bigint, t timestamp",
                event_time="t",
                out_of_orderness=f"{case.bound_ms}ms",
                **({"bounded": True} if mode == "batch" else {"max_files_per_epoch": 1}),
            )
            for name in names
        }
        job = Job(
            "graph",
            sources=sources,
            mode=mode,
            checkpoint_dir=None if mode == "batch" else base / "checkpoints",
            parallelism=parallelism,
            max_parallelism=8,
            spark=SPARK,
        )
        made = streams(graph, job)
        for number in graph.outputs:
            job = job.output(f"o{number}", made[number], Sink.parquet(base / "out" / str(number)))
        session = local_session(world) if spark is None else spark
        engine = LocalEngine if spark is None else Engine
        run_job(job, session, feed=feed, until=until, engine=engine)

    first = 1 if mode != "streaming" else 0
    for number in range(first):
        arrive(number)
    feed: list[Callable[[], object]] = []
    for number in range(first, len(epochs)):
        feed.append(partial(arrive, number))
        if number - first in case.restores:
            start(Until.IDLE, feed)
            feed, parallelism = [], case.restores[number - first]
    start(Until.DRAINED, feed)
    folders = {number: base / "out" / str(number) for number in graph.outputs}
    return {
        number: told(output_rows(folder) if any(folder.glob("part-*")) else []) for number, folder in folders.items()
    }


def expected(case: Case, graph: Graph) -> dict[int, Counter[tuple[Any, ...]]]:
    rows: list[list[Row]] = []
    for number, node in enumerate(graph.nodes):
        if node.step is None:
            rows.append(records(case.events, graph, SOURCES[number]))
        elif isinstance(node.step, Join):
            rows.append(node.step.apply(*(rows[i] for i in node.inputs)))
        else:
            rows.append(node.step.apply([row for i in node.inputs for row in rows[i]]))
    return {number: told(rows[number]) for number in graph.outputs}


@given(case=cases(), graph=graphs())
@local_cases(0.2)
def test_each_output_of_a_graph_is_the_answer_of_the_records(case: Case, graph: Graph) -> None:
    for mode in MODES:
        with tempfile.TemporaryDirectory() as base:
            assert play(case, mode, graph, Path(base), None) == expected(case, graph), mode


DIAMOND = Graph(
    (
        Node(None),
        Node(None),
        Node(tumbling(10), (0, 1)),
        Node(session(8), (0,)),
        Node(by_key(), (2,), is_changelog=True),
        Node(tumbling(30), (2, 3)),
        Node(by_n(), (4,), is_changelog=True),
    ),
    (2, 4, 5, 6),
)


@pytest.mark.parametrize("mode", MODES)
def test_spark_agrees_about_branches_and_unions(mode: Mode, spark: SparkSession, tmp_path: Path) -> None:
    assert play(ON_SPARK, mode, DIAMOND, tmp_path, spark) == expected(ON_SPARK, DIAMOND)


def test_the_local_executor_agrees_about_the_same_graph(tmp_path: Path) -> None:
    for mode in MODES:
        for case in (ON_SPARK, replace(ON_SPARK, restores={0: 4})):
            found = play(case, mode, DIAMOND, tmp_path / f"{mode}-{len(case.restores)}", None)
            assert found == expected(case, DIAMOND), mode


def test_a_source_without_records_holds_back_only_the_steps_that_it_can_reach(tmp_path: Path) -> None:
    graph = Graph((Node(None), Node(None), Node(tumbling(10), (0,)), Node(tumbling(10), (0, 1))), (2, 3))
    events = tuple(Event("both", ms * MS // 14 * 14, 1) for ms in (3, 14, 31, 47))
    assert {source_of(event, 2) for event in events} == {"t"}
    case = replace(ON_SPARK, events=events, bound_ms=0, flip=2, cuts=(3,), restores={})
    found: list[dict[int, int]] = []

    def look(job: Job, session: SparkSession, until: Until, **given: Any) -> None:
        assert until is Until.DRAINED
        run(job, session, until=Until.IDLE, **given)
        folders = {number: tmp_path / "case" / "out" / str(number) for number in graph.outputs}
        found.append({number: len(list(folder.glob("part-*"))) for number, folder in folders.items()})

    play(case, "mixed", graph, tmp_path / "case", None, look)
    assert found[0][2] > 0, "windows over the one source have fired"
    assert found[0][3] == 0, "windows over both have not"
    newest = manifests(tmp_path / "case" / "checkpoints")[-1]
    assert newest.watermark_us is None
    assert newest.step_watermarks == {"aggregate_1": max(event.time_us for event in events)}
