"""Rescaling: between two live epochs of one run, per step, in backlog, over a restart and a kill.

The parallelism is asked for by an observer between two epochs, so it is known which epoch has which. What
must hold of each epoch is in its manifest (who owned which key groups) and in its rows (every key's state and timers
against plain Python).
"""

import random
import re
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.rescale_log import RescaleLog
from mixedmode.checkpoint.types import Manifest, OperatorState
from mixedmode.driver.events import EpochCommitted, EpochStarted, Event, StepRescaled
from mixedmode.driver.run import RunOptions, run_job
from mixedmode.job import Job, Sink, Source
from mixedmode.keys import KeyGroupRange, group_range
from tests.harness import (
    SPARK,
    Feed,
    Recording,
    Row,
    checkpoint_log,
    manifests,
    output_changes,
    output_rows,
    run,
    write_json,
)
from tests.local_engine import run_locally, timed_records

KEYS = [f"key {number}" for number in range(40)]
MIDNIGHT = datetime(2001, 1, 1, tzinfo=UTC)
HOUR_US = 3_600_000_000
WAITS_US = 3 * HOUR_US // 2  # of the timers of functions.Ledger
OUTPUT = "k string, at bigint, n bigint, total bigint"


class Story:
    """The inputs of a job, one file an epoch with a record or two of every key, and what each epoch has to give."""

    def __init__(self, base: Path, *, seed: int = 5) -> None:
        self.inputs, self.out, self.checkpoints = base / "in", base / "out", base / "checkpoints"
        self.inputs.mkdir()
        self._random = random.Random(seed)
        self._epochs: list[list[Row]] = []

    def add(self) -> None:
        """The records of one more hour."""
        hour, rng = len(self._epochs), self._random
        rows: list[Row] = [
            {"k": key, "v": rng.randrange(100), "minute": 60 * hour + minute}
            for key in KEYS
            for minute in rng.sample(range(60), rng.randrange(1, 3))
        ]
        self._epochs.append(rows)
        rng.shuffle(rows)
        lines = [
            {**row, "at": f"{datetime.fromtimestamp(MIDNIGHT.timestamp() + 60 * row['minute'], UTC)}"} for row in rows
        ]
        write_json(self.inputs, f"{hour:03}.json", lines)

    def settings(self, **settings: Any) -> Job:
        source = Source.json(self.inputs, schema="k string, v bigint, at timestamp", event_time="at")
        defaults: dict[str, Any] = {
            "sources": {"t": source},
            "mode": "mixed",
            "parallelism": 1,
            "max_parallelism": 13,
            "checkpoint_dir": self.checkpoints,
            "checkpoint_interval": "50ms",
        }
        return Job(**{"name": "rescaling", "spark": SPARK, **defaults, **settings})

    def job(self, **settings: Any) -> Job:
        job = self.settings(**settings).key_by("k", name="ledger")
        return job.process("tests.driver.functions:Ledger", output=OUTPUT).write(Sink.parquet(self.out))

    def expected(self) -> list[tuple[int, str, int, int, int]]:
        """(epoch, key, timer or 0, count, total) of every row, by a ledger per key in plain Python."""
        rows, counts, totals, waiting = [], dict.fromkeys(KEYS, 0), dict.fromkeys(KEYS, 0), dict[tuple[str, int], int]()
        start_us = int(MIDNIGHT.timestamp()) * 1_000_000
        for epoch, records in enumerate(self._epochs):
            for record in sorted(records, key=lambda record: record["minute"]):
                key, at_us = record["k"], start_us + record["minute"] * 60_000_000
                counts[key] += 1
                totals[key] += record["v"]
                waiting[key, at_us + WAITS_US] = record["v"]
                rows.append((epoch, key, 0, counts[key], totals[key]))
            watermark_us = start_us + max(record["minute"] for record in records) * 60_000_000
            for key, due_us in [timer for timer in waiting if timer[1] <= watermark_us]:
                rows.append((epoch, key, due_us, counts[key], waiting.pop((key, due_us))))
        return sorted(rows)

    def found(self) -> list[tuple[Any, ...]]:
        return sorted((row["_epoch"], row["k"], row["at"], row["n"], row["total"]) for row in output_changes(self.out))

    @property
    def records(self) -> list[Row]:
        return [record for records in self._epochs for record in records]

    @property
    def requests(self) -> RescaleLog:
        return RescaleLog(checkpoint_log(self.checkpoints).store)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def subtasks(manifest: Manifest) -> dict[str, int | None]:
    return {operator.operator_id: operator.parallelism for operator in manifest.operators}


def check_owners(manifest: Manifest, step: OperatorState, parallelism: int) -> None:
    """The runs of the epoch are those of its subtasks, each of just the key groups that it owns."""
    limit = manifest.max_parallelism
    written: dict[int, set[KeyGroupRange]] = {}
    for one in step.runs:
        name = paths.parse_run_path(one.path)
        assert name is not None, one
        if name.epoch == manifest.epoch and not one.merged_from:
            written.setdefault(name.subtask, set()).add(KeyGroupRange(one.key_group_start, one.key_group_end))
    owned = {s: {group_range(s, parallelism=parallelism, max_parallelism=limit)} for s in range(parallelism)}
    assert written == owned
    groups = [group for (owner,) in written.values() for group in range(owner.start, owner.end)]
    assert sorted(groups) == list(range(limit)), "every key group has one owner"


def ask(job: Job, wanted: Iterable[int | None], add: Feed) -> list[Feed]:
    """Inputs, before each of which another parallelism is asked for."""

    def feed(parallelism: int | None) -> None:
        job.rescale(parallelism)
        add()

    return [partial(feed, one) for one in wanted]


@pytest.mark.spark
@pytest.mark.parametrize("max_parallelism", [13, 128])
def test_every_key_group_state_and_timer_moves_when_a_running_job_is_rescaled(
    spark: SparkSession, story: Story, max_parallelism: int
) -> None:
    """1 -> 2 -> 4 -> 3 in one run, and 1 again after it; timers of one epoch fire in the next ones."""
    story.add()
    job = story.job(max_parallelism=max_parallelism)
    observer = run(job, spark, feed=ask(job, (2, 4, 3), story.add))
    story.add()
    observer_after = run(story.job(max_parallelism=max_parallelism, parallelism=1), spark)
    numbers = [1, 2, 4, 3, 3]
    committed = manifests(story.checkpoints)
    assert [manifest.parallelism for manifest in committed] == numbers
    for manifest, parallelism in zip(committed, numbers, strict=True):
        (step,) = manifest.operators
        assert step.parallelism == parallelism
        check_owners(manifest, step, parallelism)
    assert story.found() == story.expected()
    assert len([row for row in story.found() if row[2]]) > 3 * len(KEYS), "timers have fired"
    told = [(event.epoch, event.steps, event.reason) for event in observer.rescaled]
    why = "asked for with `mixedmode rescale`"
    assert told == [
        (1, (StepRescaled("ledger", 1, 2),), why),
        (2, (StepRescaled("ledger", 2, 4),), why),
        (3, (StepRescaled("ledger", 4, 3),), why),
    ]
    assert not observer_after.rescaled
    assert story.requests.numbers() == (3,), "requests that count no more are gone"


BUCKETS = "SELECT k, v, cast(substr(k, 5) AS int) % 7 AS bucket FROM t"


def two_steps(story: Story, **settings: Any) -> Job:
    """Two keyed steps and sql after them, so three stages: the first with a parallelism of its own."""
    by_key = story.settings(**settings).sql(BUCKETS).key_by("k", "bucket", name="by_key", parallelism=2)
    by_bucket = by_key.aggregate(total="sum(v)").key_by("bucket", name="by_bucket").aggregate(total="sum(total)")
    return by_bucket.sql("SELECT bucket, total + 0 AS total FROM by_bucket").write(Sink.parquet(story.out))


@pytest.mark.spark
def test_steps_have_numbers_of_their_own_and_the_backlog_another(spark: SparkSession, story: Story) -> None:
    """The backlog on 3, then each step on its own; one step is rescaled, then the job; then all of it is withdrawn."""
    story.add()
    job = two_steps(story, backlog_parallelism=3)

    def feed(parallelism: int | None, step: str | None = None) -> Feed:
        def let_in() -> None:
            job.rescale(parallelism, step=step)
            story.add()

        return let_in

    observer = run(job, spark, feed=[story.add, feed(4, "by_bucket"), feed(5), feed(None)])
    by_hand, by_file = "asked for with `mixedmode rescale`", "the job file says so"
    assert [([(s.operator_id, s.before, s.now) for s in event.steps], event.reason) for event in observer.rescaled] == [
        ([("by_key", 3, 2), ("by_bucket", 3, 1)], "the backlog is over"),
        ([("by_bucket", 1, 4)], by_hand),
        ([("by_bucket", 4, 1)], by_file),
    ], "5 subtasks of the others: no step is without a number of its own"
    committed = manifests(story.checkpoints)
    assert [subtasks(manifest) for manifest in committed] == [
        {"by_key": 3, "by_bucket": 3},
        {"by_key": 2, "by_bucket": 1},
        {"by_key": 2, "by_bucket": 4},
        {"by_key": 2, "by_bucket": 4},
        {"by_key": 2, "by_bucket": 1},
    ]
    assert [manifest.parallelism for manifest in committed] == [3, 1, 1, 5, 1]
    totals = dict.fromkeys(range(7), 0)
    for record in story.records:
        totals[int(record["k"][4:]) % 7] += record["v"]
    assert {row["bucket"]: row["total"] for row in output_rows(story.out)} == totals


def test_a_request_for_the_number_of_the_job_file_is_told_as_a_request(story: Story) -> None:
    """It was told as what the job file says."""
    job, told = story.job(), list[tuple[int, str]]()
    for parallelism in (None, 4, 1, 4, None):
        if told or parallelism:
            job.rescale(parallelism)
        story.add()
        observer = run_locally(job, story.inputs, read=timed_records)
        told += [(event.steps[0].now, event.reason) for event in observer.rescaled]
    by_hand, by_file = "asked for with `mixedmode rescale`", "the job file says so"
    assert told == [(4, by_hand), (1, by_hand), (4, by_hand), (1, by_file)]


def test_a_request_counts_over_a_restart_until_the_job_file_says_something_else(story: Story) -> None:
    story.add()
    run_locally(story.job(), story.inputs, read=timed_records)
    story.job().rescale(4)
    story.add()
    observer = run_locally(story.job(), story.inputs, read=timed_records)
    assert [event.steps for event in observer.rescaled] == [(StepRescaled("ledger", 1, 4),)]
    story.add()
    changed = run_locally(story.job(parallelism=2), story.inputs, read=timed_records)
    (ignored,) = changed.ignored
    assert ignored == (
        "the parallelism in the job file has changed since it was asked to rescale, so the job file counts again. Ask "
        "once more if that was not meant. then=1, now=2"
    )
    assert [(event.steps, event.reason) for event in changed.rescaled] == [
        ((StepRescaled("ledger", 4, 2),), "the job file says so")
    ]
    story.add()
    back = run_locally(story.job(), story.inputs, read=timed_records)
    assert not back.ignored, "an outdated request is gone for good"
    assert [subtasks(manifest)["ledger"] for manifest in manifests(story.checkpoints)] == [1, 4, 2, 1]
    assert story.found() == story.expected()


@pytest.mark.spark
def test_a_request_in_backlog_counts_from_the_first_live_epoch_on(spark: SparkSession, story: Story) -> None:
    story.add()
    job = story.job(backlog_parallelism=2)

    class Asking(Recording):
        def tell(self, event: Event) -> None:
            super().tell(event)
            if isinstance(event, EpochStarted) and event.is_backlog:
                job.rescale(3)

    run(job, spark, observer=Asking(feed=[story.add]))
    assert [subtasks(manifest)["ledger"] for manifest in manifests(story.checkpoints)] == [2, 3]
    assert story.found() == story.expected()


def test_a_request_that_cannot_be_read_changes_nothing_and_is_told(story: Story) -> None:
    story.add()
    run_locally(story.job(), story.inputs, read=timed_records)
    story.job().rescale(3)
    story.job().rescale(4)
    path = story.checkpoints / paths.rescale_path(2)
    path.write_bytes(path.read_bytes()[:-5])
    story.add()
    observer = run_locally(story.job(), story.inputs, read=timed_records)
    (ignored,) = observer.ignored
    assert ignored == (
        "a request to rescale cannot be read, so the job keeps the parallelism that it has. No state is affected. Ask "
        f"once more with `mixedmode rescale`, which replaces it. file={path}"
    )
    story.job().rescale(2)
    story.add()
    run_locally(story.job(), story.inputs, read=timed_records)
    assert [subtasks(manifest)["ledger"] for manifest in manifests(story.checkpoints)] == [1, 3, 2]
    assert story.requests.numbers() == (3,)


@pytest.mark.spark
def test_the_autoscaler_rescales_a_live_job_and_the_screen_and_the_manifests_show_it(
    spark: SparkSession, story: Story
) -> None:
    """Epochs that take longer than the interval: it goes to its upper bound, and stays there."""
    story.add()
    stop = threading.Event()

    class Feeding(Recording):
        def tell(self, event: Event) -> None:
            super().tell(event)
            if not isinstance(event, EpochCommitted):
                return
            if len(self.committed) == 8:
                stop.set()
            elif len(self.committed) > 1:
                story.add()

    observer = Feeding(feed=[story.add])
    job = story.job(autoscaler={"max_parallelism": 2, "cool_down": "1ms"}, checkpoint_interval="1ms")
    run_job(job.spec, job.where, RunOptions(observers=[observer], stop=stop, session=spark))
    assert [subtasks(manifest)["ledger"] for manifest in manifests(story.checkpoints)] == [1] * 6 + [2] * 2
    (event,) = observer.rescaled
    assert (event.epoch, event.steps) == (6, (StepRescaled("ledger", 1, 2),))
    assert re.fullmatch(r"the autoscaler found: busy \d+% of the time, target 70%", event.reason)
    assert story.found() == story.expected()
