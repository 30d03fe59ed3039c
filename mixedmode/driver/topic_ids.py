"""Keeps the ids of the topics that a job reads, and stops a job whose topic was deleted and made anew.

A start asks for the ids of the topics of its checkpoint; without one, of those with which the first epoch has begun. An
epoch asks for those of topics that are new to the job, before its tasks read a record. When they have read, it asks
again for each topic of which it has records. An id never comes again, so with the same id, all records were those of
one topic.
"""

from collections.abc import Mapping, Sequence
from typing import assert_never

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.first_topics import FirstTopics
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Manifest
from mixedmode.driver.events import Notice, Observer
from mixedmode.driver.sources_read import SourcesRead
from mixedmode.errors import InvalidJobError
from mixedmode.sources.kafka_offsets import Offsets, parse_initial_offsets, parse_offsets
from mixedmode.sources.topic_ids import HasTopicIds, TopicsMadeAnew, TopicsRead, decide_topics

__all__ = ["TopicIds"]


class TopicIds:
    """The ids of the topics of a job's sources, by source. A job without topics is never asked for anything."""

    def __init__(self, read: SourcesRead, observer: Observer) -> None:
        self._read = read
        #: {source: the number of its side that reads topics, and this side}
        self._asked = {name: (number, side) for name, number, side in read.sides if isinstance(side, HasTopicIds)}
        self._observer = observer
        self._ids: dict[str, Mapping[str, str]] = {}
        self._known: dict[str, frozenset[str]] = {}  # the topics that were asked for, also those without an id

    def check(self, latest: Manifest) -> None:
        """Compare the ids with those of the checkpoint from which the job goes on, before anything is changed.

        Raise InvalidJobError if a topic was made anew, RetryableError if no broker answers.
        """
        self._ids = dict(latest.topic_ids)
        self._ask(latest.offsets, latest.offsets)

    def check_beginning(self, store: ObjectStore, line_sources: Sequence[int]) -> None:
        """Compare the ids with those of a first epoch that was planned and not committed.

        It may have begun at later offsets than 0, and what is before them in a new topic would never be read.
        line_sources: the number of the source of each line of an offset entry. Errors are those of `check`.
        """
        first = FirstTopics(store)
        known = first.read()
        if not known:
            return
        numbers = self._read.numbers(line_sources)
        begun = False
        for name, (number, _) in self._asked.items():
            entry = store.get(paths.spark_source_path(numbers[name][number], 0))
            offsets = None if entry is None else parse_initial_offsets(entry)
            if offsets is not None and name in known:
                begun, self._ids[name] = True, known[name]
                self._compare(name, offsets)
        if not begun:
            first.delete()

    def note_beginning(self, store: ObjectStore) -> None:
        """Store the ids of the first epoch, after `look` and before its tasks read."""
        if self._ids:
            FirstTopics(store).create(self._ids)

    def look(self, before: str, now: str) -> None:
        """Ask before an epoch runs, if it reads topics that are new to the job.

        before, now: entries of Spark's offset log where the epoch begins and ends; before: "" for the first epoch.
        Raise InvalidJobError if a topic was made anew, RetryableError if no broker answers.
        """
        planned = self._offsets(now)
        is_new = any(read.keys() - self._known.get(name, frozenset()) for name, read in planned.items())
        # Spark forgets the offsets of a topic of a pattern that is gone; if it comes again, it is new
        self._known = {name: known & planned[name].keys() for name, known in self._known.items()}
        if is_new:
            self._ask(before, now)

    def check_read(self, before: str, now: str) -> None:
        """Ask for the topics of which an epoch has records, when its tasks have read them, before it is committed.

        Arguments and errors are those of `look`. Brokers that give no ids are not asked.
        """
        passed = self._offsets(before)
        for name, ends in self._offsets(now).items():
            known = self._ids.get(name, {})
            self._compare(
                name, {topic: at for topic, at in ends.items() if topic in known and at != passed[name].get(topic)}
            )

    def of(self, offsets: str) -> dict[str, dict[str, str]]:
        """Return {source: {topic: its id}} of the topics in an entry of Spark's offset log, for the manifest."""
        found = {
            name: {topic: one for topic, one in sorted(self._ids.get(name, {}).items()) if topic in read}
            for name, read in self._offsets(offsets).items()
        }
        return {name: ids for name, ids in found.items() if ids}

    def _ask(self, before: str, now: str) -> None:
        passed = self._offsets(before)
        for name, read in self._offsets(now).items():
            self._compare(name, {topic: passed[name].get(topic, {}) for topic in read})
            self._known[name] = frozenset(read)

    def _compare(self, name: str, read: Offsets) -> None:
        """Ask for the ids of topics of a source.  read: up to where their records were read under the known ids."""
        if not read:
            return
        _, side = self._asked[name]
        decision = decide_topics(
            self._ids.get(name, {}),
            side.topic_ids(sorted(read)),
            read,
            where=side.where,
            allows_data_loss=side.allows_data_loss,
        )
        match decision:
            case TopicsRead(ids, notice):
                self._ids[name] = ids
                if notice is not None:
                    self._observer(Notice(notice))
            case TopicsMadeAnew(reason):
                raise InvalidJobError(reason)
            case _:
                assert_never(decision)

    def _offsets(self, entry: str) -> dict[str, Offsets]:
        """Return {source: the offsets of its topics} in an entry of Spark's offset log."""
        return {
            name: parse_offsets(self._read.line(entry, name, number)) or {} for name, (number, _) in self._asked.items()
        }
