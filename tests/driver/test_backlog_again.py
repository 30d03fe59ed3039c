"""One epoch, one decision: whether it is backlog is decided for each epoch, and everything goes by that."""

import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from typing_extensions import override

from mixedmode.connectors.custom.source import CustomSourceReader
from mixedmode.driver.backlogs import SourceBacklogs
from mixedmode.driver.events import EpochStarted, Event, Flipped
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.driver.sources_read import SourcesRead
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.sources.kafka_offsets import parse_offsets, records_between
from tests.driver.numbers import Numbers
from tests.harness import SPARK, ManualClock, Recording, manifests, output_changes, output_rows, run
from tests.local_engine import LocalEngine, World, local_session
from tests.walk.bank import DDL, SCHEMA


class Telling:
    """An observer's list of what it was told, in order."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.told: list[str] = []
        self._fails_at = fails_at

    def start(self, event: EpochStarted) -> None:
        self.told.append(f"{'backlog' if event.is_backlog else 'live'} {event.epoch}")
        if event.epoch == self._fails_at:
            raise KeyboardInterrupt

    def flip(self, event: Flipped) -> None:
        self.told.append(f"flip after {event.after_epoch}")


class Ordered(Recording):
    """A recording that passes starts and flips on."""

    def __init__(self, telling: Telling) -> None:
        super().__init__()
        self._telling = telling

    @override
    def tell(self, event: Event) -> None:
        super().tell(event)
        if isinstance(event, EpochStarted):
            self._telling.start(event)
        if isinstance(event, Flipped):
            self._telling.flip(event)


def test_what_came_after_a_kill_in_the_backlog_is_live(tmp_path: Path) -> None:
    """One query brings both: the repeat of the backlog, then what has come since. Without Spark, as in tests/walk."""
    (tmp_path / "in").mkdir()
    job = Job(
        "killed",
        sources={"t": Source.parquet(tmp_path / "in", schema=DDL, event_time="at")},
        mode="mixed",
        parallelism=1,
        backlog_parallelism=3,
        backlog_emit="all",
        max_parallelism=8,
        checkpoint_dir=tmp_path / "checkpoints",
        spark=SPARK,
    )
    job = job.key_by("account").aggregate(n="sum(amount)").write(Sink.parquet(tmp_path / "out"))
    world = World({"0": postings(1, 2)})

    def start(telling: Telling) -> None:
        session, observers = local_session(world), [Ordered(telling)]
        options = RunOptions(Until.IDLE, observers, ManualClock(), session=session, engine=LocalEngine)
        run_job(job.spec, job.where, options)

    with pytest.raises(KeyboardInterrupt):
        start(Telling(fails_at=0))
    world.files["1"] = postings(3, 4)
    telling = Telling()
    start(telling)
    assert telling.told == ["backlog 0", "flip after 0", "live 1"]
    found = [(one.is_backlog, one.strategy, one.parallelism) for one in manifests(tmp_path / "checkpoints")]
    assert found == [(True, "sorted", 3), (False, "streaming", 1)]
    changes = [row["n"] for row in output_changes(tmp_path / "out")]
    assert changes == [1, 3, 10], "emit: all is for the backlog"


def postings(*amounts: int) -> pa.Table:
    """A file of one account's."""
    at = datetime(2001, 1, 1, tzinfo=UTC)
    return pa.Table.from_pylist([{"account": "a", "amount": amount, "at": at} for amount in amounts], SCHEMA)


@pytest.mark.spark
def test_a_source_says_itself_that_it_is_in_backlog_again(spark: SparkSession, tmp_path: Path) -> None:
    file, other = tmp_path / "numbers", tmp_path / "other"
    other.mkdir()
    file.write_text("1")
    job = Job(
        "numbers",
        sources={
            "numbers": Source.custom("tests.driver.numbers:Numbers", args={"file": str(file)}),
            "other": Source.json(other, schema="n long"),
        },
        mode="mixed",
        parallelism=1,
        backlog_parallelism=2,
        max_parallelism=8,
        checkpoint_dir=tmp_path / "checkpoints",
        checkpoint_interval="50ms",
        spark=SPARK,
    )
    job = job.sql("SELECT n FROM numbers UNION ALL SELECT n FROM other").key_by("n").aggregate(c="count(*)")
    job = job.write(Sink.parquet(tmp_path / "out"))
    observer = run(job, spark, feed=[partial(file.write_text, str(number)) for number in (2, 9, 10)])
    found = [(one.is_backlog, one.strategy, one.parallelism) for one in manifests(tmp_path / "checkpoints")]
    backlog, live = (True, "sorted", 2), (False, "streaming", 1)
    assert found == [backlog, live, backlog, live]
    names = [one.backlog_sources for one in manifests(tmp_path / "checkpoints")]
    assert names == [("numbers", "other"), (), ("numbers",), ()]
    assert [flip.after_epoch for flip in observer.flips] == [0], "a job flips once"
    assert [event.reason for event in observer.rescaled] == [
        "the backlog is over",
        "the job is in backlog again",
        "the backlog is over",
    ]
    assert {row["n"]: row["c"] for row in output_rows(tmp_path / "out")} == dict.fromkeys(range(10), 1)


def test_a_custom_source_is_asked_with_the_offsets_of_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    source = object.__new__(CustomSourceReader)
    own = Numbers("-")
    source._own, source._named = own, _Named()  # type: ignore[assignment]
    lines = [json.dumps({"offset": at}) for at in (None, 1, 3, 6)]
    assert [source.is_backlog(lines[i : i + 1], lines[i + 1 : i + 2]) for i in range(3)] == [False, False, True]
    assert not source.is_backlog((), lines[:1]), "there is nothing yet"
    monkeypatch.setattr(Numbers, "is_backlog", lambda *_: 1)
    with pytest.raises(InvalidJobError, match=r"must return True or False, .*method=is_backlog, found=1$"):
        source.is_backlog((), lines[1:2])


class _Named:
    """The name of the class under test, for messages."""

    label = "numbers:Numbers"


class Lagging:
    """A source whose two lines in Spark's log are numbers, of which the second one lags."""

    sides_in_log = ("history", "live")

    def is_backlog(self, before: tuple[str, ...], now: tuple[str, ...]) -> bool:
        return bool(before) and int(now[1]) - int(before[1]) > 5


@pytest.mark.parametrize(("end", "expected"), [(8, frozenset()), (9, frozenset("b"))])
def test_each_source_is_asked_with_its_own_lines_of_the_log(end: int, expected: frozenset[str]) -> None:
    sources: dict[str, Any] = {"a": object(), "b": Lagging(), "unread": object()}
    backlogs = SourceBacklogs(SourcesRead.of(sources, ["a", "b"], has_clock=True))
    before, now = (f"v1\n{{}}\n7\n7\n0\n{at}\n7\n0\n{at}\n99" for at in (3, end))
    assert backlogs.of_epoch(before, now) == expected
    assert backlogs.of_epoch("", now) == frozenset()


def test_the_lag_of_topics_is_a_number_of_offsets() -> None:
    now = parse_offsets('{"t":{"0":10,"1":5},"new":{"0":2}}')
    assert records_between(parse_offsets('{"t":{"0":4,"1":5}}'), now) == 8
    assert records_between(None, now) == 0, "where a job begins is not known to lag"
