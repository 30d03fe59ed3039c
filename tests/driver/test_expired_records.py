"""A job tells each lost record of a topic once, and asks before epochs with records. The brokers are a dictionary."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from typing_extensions import override

from mixedmode.driver.events import Event, RecordsExpired
from mixedmode.driver.expired_records import ExpiredRecords
from mixedmode.driver.sources_read import SourcesRead
from mixedmode.errors import RetryableError
from mixedmode.sources.expired import LosesRecords
from mixedmode.sources.kafka_offsets import OffsetRanges, Offsets
from mixedmode.spark.folder import SparkFolder
from tests.driver.test_topic_ids import Files, HistoryAndLive, entry


class Topics(Files, LosesRecords):
    """A source whose topics have one partition each; `first` are their first offsets, None: no broker answers."""

    allows_data_loss = True
    skips = True  # Spark says that it has skipped records

    def __init__(self, **first: int) -> None:
        self.first: dict[str, int] | None = first
        self.asked: list[list[str]] = []
        self.read = OffsetRanges({}, {})

    @override
    def has_skipped(self) -> bool:
        return self.skips

    @override
    def batch_ranges(self) -> OffsetRanges:
        return self.read

    @override
    def first_offsets(self, partitions: Mapping[str, Collection[int]]) -> Offsets:
        self.asked.append(list(partitions))
        if self.first is None:
            msg = "nobody answers"
            raise RetryableError(msg)
        return {topic: dict.fromkeys(numbers, self.first[topic]) for topic, numbers in partitions.items()}


@dataclass
class Began:
    """Spark's folder of a query whose second source began at these offsets."""

    offsets: Mapping[str, int]

    def first_source_entry(self, source: int) -> bytes:
        """Return the entry in which the source notes where it began."""
        assert source == 1
        return b"\0v1\n" + json.dumps({topic: {"0": at} for topic, at in self.offsets.items()}).encode()


@dataclass
class Start:
    """One start of a job that reads files, then `source`, and the clock."""

    source: Any
    began: Mapping[str, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        sources = {"f": Files(), "t": self.source}
        self.records = ExpiredRecords(SourcesRead.of(sources, ["f", "t"], has_clock=True), self.events.append)

    def look(self, before: str, now: str, *, is_read: bool = False) -> None:
        folder = cast("SparkFolder", Began(self.began))
        self.records.look(folder, (0, 1, 2), before=before, now=now, is_read=is_read)

    @property
    def told(self) -> list[tuple[str, int, int]]:
        assert all(isinstance(event, RecordsExpired) and event.source == "t" for event in self.events)
        return [(event.topic, event.start, event.end) for event in self.events if isinstance(event, RecordsExpired)]


def test_the_offsets_that_an_epoch_cannot_read_are_told() -> None:
    start = Start(Topics(a=15, b=0, c=99, d=7))
    start.look(entry(a=10, b=10, c=10, d=7), entry(a=20, b=20, c=20, d=9))
    assert start.told == [("a", 10, 15), ("c", 10, 20)]


def test_the_first_epoch_begins_where_spark_notes_it_and_a_new_partition_at_0() -> None:
    start = Start(Topics(a=15, b=4), began={"a": 12})
    start.look("", entry(a=20, b=5))
    assert start.told == [("a", 12, 15), ("b", 0, 4)]


def test_an_epoch_that_runs_again_tells_only_what_has_expired_since() -> None:
    source = Topics(a=15)
    start = Start(source)
    for first in (15, 15, 17, 17):
        source.first = {"a": first}
        start.look(entry(a=10), entry(a=20))
    start.look(entry(a=20), entry(a=30))
    assert start.told == [("a", 10, 15), ("a", 15, 17)]


def test_records_that_expire_while_an_epoch_reads_are_told_if_spark_has_skipped_some() -> None:
    source = Topics(a=12)
    start = Start(source)
    start.look(entry(a=10), entry(a=20))
    source.first, source.skips = {"a": 15}, False  # they were read before they expired
    start.look(entry(a=10), entry(a=20), is_read=True)
    assert len(source.asked) == 1
    source.skips = True
    start.look(entry(a=10), entry(a=20), is_read=True)
    start.look(entry(a=10), entry(a=20), is_read=True)
    assert start.events == [RecordsExpired("t", "a", 0, 10, 12), RecordsExpired("t", "a", 0, 12, 15, while_read=True)]


def test_a_batch_run_tells_what_expired_before_and_while_it_read() -> None:
    source = Topics(a=12)
    start = Start(source)
    source.read = OffsetRanges({"a": {0: 10}}, {"a": {0: 20}})
    start.records.look_at_batch()
    source.first = {"a": 15}
    start.records.look_at_batch(is_read=True)
    assert start.events == [RecordsExpired("t", "a", 0, 10, 12), RecordsExpired("t", "a", 0, 12, 15, while_read=True)]


def test_brokers_are_asked_only_about_partitions_with_records_to_read_and_only_if_loss_is_allowed() -> None:
    source = Topics(a=15, b=15)
    start = Start(source)
    start.look(entry(a=10, b=10), entry(a=10, b=10))
    start.look(entry(a=10, b=10), entry(a=10, b=11))
    assert source.asked == [["b"]]
    strict = Topics(a=15)
    strict.allows_data_loss = False
    Start(strict).look(entry(a=10), entry(a=20))
    assert strict.asked == []


def test_brokers_that_do_not_answer_make_the_epoch_run_again() -> None:
    source = Topics()
    source.first = None
    with pytest.raises(RetryableError, match="nobody answers"):
        Start(source).look(entry(a=10), entry(a=20))


def test_the_live_side_of_a_source_with_a_history_is_asked() -> None:
    events: list[Event] = []
    live = HistoryAndLive(cast("Any", Topics(a=15)))
    records = ExpiredRecords(SourcesRead({"t": live}, has_clock=True), events.append)
    folder = cast("SparkFolder", Began({}))
    records.look(folder, (0, 1, 2), before=entry(a=10), now=entry(a=20))
    assert events == [RecordsExpired("t", "a", 0, 10, 15)]
