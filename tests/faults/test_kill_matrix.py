"""SIGKILL at every named place of an epoch, in the backlog, at the flip and live: the output is the undisturbed run's,
row for row, in each of its outputs.

The random walk kills a run at every one of these places in process (tests/walk). So the default run has the places
around the commit, in the backlog and live. In the middle of `publish` in the backlog, that is a SIGKILL of a process;
at the others, it is a death in this process. `make soak` has a SIGKILL at all places, three in a row at each one;
MIXEDMODE_TEST_KILLS sets that number.
"""

import os
import shutil
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from pyspark.sql import SparkSession

from mixedmode.crash_points import CrashPoint
from mixedmode.driver.run import Until
from mixedmode.job import Job
from tests.faults.in_process import dies_at
from tests.faults.processes import killed_at
from tests.harness import manifests, output_changes, run, write_json, write_text

pytestmark = [pytest.mark.spark, pytest.mark.faults]

JOB = """\
name: faults
execution: {runtime-mode: mixed, checkpointing: {interval: 100ms, dir: ./checkpoints, num-retained: 3}}
parallelism: 2
pipeline: {max-parallelism: 16}
spark: {master: "local[2]", driver.memory: 1g}
sources:
  sales:
    format: json
    path: in
    schema: "shop string, price long, at timestamp"
    event-time: at
    watermark: {out-of-orderness: 1h}
steps:
"""
WINDOWS = """\
  - key-by: [shop]
    window: {session: 5m}
    allowed-lateness: 3h
    late: {format: parquet, path: ./side}
    aggregate: {sales: count(*), income: sum(price), first: first(price)}
sink: {format: parquet, path: ./out}
"""
#: branches that begin an epoch side by side, a union, windows of windows, and a join with one more reader of the source
GRAPH = """\
  - name: reminders
    from: sales
    key-by: [shop]
    process: functions:Reminders
    output: shop string, sales long, at long
    outputs: {dear: {format: parquet, path: ./side, schema: "shop string, price long"}}
  - {name: cheap, from: sales, sql: "SELECT shop, price, at FROM sales WHERE price < 20"}
  - {name: dearer, from: sales, sql: "SELECT shop, 2 * price AS price, at FROM sales WHERE price >= 30"}
  - name: hours
    from: [cheap, dearer]
    key-by: [shop]
    window: {tumbling: 1h}
    aggregate: {sales: count(*), income: sum(price)}
  - name: halves
    from: hours
    key-by: [shop]
    window: {tumbling: 12h}
    aggregate: {hours: count(*), most: max(income)}
  - name: priced
    join:
      left: sales
      right: hours
      on: [shop]
      type: left
      as-of: {}
      select: [sales.shop, sales.price, sales.at, hours.income]
outputs:
  out: {from: reminders, format: parquet, path: ./out}
  halves: {from: halves, format: parquet, path: ./halves}
  priced: {from: priced, format: parquet, path: ./priced}
"""
#: an async map, an interval join, and a co-process function with a broadcast input
TWO_INPUTS = """\
  - name: asked
    key-by: [shop]
    async-map: functions:Region
    output: region string
    remember: 30d
  - name: joined
    join:
      left: asked
      right: sales AS s
      on: shop
      within: [0s, 2m]
      select: [asked.shop, asked.region, s.price]
      event-time: near
  - name: paired
    co-process:
      left: joined AS j
      right: asked AS a
      on: shop
      class: functions:Pairs
      output: shop string, sales long, prices long, at long
      broadcast: {last: {from: asked, key: shop, tie-break: price}}
outputs:
  joined: {from: joined, format: parquet, path: ./side}
  paired: {from: paired, format: parquet, path: ./out}
"""
CODE = """\
from mixedmode.process import AsyncMapFunction, KeyedCoProcessFunction, KeyedProcessFunction, ValueState

class Region(AsyncMapFunction):
    async def call(self, requests):
        return [{"region": request["shop"][-1]} for request in requests]

class Pairs(KeyedCoProcessFunction):
    sales = ValueState(int, default=0)

    def process_left(self, record, context):
        self.sales.value += 1

    def process_right(self, record, context):
        prices = sum(row["price"] for row in context.broadcast["last"].as_of(context.timestamp).values())
        yield {"shop": record["shop"], "sales": self.sales.value, "prices": prices, "at": context.timestamp}

class Reminders(KeyedProcessFunction):
    sales = ValueState(int, default=0)

    def process_element(self, record, context):
        self.sales.value += 1
        context.timers.register_event_time_timer(context.timestamp + 5_400_000_000)
        if record["price"] > 40:
            context.output("dear", {"shop": record["shop"], "price": record["price"]})

    def on_timer(self, timestamp, context):
        yield {"shop": context.current_key, "sales": self.sales.value, "at": timestamp}
"""


OUTPUTS = ("out", "side", "halves", "priced")
KILLS = int(os.environ.get("MIXEDMODE_TEST_KILLS", "1"))
#: places that every epoch passes, and how often a run is killed there in a row
EPOCH: dict[CrashPoint, int] = {
    "sort": KILLS,
    "aggregate": KILLS,
    "runs-stored": KILLS,
    "before-manifest": KILLS,
    "after-manifest": KILLS,
    "publish": KILLS,
    "after-publish": KILLS,
}
#: the first epoch in which subtasks find runs enough to merge
MERGES = 8
LIVE: dict[CrashPoint, int] = {**dict.fromkeys(EPOCH, KILLS), "merge": KILLS, "drop": 1}  # one is dropped once
AROUND_THE_COMMIT: frozenset[CrashPoint] = frozenset({"before-manifest", "after-manifest", "publish"})


#: the place of them at which the default run kills a process in the backlog
KILLED_IN_BACKLOG: frozenset[CrashPoint] = frozenset({"publish"})


def cases(points: Iterable[CrashPoint], default: Container[CrashPoint]) -> list[ParameterSet]:
    """Return a case for each place; those that are not `default` run in `make soak` only."""
    return [pytest.param(point, marks=() if point in default else pytest.mark.soak) for point in points]


class Story:
    """A job in a folder, and the files that it reads, one an epoch."""

    def __init__(self, folder: Path, steps: str) -> None:
        self.folder = folder
        write_text(folder, "job.yaml", JOB + steps)
        write_text(folder, "functions.py", CODE)

    @property
    def file(self) -> Path:
        return self.folder / "job.yaml"

    def add(self, number: int) -> None:
        """Sales of some hours, a few of them of hours before, and one that is late for good."""
        day = datetime(2001, 1, 1, tzinfo=UTC)
        times = [day + timedelta(hours=5 * number + i * 3 % 8, minutes=i % 60) for i in range(200)]
        rows = [{"shop": f"shop {i % 7}", "price": i * 13 % 50, "at": f"{at:%F %T}"} for i, at in enumerate(times)]
        write_json(self.folder / "in", f"{number}.json", rows)

    def run(self, spark: SparkSession, *, until: Until = Until.IDLE) -> None:
        run(Job.from_file(self.file), spark, until=until)

    def dies(self, spark: SparkSession, point: CrashPoint, epoch: int) -> None:
        dies_at(Job.from_file(self.file), spark, point, epoch)

    def killed(self, point: CrashPoint, epoch: int, times: int) -> None:
        for _ in range(times):
            killed_at(self.file, point, epoch)

    def rows(self, *, up_to: int) -> list[dict[str, Any]]:
        """Everything that it gave in these epochs, in all outputs."""
        every = (row for name in OUTPUTS if (self.folder / name).exists() for row in output_changes(self.folder / name))
        return sorted((row for row in every if row["_epoch"] <= up_to), key=repr)

    def check(self, told: "Story", *, up_to: int) -> None:
        expected = told.rows(up_to=up_to)
        assert len(expected) > 20 * (up_to + 1)
        assert self.rows(up_to=10**9) == expected
        epochs = [m.epoch for m in manifests(self.folder / "checkpoints")]
        # an old checkpoint that a kill has kept from being dropped goes with the next one
        assert epochs in ([*range(max(0, up_to - kept), up_to + 1)] for kept in (2, 3))


@dataclass(frozen=True)
class Told:
    """The undisturbed run, one file an epoch; and `grown`, which puts a copy of it before the epoch MERGES in place."""

    story: Story
    grown: Callable[[], Story]


@pytest.fixture(scope="module")
def both(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    base = tmp_path_factory.mktemp("told")
    place, kept = base / "story", base / "kept"
    story = Story(place, GRAPH)
    for number in range(MERGES + 1):
        if number == MERGES:
            shutil.copytree(place, kept)
        story.add(number)
        story.run(spark)
    story.folder = place.rename(base / "told")  # Spark's log names the files in `place`, so a copy has to be there

    def grown() -> Story:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(kept, place)
        again = Story.__new__(Story)
        again.folder = place
        return again

    yield Told(story, grown)
    shutil.rmtree(base)


@pytest.fixture
def told(both: Told) -> Story:
    return both.story


@pytest.fixture
def grown(both: Told) -> Callable[[], Story]:
    return both.grown


@pytest.mark.parametrize("point", sorted(AROUND_THE_COMMIT - KILLED_IN_BACKLOG))
def test_a_death_in_the_backlog(spark: SparkSession, told: Story, tmp_path: Path, point: CrashPoint) -> None:
    story = Story(tmp_path, GRAPH)
    story.add(0)
    story.dies(spark, point, 0)
    story.run(spark)
    story.check(told, up_to=0)


@pytest.mark.parametrize("point", cases(EPOCH, KILLED_IN_BACKLOG))
def test_kills_in_the_backlog(spark: SparkSession, told: Story, tmp_path: Path, point: CrashPoint) -> None:
    story = Story(tmp_path, GRAPH)
    story.add(0)
    story.killed(point, 0, EPOCH[point])
    story.run(spark)
    story.check(told, up_to=0)


@pytest.mark.parametrize("point", cases(EPOCH, ()))
def test_kills_in_the_first_epoch_after_the_flip(
    spark: SparkSession, told: Story, tmp_path: Path, point: CrashPoint
) -> None:
    story = Story(tmp_path, GRAPH)
    story.add(0)
    story.run(spark)
    story.add(1)
    story.killed(point, 1, KILLS)
    story.run(spark)
    story.check(told, up_to=1)


@pytest.mark.parametrize("point", sorted(AROUND_THE_COMMIT))
def test_a_death_in_a_live_epoch_that_merges_runs_and_drops_a_checkpoint(
    spark: SparkSession, told: Story, grown: Callable[[], Story], point: CrashPoint
) -> None:
    story = grown()
    story.add(MERGES)
    story.dies(spark, point, MERGES)
    story.run(spark)
    story.check(told, up_to=MERGES)


@pytest.mark.parametrize("point", cases(LIVE, ()))
def test_kills_in_a_live_epoch_that_merges_runs_and_drops_a_checkpoint(
    spark: SparkSession, told: Story, grown: Callable[[], Story], point: CrashPoint
) -> None:
    story = grown()
    story.add(MERGES)
    story.killed(point, MERGES, LIVE[point])
    story.run(spark)
    story.check(told, up_to=MERGES)


def test_deaths_while_garbage_is_collected(spark: SparkSession, told: Story, tmp_path: Path) -> None:
    story = Story(tmp_path, GRAPH)
    story.add(0)
    story.run(spark)
    story.add(1)
    story.dies(spark, "before-manifest", 1)
    story.run(spark)
    story.dies(spark, "collect", 1)
    story.run(spark)
    story.check(told, up_to=1)


@pytest.mark.parametrize(
    "steps", [pytest.param(WINDOWS, id="sessions"), pytest.param(TWO_INPUTS, id="two inputs", marks=pytest.mark.soak)]
)
def test_a_death_in_a_live_epoch_of_other_steps(spark: SparkSession, tmp_path: Path, steps: str) -> None:
    undisturbed, story = Story(tmp_path / "told", steps), Story(tmp_path / "killed", steps)
    for number in range(3):
        undisturbed.add(number)
        undisturbed.run(spark)
    story.add(0)
    story.run(spark)
    story.add(1)
    story.dies(spark, "before-manifest", 1)
    story.add(2)
    story.run(spark)
    for one in (undisturbed, story):
        one.run(spark, until=Until.DRAINED)
    assert [m.epoch for m in manifests(story.folder / "checkpoints")] == [1, 2, 3]
    assert len(undisturbed.rows(up_to=3)) > 50
    assert story.rows(up_to=3) == undisturbed.rows(up_to=3)
