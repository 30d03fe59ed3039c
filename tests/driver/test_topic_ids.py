"""When a job asks for the ids of its topics, and what of them its manifests have. The brokers are a dictionary."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pyspark.sql.types import StructType
from typing_extensions import override

from mixedmode.driver.events import Event, Notice
from mixedmode.driver.sources_read import SourcesRead
from mixedmode.driver.topic_ids import TopicIds
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.sources.sides import HasSides
from mixedmode.sources.source import Admission, OpenSource
from mixedmode.sources.topic_ids import HasTopicIds
from tests.checkpoint.examples import a_manifest


class Files(OpenSource):
    """A source without topics."""

    schema = StructType()

    @override
    def batch(self) -> Any:
        pytest.fail("only ids are asked for, and no rows")

    @override
    def stream(self, admission: Admission) -> Any:
        pytest.fail("only ids are asked for, and no rows")


class Topics(Files, HasTopicIds):
    """A source with the ids that its brokers know; None: no broker answers."""

    where = "sources.t"
    allows_data_loss = False

    def __init__(self, ids: dict[str, str] | None) -> None:
        self.ids = ids
        self.asked: list[list[str]] = []

    @override
    def topic_ids(self, topics: Collection[str]) -> Mapping[str, str]:
        self.asked.append(list(topics))
        if self.ids is None:
            msg = "nobody answers"
            raise RetryableError(msg)
        return {topic: self.ids[topic] for topic in topics if topic in self.ids}


class HistoryAndLive(Files, HasSides):
    """Files, and then topics."""

    def __init__(self, live: Topics) -> None:
        self.sides = (Files(), live)

    @property
    @override
    def sides_in_log(self) -> tuple[OpenSource, ...]:
        return self.sides


def entry(**topics: int) -> str:
    """An entry of Spark's log of a source of files, a source of these topics, and the clock."""
    offsets = {name: {"0": offset} for name, offset in topics.items()}
    return "\n".join(["v1", "{}", '{"logOffset":4}', json.dumps(offsets) if offsets else "-", "99"])


@dataclass
class Start:
    """One start of a job."""

    source: Topics
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        sources = {"f": Files(), "t": self.source}
        self.topics = TopicIds(SourcesRead.of(sources, ["f", "t"], has_clock=True), self.events.append)

    def check(self, offsets: str, ids: dict[str, str]) -> None:
        self.topics.check(replace(a_manifest(3), offsets=offsets, topic_ids={"t": ids} if ids else {}))


def test_a_start_asks_once_for_the_topics_of_its_checkpoint_and_epochs_do_not_ask_again() -> None:
    source = Topics({"a": "a1", "b": "b1"})
    start = Start(source)
    start.check(entry(a=5, b=7), {"a": "a1", "b": "b1"})
    start.topics.look(entry(a=5, b=7), entry(a=6, b=8))
    assert source.asked == [["a", "b"]]
    assert start.topics.of(entry(a=6, b=8)) == {"t": {"a": "a1", "b": "b1"}}


def test_a_start_over_a_topic_that_was_made_anew_is_refused_or_tells_it_once() -> None:
    source = Topics({"a": "a2"})
    with pytest.raises(InvalidJobError, match=r"topics=a, ids_now=a2, ids_before=a1$"):
        Start(source).check(entry(a=5), {"a": "a1"})
    source.allows_data_loss = True
    start = Start(source)
    start.check(entry(a=5), {"a": "a1"})
    start.topics.look(entry(a=5), entry(a=6))
    start.topics.check_read(entry(a=5), entry(a=6))
    (event,) = start.events
    assert isinstance(event, Notice)
    assert "As allow-data-loss is true" in event.text
    assert start.topics.of(entry(a=6)) == {"t": {"a": "a2"}}


def test_the_first_epoch_asks_for_its_topics_and_a_later_one_for_new_topics_of_a_pattern() -> None:
    source = Topics({"a": "a1", "b": "b1"})
    start = Start(source)
    start.topics.look("", entry())
    start.topics.look("", entry(a=5))
    start.topics.look(entry(a=5), entry(a=6, b=1))
    start.topics.look(entry(a=6, b=1), entry(a=7, b=2))
    assert source.asked == [["a"], ["a", "b"]]
    assert start.topics.of(entry(a=6, b=1)) == {"t": {"a": "a1", "b": "b1"}}


@pytest.mark.parametrize("before", ["", entry(a=5)])
def test_no_epoch_is_committed_that_has_read_a_topic_that_was_made_anew(before: str) -> None:
    source = Topics({"a": "a1"})
    start = Start(source)
    start.topics.look(before, entry(a=6))
    source.ids = {"a": "a2"}
    with pytest.raises(InvalidJobError, match=r"topics=a, ids_now=a2, ids_before=a1$"):
        start.topics.check_read(before, entry(a=6))
    source.allows_data_loss = True
    start.topics.check_read(before, entry(a=6))
    assert [type(event) for event in start.events] == [Notice]
    assert start.topics.of(entry(a=6)) == {"t": {"a": "a2"}}


def test_an_epoch_asks_only_for_topics_of_which_it_has_records_and_brokers_that_give_ids() -> None:
    source = Topics({"a": "a1", "b": "b1"})
    start = Start(source)
    start.topics.look("", entry(a=5, b=5, c=5))
    start.topics.check_read(entry(a=5, b=5, c=5), entry(a=5, b=6, c=6))
    start.topics.check_read(entry(a=5, b=6, c=6), entry(a=5, b=6, c=6))
    start.topics.check_read(entry(a=5, b=6, c=6), "")
    assert source.asked == [["a", "b", "c"], ["b"]]


def test_a_topic_that_was_deleted_after_it_was_read_is_no_other_topic() -> None:
    source = Topics({"a": "a1"})
    start = Start(source)
    start.topics.look("", entry(a=5))
    source.ids = {}
    start.topics.check_read("", entry(a=5))
    assert start.topics.of(entry(a=5)) == {"t": {"a": "a1"}}


def test_a_topic_of_a_pattern_that_spark_has_forgotten_is_new_when_it_comes_again() -> None:
    source = Topics({"a": "a1", "b": "b1"})
    start = Start(source)
    start.topics.look("", entry(a=5, b=5))
    start.topics.look(entry(a=5, b=5), entry(b=6))
    source.ids = {"a": "a2", "b": "b1"}
    start.topics.look(entry(b=6), entry(a=9, b=7))
    assert start.topics.of(entry(a=9, b=7)) == {"t": {"a": "a2", "b": "b1"}}


def test_brokers_that_do_not_answer_make_the_epoch_run_again() -> None:
    source = Topics({"a": "a1"})
    start = Start(source)
    start.topics.look("", entry(a=5))
    source.ids = None
    start.topics.look(entry(a=5), entry(a=6))
    with pytest.raises(RetryableError):
        start.topics.check_read(entry(a=5), entry(a=6))
    with pytest.raises(RetryableError):
        start.topics.look(entry(a=6), entry(a=6, b=1))
    with pytest.raises(RetryableError):
        Start(source).check(entry(a=5), {"a": "a1"})


def test_nothing_is_kept_of_brokers_that_give_no_ids_and_of_a_job_without_topics() -> None:
    source = Topics({})
    start = Start(source)
    start.check(entry(a=5), {})
    start.topics.look(entry(a=5), entry(a=6))
    assert source.asked == [["a"]]
    assert start.topics.of(entry(a=6)) == {}
    none = TopicIds(SourcesRead({"f": Files()}, has_clock=False), start.events.append)
    none.check(a_manifest(1))
    none.look("", 'v1\n{}\n{"logOffset":4}')
    assert none.of('v1\n{}\n{"logOffset":4}') == {}


def test_the_topics_of_a_live_side_are_found_behind_its_history() -> None:
    live = Topics({"a": "a1"})
    topics = TopicIds(SourcesRead({"t": HistoryAndLive(live)}, has_clock=True), lambda _: None)
    topics.look("", entry(a=5))
    assert live.asked == [["a"]]
    assert topics.of(entry(a=5)) == {"t": {"a": "a1"}}


def test_the_end_of_the_input_has_no_topics() -> None:
    start = Start(Topics({"a": "a1"}))
    start.topics.look("", entry(a=5))
    start.topics.look(entry(a=5), "")
    assert start.topics.of("") == {}
