"""Keeps the ids of the topics that a job reads, and stops a job whose topic was deleted and made anew.

A start asks for the ids of the topics of its checkpoint. An epoch asks for those of topics that are new to the job,
and once a minute for all of them. It asks before its tasks read a record. So if a topic is made anew while it is read,
the manifest has the id of the old topic, and the next question finds the other one.
"""

from collections.abc import Mapping, Sequence
from typing import assert_never

from mixedmode.checkpoint.spark_log import lines_by_source
from mixedmode.checkpoint.types import Manifest
from mixedmode.clock import Clock
from mixedmode.driver.events import Notice, Observer
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.sources.kafka_offsets import Offsets, parse_offsets
from mixedmode.sources.sides import sides_of
from mixedmode.sources.source import OpenSource
from mixedmode.sources.topic_ids import HasTopicIds, TopicsMadeAnew, TopicsRead, decide_topics

__all__ = ["TopicIds"]

_ASK_SECONDS = 60.0


class TopicIds:
    """The ids of the topics of a job's sources, by source. A job without topics is never asked for anything."""

    def __init__(
        self,
        sources: Mapping[str, OpenSource],
        sources_read: Sequence[str],
        clock: Clock,
        observer: Observer,
        *,
        has_clock: bool,
    ) -> None:
        """has_clock: the query also reads the clock (sources/heartbeat.py)."""
        read = {name: sources[name] for name in sources_read if name in sources}
        self._lines = {name: len(sides_of(source)) for name, source in read.items()}
        #: {source: the number of its side that reads topics, and this side}
        self._asked = {
            name: (number, side)
            for name, source in read.items()
            for number, side in enumerate(sides_of(source))
            if isinstance(side, HasTopicIds)
        }
        self._clock = clock
        self._observer = observer
        self._has_clock = has_clock
        self._ids: dict[str, Mapping[str, str]] = {}
        self._known: dict[str, frozenset[str]] = {}  # the topics that were asked for, also those without an id
        self._asked_at: float | None = None

    def check(self, latest: Manifest) -> None:
        """Compare the ids with those of the checkpoint from which the job goes on, before anything is changed.

        Raise InvalidJobError if a topic was made anew, RetryableError if no broker answers.
        """
        self._ids = dict(latest.topic_ids)
        self._ask(latest.offsets, latest.offsets)

    def look(self, before: str, now: str) -> None:
        """Ask before an epoch runs, if it is time, or if the epoch reads topics that are new to the job.

        before, now: entries of Spark's offset log where the epoch begins and ends; before: "" for the first epoch.
        Raise InvalidJobError if a topic was made anew, RetryableError if no broker answers about a new topic.
        """
        if not self._asked:
            return
        planned = self._offsets(now)
        is_new = any(read.keys() - self._known.get(name, frozenset()) for name, read in planned.items())
        # Spark forgets the offsets of a topic of a pattern that is gone; if it comes again, it is new
        self._known = {name: known & planned[name].keys() for name, known in self._known.items()}
        is_time = self._asked_at is None or self._clock.seconds() - self._asked_at >= _ASK_SECONDS
        if not is_new and not is_time:
            return
        try:
            self._ask(before, now)
        except RetryableError:
            if is_new:
                raise
            self._asked_at = self._clock.seconds()  # no id is missing, so the question can wait

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
            _, side = self._asked[name]
            if not read:
                continue
            decision = decide_topics(
                self._ids.get(name, {}),
                side.topic_ids(sorted(read)),
                passed[name],
                where=side.where,
                allows_data_loss=side.allows_data_loss,
            )
            match decision:
                case TopicsRead(ids, notice):
                    self._ids[name] = ids
                    self._known[name] = frozenset(read)
                    if notice is not None:
                        self._observer(Notice(notice))
                case TopicsMadeAnew(reason):
                    raise InvalidJobError(reason)
                case _:
                    assert_never(decision)
        if self._asked:
            self._asked_at = self._clock.seconds()

    def _offsets(self, entry: str) -> dict[str, Offsets]:
        """Return {source: the offsets of its topics} in an entry of Spark's offset log."""
        lines = lines_by_source(entry, self._lines, has_clock=self._has_clock)
        return {
            name: (parse_offsets(lines[name][number]) or {}) if lines[name] else {}
            for name, (number, _) in self._asked.items()
        }
