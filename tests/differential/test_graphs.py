"""Jobs that are graphs: branches, unions, several sources and several outputs.

Whatever the mode, the flip, the epochs, the parallelism, the restarts and the crashes are, each output has the answer
of the records alone. The oracle is plain Python: each step is a function from a list of rows to a list of rows.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.crash_points import CrashPoint
from mixedmode.driver.engine import Engine
from mixedmode.driver.phases import Until
from mixedmode.errors import RetryableError
from mixedmode.job import Job, Sink, Source, Stream
from tests.differential.stories import case_folder, local_cases
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
    peaks,
    session,
    told,
    totals,
    tumbling,
)
from tests.differential.timelines import MODES, MODES_ON_SPARK, MS, Case, Event, Mode, cases
from tests.harness import SPARK, SPARK_CASES, ManualClock, Recording, manifests, output_rows, run, write_parquet
from tests.local_engine import LocalEngine, World, local_session
from tests.random_cases import random_cases
from tests.walk.faults import FailAtStep, Fault, Faults, KillAtPoint, KillAtStep, Killed

SOURCES = ("t", "u")
CLOCK_MS = 40
EPOCH_POINTS: tuple[CrashPoint, ...] = (
    "sort",
    "runs-stored",
    "before-manifest",
    "after-manifest",
    "publish",
    "after-publish",
    "drop",
    "collect",
)


#: {columns of a node: columns that no two of its rows share, other than the key of its step}
OWN_KEYS = {
    "by key": ("v", "k"),
    "over all": ("v",),
    "earliest of records": ("k",),
    "windows True": ("k", "n", "window_end", "window_start"),
}


def source_of(event: Event, sources: int) -> str:
    return SOURCES[event.time_us // 7 % sources]


@dataclass(frozen=True)
class Join:
    """A step over two nodes, and what it makes of their rows in plain Python."""

    add: Callable[[Stream, Stream], Stream]
    apply: Callable[[Sequence[Row], Sequence[Row]], list[Row]]


@dataclass(frozen=True)
class Node:
    """A source, or a step over earlier nodes. `columns`: nodes with the same ones can be read together.

    is_changelog: its rows change. is_bounded: only as long as the windows that they belong to.
    """

    step: Step | Join | None
    inputs: tuple[int, ...] = ()
    columns: str = "records"
    is_changelog: bool = False
    is_bounded: bool = False

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

    `source_of`: tells which source a record is of, among this number of them.
    `keys`: {output: its own key columns, by which no two of its rows are equal}.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    keys: Mapping[int, Sequence[str]] = field(default_factory=dict)
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


def over_all() -> Step:
    """An aggregate over all rows: one row, from the first row on."""

    def apply(rows: Sequence[Row]) -> list[Row]:
        return [{"k": None, **totals(rows), "t": None}] if rows else []

    return Step(lambda job: job.aggregate(v="sum(v)", n="sum(n)"), apply, emits_windows=False, has_key=False)


def next_steps(inputs: Sequence[Node], draw: st.DrawFn) -> list[tuple[Callable[[], Step], str, bool]]:
    """(a step, its columns, whether its rows change) of all steps that can read these nodes together."""
    has_key = all(node.has_key for node in inputs)
    size = draw(st.sampled_from([5, 20, 60]))
    if any(node.is_changelog for node in inputs):
        return [(by_n, "by n", True), (over_all, "over all", True), *steps_over_changes(inputs, size)]
    found: list[tuple[Callable[[], Step], str, bool]] = [
        (partial(tumbling, size, is_keyed=has_key), f"windows {has_key}", False),
        (partial(tumbling, 30, is_keyed=False), "windows False", False),
        (over_all, "over all", True),
    ]
    if has_key:
        found += [
            (partial(session, draw(st.sampled_from([3, 10, 25]))), "windows True", False),
            (function, "function", False),
            (earliest, f"earliest of {inputs[0].columns}", False),
            (by_key, "by key", True),
        ]
    found += [
        (partial(early, tumbling(size, is_keyed=has_key)), f"windows {has_key}", True),
        *([(partial(early, session(10)), "windows True", True)] if has_key else []),
    ]
    if len(inputs) == 1 and inputs[0].emits_windows:
        found.append((partial(final, is_keyed=False), "windows False", False))
        if has_key and not inputs[0].has_rank:
            found.append((best, f"best of {inputs[0].columns}", False))
    return found


def early(step: Step) -> Step:
    """The same windows, which are emitted before they end, too. So their rows change."""
    add: Callable[..., Job] = step.add
    return replace(step, add=partial(add, early_results_every="2ms", allowed_lateness="3ms"))


def steps_over_changes(inputs: Sequence[Node], size: int) -> list[tuple[Callable[[], Step], str, bool]]:
    """The windows that can read these nodes, some of which change, together."""
    if not all(node.is_bounded or not node.is_changelog for node in inputs):
        return []
    has_key = all(node.has_key for node in inputs)
    found: list[tuple[Callable[[], Step], str, bool]] = [
        (partial(tumbling, size, is_keyed=has_key), f"windows {has_key}", False),
        (partial(peaks, size, is_keyed=has_key), f"windows {has_key}", False),
        (lambda: early(peaks(size, is_keyed=has_key)), f"windows {has_key}", True),
        *([(partial(session, 10), "windows True", False)] if has_key else []),
    ]
    if len(inputs) == 1 and inputs[0].emits_windows:
        found.append((partial(final, is_keyed=False), "windows False", True))
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
        made = step()
        nodes.append(Node(made, chosen, columns, is_changelog, is_bounded=made.emits_windows))
    read = {i for node in nodes for i in node.inputs}
    steps = range(sources, len(nodes))
    outputs = {i for i in steps if i not in read} | set(draw(st.lists(st.sampled_from(steps), max_size=2)))
    keys = {i: key for i in sorted(outputs) if (key := OWN_KEYS.get(nodes[i].columns)) and draw(st.booleans())}
    return Graph(tuple(nodes), tuple(sorted(outputs)), keys)


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


Outputs = dict[int, Counter[tuple[Any, ...]]]


@dataclass
class Play:
    """One way of running a case, with a restart after the epochs that the case names, and after each fault.

    strikes: faults of one start each. run_job: replaces `run`. lag_ms: sources whose watermarks are further behind the
    time CLOCK_MS are in backlog again; None: none are.
    """

    case: Case
    mode: Mode
    graph: Graph
    base: Path
    spark: SparkSession | None = None
    faults: Faults = field(default_factory=Faults)
    strikes: Sequence[Fault] = ()
    run_job: Callable[..., object] = run
    lag_ms: int | None = None

    def __post_init__(self) -> None:
        case, step = self.case, partial(self.faults.step, can_fail=False)
        self._world = World(lost={0} if case.slices > 1 else set(), step=step)
        self._parallelism = case.parallelism
        self._left = iter(self.strikes)
        before = case.events[: {"mixed": case.flip, "streaming": 0, "batch": len(case.events)}[self.mode]]
        self._epochs = [*([before] if self.mode != "streaming" else []), *case.epochs(self.mode)]
        self._names = SOURCES[: self.graph.sources]

    def outputs(self) -> Outputs:
        for name in self._names:
            (self.base / name).mkdir(parents=True)
        first = 1 if self.mode != "streaming" else 0
        for number in range(first):
            self._arrive(number)
        feed: list[Callable[[], object]] = []
        for number in range(first, len(self._epochs)):
            feed.append(partial(self._arrive, number))
            if number - first in self.case.restores:
                self._start(Until.IDLE, feed)
                feed, self._parallelism = [], self.case.restores[number - first]
        self._start(Until.DRAINED, feed)
        folders = {number: self.base / "out" / str(number) for number in self.graph.outputs}
        return {
            number: told(output_rows(folder) if any(folder.glob("part-*")) else [])
            for number, folder in folders.items()
        }

    def _arrive(self, number: int) -> None:
        for name in self._names:
            table = pa.Table.from_pylist(records(self._epochs[number], self.graph, name), SCHEMA)
            if self.spark is None:
                self._world.files[f"{name}/{number:03}"] = table
            else:
                write_parquet(self.base / name, f"{number:03}.parquet", table)

    def _start(self, until: Until, feed: Sequence[Callable[[], object]]) -> None:
        """Start the job until it ends without a fault."""
        observer = Recording(feed=list(feed))
        session = local_session(self._world) if self.spark is None else self.spark
        engine = LocalEngine if self.spark is None else Engine
        while True:
            fault = next(self._left, None)
            try:
                with self.faults.armed(fault):
                    clock = ManualClock(CLOCK_MS)
                    self.run_job(self._job(), session, observer=observer, until=until, engine=engine, clock=clock)
            except (Killed, RetryableError):
                assert fault is not None, "nothing struck"
                observer = Recording(feed=observer.feed)
            else:
                return

    def _job(self) -> Job:
        is_batch = self.mode == "batch"
        sources = {
            name: Source.parquet(
                self.base / name,
                schema="k string, v bigint, n bigint, t timestamp",
                event_time="t",
                out_of_orderness=f"{self.case.bound_ms}ms",
                **({"bounded": True} if is_batch else {"max_files_per_epoch": 1}),
            )
            for name in self._names
        }
        job = Job(
            "graph",
            sources=sources,
            mode=self.mode,
            checkpoint_dir=None if is_batch else self.base / "checkpoints",
            parallelism=self._parallelism,
            max_parallelism=8,
            spark=SPARK,
            watermark_lag_threshold=None if is_batch or self.lag_ms is None else f"{self.lag_ms}ms",
        )
        made = streams(self.graph, job)
        for number in self.graph.outputs:
            sink, key = Sink.parquet(self.base / "out" / str(number)), self.graph.keys.get(number)
            job = job.output(f"o{number}", made[number], sink, key=key)
        return job


def expected(case: Case, graph: Graph) -> Outputs:
    rows: list[list[Row]] = []
    for number, node in enumerate(graph.nodes):
        if node.step is None:
            rows.append(records(case.events, graph, SOURCES[number]))
        elif isinstance(node.step, Join):
            rows.append(node.step.apply(*(rows[i] for i in node.inputs)))
        else:
            rows.append(node.step.apply([row for i in node.inputs for row in rows[i]]))
    return {number: told(rows[number]) for number in graph.outputs}


#: deaths of the driver, and failures of the store
struck = st.lists(
    st.one_of(
        st.builds(KillAtPoint, st.sampled_from(EPOCH_POINTS), st.none() | st.integers(0, 3)),
        st.builds(KillAtStep, st.integers(0, 500)),
        st.builds(FailAtStep, st.integers(0, 500)),
    ),
    max_size=2,
)


@given(
    case=cases(),
    mode=st.sampled_from(["mixed", "mixed", "streaming", "batch"]),
    graph=graphs(),
    strikes=struck,
    lag_ms=st.sampled_from([None, 1, 20, 50]),
)
@local_cases(0.08)
def test_each_output_of_a_graph_is_the_answer_of_the_records(
    case: Case, mode: Mode, graph: Graph, strikes: list[Fault], lag_ms: int | None, faults: Faults
) -> None:
    with case_folder() as base:
        played = Play(case, mode, graph, base, faults=faults, strikes=strikes, lag_ms=lag_ms)
        assert played.outputs() == expected(case, graph)


DIAMOND = Graph(
    (
        Node(None),
        Node(None),
        Node(tumbling(10), (0, 1)),
        Node(session(8), (0,)),
        Node(by_key(), (2,), is_changelog=True),
        Node(tumbling(30), (2, 3)),
        Node(by_n(), (4,), is_changelog=True),
        Node(over_all(), (6,), is_changelog=True),
    ),
    (2, 4, 5, 6, 7),
    {4: ("v", "k"), 7: ("v",)},
)


@pytest.mark.parametrize("mode", MODES_ON_SPARK)
def test_spark_agrees_about_branches_and_unions(mode: Mode, spark: SparkSession, tmp_path: Path) -> None:
    assert Play(ON_SPARK, mode, DIAMOND, tmp_path, spark).outputs() == expected(ON_SPARK, DIAMOND)


@pytest.mark.soak
@pytest.mark.spark
@given(case=cases(), mode=st.sampled_from(["mixed", "batch"]), graph=graphs())
@settings(SPARK_CASES, max_examples=random_cases(10))
def test_spark_agrees_about_random_graphs(case: Case, mode: Mode, graph: Graph, spark: SparkSession) -> None:
    with tempfile.TemporaryDirectory() as base:
        played = Play(replace(case, cuts=(), restores={}), mode, graph, Path(base), spark)
        assert played.outputs() == expected(case, graph)


def test_the_local_executor_agrees_about_the_same_graph(tmp_path: Path) -> None:
    for mode in MODES:
        for case in (ON_SPARK, replace(ON_SPARK, restores={0: 4})):
            found = Play(case, mode, DIAMOND, tmp_path / f"{mode}-{len(case.restores)}").outputs()
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

    Play(case, "mixed", graph, tmp_path / "case", run_job=look).outputs()
    assert found[0][2] > 0, "windows over the one source have fired"
    assert found[0][3] == 0, "windows over both have not"
    newest = manifests(tmp_path / "case" / "checkpoints")[-1]
    assert newest.watermark_us is None
    assert newest.step_watermarks == {"aggregate_1": max(event.time_us for event in events)}
