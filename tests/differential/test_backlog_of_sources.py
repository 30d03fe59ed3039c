"""Sources that are in backlog at different times: each step goes by the sources whose records can reach it."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

import pyarrow as pa
import pytest

from mixedmode.checkpoint.types import Epoch, Generation
from mixedmode.executor.local_run import LocalRun
from mixedmode.executor.protocol import EpochTask, StageSettings
from mixedmode.executor.stage_tasks import subtasks
from mixedmode.job import Job, Sink, Source
from mixedmode.tasks.timing import timing_at
from mixedmode.testing.local_plan import local_plan
from tests.driver.functions import Flips, Reminders

COLUMNS = {"a": ("a",), "b": ("b",), "both": ("a", "b")}
TOLD = "k string, told string, is_backlog boolean"
CLOCK_MS = 0
Rows = dict[str, list[tuple[str, str]]]


def job(base: Path) -> Job:
    """A function over the source a, one over b, and one over both, each with an output."""
    sources = {name: Source.parquet(base / name, schema="k string") for name in "ab"}
    graph = Job("flags", sources=sources, mode="mixed", checkpoint_dir=base / "checkpoints", parallelism=1)
    streams = {name: graph.source(name) for name in "ab"}
    streams["both"] = streams["a"].union(streams["b"])
    for name, stream in streams.items():
        told = stream.key_by("k").process(Flips, output=TOLD)
        graph = graph.output(name, told, Sink.parquet(base / "out" / name))
    return graph


@pytest.fixture
def run(tmp_path: Path) -> Iterator[LocalRun]:
    made = job(tmp_path)
    run = LocalRun(made.spec, local_plan(made.spec, made.where), tmp_path, CLOCK_MS)
    yield run
    run.close()


def told(run: LocalRun) -> Rows:
    """{output: (what the function was told, what its context says) of each row since the last call}."""
    found = {
        name: [(row["told"], str(row["is_backlog"])) for table in tables for row in table.to_pylist()]
        for name, tables in run.outputs.items()
    }
    for tables in run.outputs.values():
        tables.clear()
    return found


ONE_OF_EACH = {name: [pa.table({"k": [name]})] for name in "ab"}
IN, OUT = ("True", "True"), ("False", "False")


def test_a_step_is_in_backlog_while_all_of_its_sources_are(run: LocalRun) -> None:
    run.run_backlog(ONE_OF_EACH)
    assert told(run) == {"a": [IN], "b": [IN], "both": [IN, IN]}
    for backlog, a, b, both in (
        ({"a"}, IN, OUT, OUT),
        (set(), OUT, OUT, OUT),
        ({"a", "b"}, IN, IN, IN),
        ({"b"}, OUT, IN, OUT),
    ):
        run.run_live(ONE_OF_EACH, backlog)
        found = {name: {is_backlog for _, is_backlog in rows} for name, rows in told(run).items()}
        assert found == {"a": {a[1]}, "b": {b[1]}, "both": {both[1]}}, backlog


@pytest.mark.parametrize(
    ("backlog", "strategies"),
    [
        ({"a", "b"}, {"a": "sorted", "b": "sorted", "both": "sorted"}),
        ({"a"}, {"a": "sorted", "b": "streaming", "both": "sorted"}),
        (set(), {"a": "streaming", "b": "streaming", "both": "streaming"}),
    ],
    ids=["both", "one", "none"],
)
def test_the_input_of_a_step_is_sorted_if_one_of_its_sources_is_in_backlog(
    tmp_path: Path, backlog: AbstractSet[str], strategies: dict[str, str]
) -> None:
    made = job(tmp_path)
    plan = local_plan(made.spec, made.where)
    timing = timing_at({}, None, CLOCK_MS, started_ms=CLOCK_MS, partitioned=(), backlog=backlog, fires_all=False)
    settings = StageSettings(1, 4, 2**20, None, Generation(1), {})
    task = EpochTask.after(None, plan, settings, Epoch(0), "sorted" if backlog else "streaming", timing)
    found = {"+".join(sorted(stage.reads.upstream)): subtasks(task, stage).strategy for stage in plan.stages}
    assert found == {"+".join(COLUMNS[name]): strategy for name, strategy in strategies.items()}


def test_windows_fire_at_the_end_of_time_only_where_all_sources_are_in_backlog(tmp_path: Path) -> None:
    schema = {"schema": "k string, t timestamp", "event_time": "t"}
    sources = {name: Source.parquet(tmp_path / name, **schema) for name in "ab"}  # type: ignore[arg-type]
    graph = Job(
        "windows",
        sources=sources,
        mode="mixed",
        checkpoint_dir=tmp_path / "checkpoints",
        parallelism=1,
        end_of_key_watermark="max",
    )
    streams = {name: graph.source(name) for name in "ab"}
    streams["both"] = streams["a"].union(streams["b"])
    for name, stream in streams.items():
        counts = stream.key_by("k").window(tumbling="1h").aggregate(n="count(*)")
        graph = graph.output(name, counts, Sink.parquet(tmp_path / "out" / name))
    run = LocalRun(graph.spec, local_plan(graph.spec, graph.where), tmp_path, CLOCK_MS)

    def fired() -> dict[str, int]:
        found = {name: sum(table.num_rows for table in tables) for name, tables in run.outputs.items()}
        for tables in run.outputs.values():
            tables.clear()
        return found

    def records(hour: int) -> dict[str, list[pa.Table]]:
        time_us = pa.array([3_600_000_000 * hour], pa.timestamp("us", "UTC"))
        return {name: [pa.table({"k": ["x"], "t": time_us})] for name in "ab"}

    try:
        run.run_backlog(records(1))
        assert fired() == {"a": 1, "b": 1, "both": 1}
        run.run_live(records(3), {"a"})
        assert fired() == {"a": 1, "b": 0, "both": 0}
        run.run_live(records(5))
        assert fired() == {"a": 0, "b": 1, "both": 1}, "the window of a that fired is gone, and its next one is open"
    finally:
        run.close()


def test_processing_time_timers_of_a_live_step_do_not_wait_for_the_backlog_of_another_source(tmp_path: Path) -> None:
    sources = {name: Source.parquet(tmp_path / name, schema="k string") for name in "ab"}
    graph = Job("timers", sources=sources, mode="mixed", checkpoint_dir=tmp_path / "checkpoints", parallelism=1)
    for name in "ab":
        fired = graph.source(name).key_by("k").process(Reminders, output="k string, n bigint, total bigint")
        graph = graph.output(name, fired, Sink.parquet(tmp_path / "out" / name))
    run = LocalRun(graph.spec, local_plan(graph.spec, graph.where), tmp_path, CLOCK_MS)
    try:
        run.run_backlog(ONE_OF_EACH)
        run.clock_ms = 60_000
        run.run_live({}, {"a"})
        found = {name: sum(table.num_rows for table in tables) for name, tables in run.outputs.items()}
        assert found == {"a": 0, "b": 1}
        run.run_live({})
        found = {name: sum(table.num_rows for table in tables) for name, tables in run.outputs.items()}
        assert found == {"a": 1, "b": 1}
    finally:
        run.close()
