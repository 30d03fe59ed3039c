"""Tells which records were gone before an epoch could read them, where a job allows that.

The brokers are asked for the first offset of each partition before the epoch's tasks read. So records that expire while
the tasks run are not told.
"""

from collections.abc import Mapping, Sequence

from mixedmode.driver.events import Observer, RecordsExpired
from mixedmode.driver.offsets_read import OffsetsRead
from mixedmode.sources.expired import LosesRecords, expired_in
from mixedmode.sources.sides import sides_of
from mixedmode.sources.source import OpenSource
from mixedmode.spark.folder import SparkFolder

__all__ = ["ExpiredRecords"]


class ExpiredRecords:
    """The records that the sources of a job have lost. Each is told once in a start, also if an epoch runs again."""

    def __init__(
        self, sources: Mapping[str, OpenSource], sources_read: Sequence[str], observer: Observer, *, has_clock: bool
    ) -> None:
        """has_clock: the query also reads the clock (sources/heartbeat.py)."""
        read = {name: sources[name] for name in sources_read if name in sources}
        self._offsets = OffsetsRead(read, has_clock=has_clock)
        self._sides = [
            (name, number, side)
            for name, source in read.items()
            for number, side in enumerate(sides_of(source))
            if isinstance(side, LosesRecords) and side.allows_data_loss
        ]
        self._observer = observer
        self._told: dict[tuple[str, str, int], int] = {}  #: {(source, topic, partition): the first offset not told}

    def look(self, folder: SparkFolder, line_sources: Sequence[int], *, before: str, now: str) -> None:
        """Ask before an epoch runs, if it has records of such a source.  The arguments are those of OffsetsRead.ranges.

        Raise RetryableError if no broker answers.
        """
        for name, number, side in self._sides:
            ranges = self._offsets.ranges(name, number, folder, line_sources, before=before, now=now)
            if ranges is None or not ranges.end:
                continue
            for expired in expired_in(ranges, side.first_offsets(ranges.end)):
                place = name, expired.topic, expired.partition
                start = max(expired.start, self._told.get(place, 0))
                if start < expired.end:
                    self._told[place] = expired.end
                    self._observer(RecordsExpired(name, expired.topic, expired.partition, start, expired.end))
