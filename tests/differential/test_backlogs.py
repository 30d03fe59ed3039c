"""Around the flip, and after it: restarts with another parallelism, a second backlog, a sorter that spills."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.config.sources import SourceSpec
from mixedmode.job import Job, Sink, Source
from mixedmode.keys import group_range
from tests.differential.cases import Rows
from tests.differential.oracle import Call, Table, aggregate, differences
from tests.differential.stories import fold
from tests.harness import SPARK, ManualClock, Recording, manifests, output_changes, run, write_parquet
from tests.local_engine import run_locally

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
DDL = "k string, v bigint, at timestamp"
START = datetime(2001, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
STEP = {"n": "count(*)", "s": "sum(v)", "last_v": "last(v)"}
CALLS = {"n": Call("count"), "s": Call("sum", "v"), "last_v": Call("last", "v")}


@dataclass
class Feed:
    """A folder that gets files, and all rows that it got."""

    folder: Path
    rows: Rows
    files: int = 0

    def add(self, rows: Rows) -> None:
        write_parquet(self.folder, f"{self.files:03}.parquet", pa.Table.from_pylist(rows, SCHEMA))
        self.rows += rows
        self.files += 1


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "in", [])


def job(base: Path, *, source: SourceSpec | None = None, **settings: Any) -> Job:
    source = source or Source.parquet(base / "in", schema=DDL, event_time="at")
    defaults: dict[str, Any] = {"mode": "mixed", "parallelism": 2, "max_parallelism": 13}
    return Job(
        "backlogs", sources={"t": source}, checkpoint_dir=base / "checkpoints", spark=SPARK, **{**defaults, **settings}
    )


def aggregating(base: Path, **settings: Any) -> Job:
    return job(base, **settings).key_by("k").aggregate(STEP).write(Sink.parquet(base / "out"))


def rows_at(time: datetime, *pairs: tuple[str | None, int]) -> Rows:
    return [{"k": k, "v": v, "at": time} for k, v in pairs]


def many(rng: random.Random, count: int, *, keys: int, time: datetime = START) -> Rows:
    return [{"k": f"k{rng.randrange(keys)}", "v": rng.randrange(-9, 9), "at": time} for _ in range(count)]


def check(base: Path, feed: Feed) -> None:
    assert not differences(_expected(feed), fold(output_changes(base / "out"), ["k"]))


def _expected(feed: Feed) -> Table:
    return aggregate(feed.rows, ["k"], CALLS, event_time="at")


def strategies_of(base: Path) -> list[tuple[bool, str]]:
    return [(manifest.is_backlog, manifest.strategy) for manifest in manifests(base / "checkpoints")]


@pytest.mark.spark
def test_keys_that_are_old_new_or_both_all_get_the_right_state(spark: SparkSession, tmp_path: Path, feed: Feed) -> None:
    feed.add(rows_at(START, ("old", 1), ("both", 2), (None, 3)))
    live = rows_at(START + MINUTE, ("both", 10), ("new", 20), (None, 30))
    run(aggregating(tmp_path), spark, feed=[lambda: feed.add(live)])
    rows = {(row["_epoch"], row["k"]): (row["_op"], row["s"]) for row in output_changes(tmp_path / "out")}
    assert rows == {
        (0, "old"): ("insert", 1),
        (0, "both"): ("insert", 2),
        (0, None): ("insert", 3),
        (1, "both"): ("update", 12),
        (1, "new"): ("insert", 20),
        (1, None): ("update", 33),
    }
    check(tmp_path, feed)


def test_an_epoch_that_lags_is_backlog_again_over_the_state(tmp_path: Path, feed: Feed) -> None:
    """After an outage of a day the sorted strategy reads the state; once the watermark has caught up, epochs stream."""
    rng = random.Random(2)
    clock = ManualClock(START_MS)
    feed.add(many(rng, 200, keys=60))

    def live() -> None:
        feed.add(many(rng, 20, keys=80, time=START + MINUTE))

    def after_a_day() -> None:
        clock.time_ms += int(DAY.total_seconds() * 1000)
        feed.add(many(rng, 200, keys=100, time=START + DAY))

    def live_again() -> None:
        feed.add(many(rng, 20, keys=100, time=START + DAY + MINUTE))

    waiting = [live, after_a_day, live_again]
    run_locally(aggregating(tmp_path, watermark_lag_threshold="1h"), feed.folder, clock=clock, feed=waiting)
    assert strategies_of(tmp_path) == [(True, "sorted"), (False, "streaming"), (True, "sorted"), (False, "streaming")]
    check(tmp_path, feed)


def test_a_second_backlog_also_suits_several_steps(tmp_path: Path, feed: Feed) -> None:
    rng = random.Random(3)
    clock = ManualClock(START_MS)

    def after_a_day() -> None:
        clock.time_ms += int(DAY.total_seconds() * 1000)
        feed.add(many(rng, 100, keys=30, time=START + DAY))

    steps = job(tmp_path, watermark_lag_threshold="1h").key_by("k").aggregate(n="count(*)", s="sum(v)")
    steps = steps.key_by("n").aggregate(keys="count(*)", low="min(s)").key_by("keys").aggregate(ns="sum(n)")
    feed.add(many(rng, 100, keys=25))
    run_locally(steps.write(Sink.parquet(tmp_path / "out")), feed.folder, clock=clock, feed=[after_a_day])
    assert strategies_of(tmp_path) == [(True, "sorted"), (True, "sorted")]
    first = aggregate(feed.rows, ["k"], {"n": Call("count")})
    second = aggregate(first.values(), ["n"], {"keys": Call("count")})
    third = aggregate(second.values(), ["keys"], {"ns": Call("sum", "n")})
    assert not differences(third, table_after_last(tmp_path, ["keys"]))


def test_parallelism_may_change_at_every_restart(tmp_path: Path, feed: Feed) -> None:
    rng = random.Random(4)
    for parallelism in (1, 4, 3, 13, 2):
        feed.add(many(rng, 60, keys=40))
        run_locally(aggregating(tmp_path, parallelism=parallelism), feed.folder)
        check(tmp_path, feed)
    found = manifests(tmp_path / "checkpoints")
    assert [manifest.parallelism for manifest in found] == [1, 4, 3, 13, 2]
    for manifest in found:
        ranges = [
            group_range(subtask, parallelism=manifest.parallelism, max_parallelism=13)
            for subtask in range(manifest.parallelism)
        ]
        own = [run for run in manifest.operators[0].runs if f"/{manifest.epoch:010}-" in run.path]
        assert {(run.key_group_start, run.key_group_end) for run in own} <= {(r.start, r.end) for r in ranges}


def test_a_backlog_may_have_a_parallelism_of_its_own(tmp_path: Path, feed: Feed) -> None:
    rng = random.Random(5)
    feed.add(many(rng, 100, keys=40))
    run_locally(
        aggregating(tmp_path, parallelism=1, backlog_parallelism=5),
        feed.folder,
        feed=[lambda: feed.add(many(rng, 50, keys=60))],
    )
    assert [manifest.parallelism for manifest in manifests(tmp_path / "checkpoints")] == [5, 1]
    check(tmp_path, feed)


def test_more_subtasks_than_keys_and_as_many_as_key_groups(tmp_path: Path, feed: Feed) -> None:
    feed.add(rows_at(START, ("a", 1)))
    live = rows_at(START, ("b", 1))
    run_locally(aggregating(tmp_path, parallelism=13), feed.folder, feed=[lambda: feed.add(live)])
    check(tmp_path, feed)


@pytest.mark.parametrize("steps", ["one", "two"])
def test_a_sorter_that_spills_gives_the_same_answer(tmp_path: Path, feed: Feed, steps: str) -> None:
    rng = random.Random(6)
    feed.add(many(rng, 3_000, keys=1_500))
    spilling = job(tmp_path, sort_memory="4KB", parallelism=2).key_by("k").aggregate(STEP)
    if steps == "two":
        spilling = spilling.key_by("n").aggregate(keys="count(*)", low="min(s)", high="max(s)")
    live = many(rng, 300, keys=2_000)
    observer = run_locally(spilling.write(Sink.parquet(tmp_path / "out")), feed.folder, feed=[lambda: feed.add(live)])
    assert observer.committed[0].spilled_runs > 0
    expected, key_by = _expected(feed), ["k"]
    if steps == "two":
        calls = {"keys": Call("count"), "low": Call("min", "s"), "high": Call("max", "s")}
        expected, key_by = aggregate(expected.values(), ["n"], calls), ["n"]
    assert not differences(expected, table_after_last(tmp_path, key_by))


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["mixed", "streaming"])
def test_an_interval_in_backlog_cuts_it_into_epochs_with_the_streaming_strategy(
    spark: SparkSession, tmp_path: Path, feed: Feed, mode: str
) -> None:
    for rows in _three_files():
        feed.add(rows)
    source = Source.parquet(feed.folder, schema=DDL, event_time="at", max_files_per_epoch=1)
    steps = job(tmp_path, source=source, mode=mode, interval_during_backlog="1s")
    observer = run(steps.key_by("k").aggregate(STEP).write(Sink.parquet(tmp_path / "out")), spark)
    assert strategies_of(tmp_path) == [(False, "streaming")] * 3
    assert not observer.flips, "only a mixed run flips"
    check(tmp_path, feed)


def test_streaming_without_commits_in_backlog_is_mixed_mode(tmp_path: Path, feed: Feed) -> None:
    for rows in _three_files():
        feed.add(rows)
    observer = run_locally(aggregating(tmp_path, mode="streaming", interval_during_backlog=0), feed.folder)
    assert strategies_of(tmp_path) == [(True, "sorted")]
    assert [flip.after_epoch for flip in observer.flips] == [0]
    check(tmp_path, feed)


def test_a_restart_in_the_middle_of_live_goes_on_with_the_next_epoch(tmp_path: Path, feed: Feed) -> None:
    rng = random.Random(7)
    flips = []
    for _ in range(3):
        feed.add(many(rng, 30, keys=20))
        observer: Recording = run_locally(aggregating(tmp_path), feed.folder)
        flips.append(len(observer.flips))
        check(tmp_path, feed)
    assert flips == [1, 0, 0], "a run that resumes does not flip again"
    assert strategies_of(tmp_path) == [(True, "sorted"), (False, "streaming"), (False, "streaming")]


def _three_files() -> Iterator[Rows]:
    rng = random.Random(8)
    for _ in range(3):
        yield many(rng, 20, keys=10)


def table_after_last(base: Path, key_by: list[str]) -> Table:
    return fold(output_changes(base / "out"), key_by)
