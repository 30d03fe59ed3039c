"""The ids of the topics that the first epoch of a job reads, for a start after that epoch has failed.

A manifest has the ids of its topics. The first epoch has no manifest before it, and Spark repeats it from the offsets
at which it began. If a topic was made anew meanwhile, these are offsets of another topic.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.manifest import decode_as, encode_as
from mixedmode.checkpoint.store import ObjectStore

__all__ = ["FirstTopics"]

_TOPICS = DocumentKind("mixedmode-topics", 1, "the record of the topics with which the job began")


@dataclass(frozen=True, slots=True)
class _Content:
    topic_ids: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class FirstTopics:
    """The record in a checkpoint folder. Each read goes to the store."""

    store: ObjectStore

    def read(self) -> Mapping[str, Mapping[str, str]]:
        """Return {source: {topic: its id}}, {} if there is no record. Raise CorruptStateError if it is damaged."""
        data = self.store.get(paths.TOPICS)
        where = f"{self.store.url}/{paths.TOPICS}"
        return {} if data is None else decode_as(_TOPICS, _Content, data, where=where).topic_ids

    def create(self, topic_ids: Mapping[str, Mapping[str, str]]) -> None:
        """Store the ids, unless an earlier attempt of the first epoch has stored its own."""
        content = _Content({source: dict(ids) for source, ids in topic_ids.items()})
        self.store.put_new(paths.TOPICS, encode_as(_TOPICS, content))

    def delete(self) -> None:
        """Delete the record of an epoch of which nothing is planned any more."""
        self.store.delete([paths.TOPICS])
