"""Tells which records were gone before an epoch could read them, where a job allows that.

The brokers are asked for the first offset of each partition before the epoch's tasks read. If Spark says afterwards
that it has skipped records, they are asked once more: the records have expired while the tasks ran.
"""

from collections.abc import Sequence

from mixedmode.driver.events import Observer, RecordsExpired
from mixedmode.driver.sources_read import SourcesRead
from mixedmode.sources.expired import LosesRecords, expired_in
from mixedmode.sources.kafka_offsets import OffsetRanges
from mixedmode.spark.folder import SparkFolder

__all__ = ["ExpiredRecords"]


class ExpiredRecords:
    """The records that the sources of a job have lost. Each is told once in a start, also if an epoch runs again."""

    def __init__(self, read: SourcesRead, observer: Observer) -> None:
        self._read = read
        self._sides = [
            (name, number, side)
            for name, number, side in read.sides
            if isinstance(side, LosesRecords) and side.allows_data_loss
        ]
        self._observer = observer
        self._told: dict[tuple[str, str, int], int] = {}  #: {(source, topic, partition): the first offset not told}

    def look(
        self, folder: SparkFolder, line_sources: Sequence[int], *, before: str, now: str, is_read: bool = False
    ) -> None:
        """Ask if an epoch has records of such a source.  The arguments are those of SourcesRead.ranges.

        is_read: the tasks of the epoch have ended. Raise RetryableError if no broker answers.
        """
        for name, number, side in self._sides:
            if is_read and not side.has_skipped():
                continue
            ranges = self._read.ranges(name, number, folder, line_sources, before=before, now=now)
            if ranges is not None:
                self._tell(name, side, ranges, is_read=is_read)

    def look_at_batch(self, *, is_read: bool = False) -> None:
        """Ask about the records of a batch run, before its tasks read them or after that.

        Nobody says then whether Spark has skipped records. Raise RetryableError if no broker answers.
        """
        for name, _, side in self._sides:
            self._tell(name, side, side.batch_ranges(), is_read=is_read)

    def _tell(self, name: str, side: LosesRecords, ranges: OffsetRanges, *, is_read: bool) -> None:
        if not ranges.end:
            return
        for expired in expired_in(ranges, side.first_offsets(ranges.end)):
            place = name, expired.topic, expired.partition
            start = max(expired.start, self._told.get(place, 0))
            if start < expired.end:
                self._told[place] = expired.end
                event = RecordsExpired(name, expired.topic, expired.partition, start, expired.end, while_read=is_read)
                self._observer(event)
