"""Records that a topic no longer has when a job should read them. Nothing here contacts a broker.

Spark notices such records only where a job does not allow their loss. Otherwise it skips them without a word.
"""

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mixedmode.sources.kafka_offsets import OffsetRanges, Offsets

__all__ = ["ExpiredOffsets", "LosesRecords", "expired_in"]


@runtime_checkable
class LosesRecords(Protocol):
    """A source of topics that may delete records before they are read."""

    @property
    @abstractmethod
    def allows_data_loss(self) -> bool:
        """Return whether the job goes on without records that it can no longer read."""

    @abstractmethod
    def first_offsets(self, partitions: Mapping[str, Collection[int]]) -> Offsets:
        """Return the first offset that each of these partitions still has. Ask the brokers.

        Raise RetryableError if no broker answers.
        """

    @abstractmethod
    def has_skipped(self) -> bool:
        """Return whether Spark has skipped missing records in the current epoch, or does not say.

        Records that compaction or an aborted transaction leaves out are not missing.
        """

    @abstractmethod
    def batch_ranges(self) -> OffsetRanges:
        """Return the ranges that a batch run reads."""


@dataclass(frozen=True, slots=True)
class ExpiredOffsets:
    """Offsets start <= offset < end of a partition that are gone."""

    topic: str
    partition: int
    start: int
    end: int


def expired_in(ranges: OffsetRanges, first: Offsets) -> tuple[ExpiredOffsets, ...]:
    """Return the parts of some ranges that are before the first offsets of their partitions.

    >>> expired_in(OffsetRanges({"orders": {0: 10}}, {"orders": {0: 20}}), {"orders": {0: 15}})
    (ExpiredOffsets(topic='orders', partition=0, start=10, end=15),)
    """
    found = []
    for topic, ends in ranges.end.items():
        for partition, end in ends.items():
            start = max(0, ranges.start[topic][partition])  # a new partition begins at 0
            gone = min(end, first[topic][partition])
            if start < gone:
                found.append(ExpiredOffsets(topic, partition, start, gone))
    return tuple(found)
