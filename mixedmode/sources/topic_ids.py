"""Topics that were deleted and made anew under their names, recognised by the ids that Kafka's brokers give to topics.

Spark's offsets name a topic by its name only. If a topic was made anew, Spark goes on at the offset up to which it has
read the old topic, so the first records of the new one would be skipped silently. So a manifest has the ids of the
topics that it has read. Nothing here contacts a broker.

Source: KIP-516, topic identifiers.
"""

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mixedmode.sources.kafka_offsets import Offsets

__all__ = ["HasTopicIds", "TopicDecision", "TopicsMadeAnew", "TopicsRead", "decide_topics"]


@runtime_checkable
class HasTopicIds(Protocol):
    """A source of topics. At most one side of a source has topics."""

    @property
    @abstractmethod
    def where(self) -> str:
        """Return the source's place in the job."""

    @property
    @abstractmethod
    def allows_data_loss(self) -> bool:
        """Return whether the job goes on without records that it can no longer read."""

    @abstractmethod
    def topic_ids(self, topics: Collection[str]) -> Mapping[str, str]:
        """Return {topic: its id} of those of the topics that exist and have an id. Ask the brokers.

        Raise RetryableError if no broker answers.
        """


@dataclass(frozen=True, slots=True)
class TopicsRead:
    """The job goes on. ids: {topic: its id}, for the manifest. notice: a text for the user, None if there is none."""

    ids: Mapping[str, str]
    notice: str | None = None


@dataclass(frozen=True, slots=True)
class TopicsMadeAnew:
    """The job must not go on, because the first records of a topic would be skipped silently."""

    reason: str


TopicDecision = TopicsRead | TopicsMadeAnew


def decide_topics(
    before: Mapping[str, str], now: Mapping[str, str], read: Offsets, *, where: str, allows_data_loss: bool
) -> TopicDecision:
    """Decide whether a job may go on with the topics of a source. Pure.

    before: {topic: its id} when the job began to read it. now: {topic: its id} of those topics that exist now and have
    an id. read: the offsets up to which committed epochs have read the topics. where: the source's place in the job.

    A topic is no problem if an id is missing, or if none of its offsets were passed. It was never read then, or both it
    and the new topic are read from their beginnings.
    """
    passed = {topic for topic, offsets in read.items() if any(offset > 0 for offset in offsets.values())}
    anew = [topic for topic in sorted(passed & before.keys() & now.keys()) if before[topic] != now[topic]]
    ids = {**before, **now}
    if not anew:
        return TopicsRead(ids)
    values = (
        f"topics={', '.join(anew)}, ids_now={', '.join(now[topic] for topic in anew)}, "
        f"ids_before={', '.join(before[topic] for topic in anew)}"
    )
    if allows_data_loss:
        notice = (
            f"{where}: a topic was deleted and made anew since this job has read it, or bootstrap-servers now name "
            "another cluster. As allow-data-loss is true, the job goes on at the offset up to which it has read the "
            f"old topic. The records before it in the new topic are not read. {values}"
        )
        return TopicsRead(ids, notice)
    reason = (
        f"{where}: a topic is not the one that this job has read, although it has the same name: it was deleted and "
        "made anew, or bootstrap-servers now name another cluster. The job would go on at the offset up to which it "
        "has read the old topic, and skip the records before it in the new one. Nothing was committed. Correct "
        "bootstrap-servers if they are wrong. Otherwise give the job a new execution.checkpointing.dir and output: it "
        "reads the topic from its beginning. With `allow-data-loss: true` on the source, it goes on without the "
        f"skipped records. {values}"
    )
    return TopicsMadeAnew(reason)
