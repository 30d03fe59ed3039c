"""The ranges of offsets that an epoch reads of the sides of a job's sources, as Spark's log has them."""

from collections.abc import Mapping, Sequence

from mixedmode.checkpoint.spark_log import lines_by_source, shares_of_sources
from mixedmode.sources.kafka_offsets import OffsetRanges, Offsets, parse_initial_offsets, parse_offsets, ranges_between
from mixedmode.sources.sides import sides_of
from mixedmode.sources.source import OpenSource
from mixedmode.spark.folder import SparkFolder

__all__ = ["OffsetsRead"]


class OffsetsRead:
    """The offsets of the sources that a job reads."""

    def __init__(self, read: Mapping[str, OpenSource], *, has_clock: bool) -> None:
        """read: by name, in the order of the query. has_clock: it also reads the clock (sources/heartbeat.py)."""
        self._lines = {name: len(sides_of(source)) for name, source in read.items()}
        self._has_clock = has_clock

    def ranges(
        self, name: str, number: int, folder: SparkFolder, line_sources: Sequence[int], *, before: str, now: str
    ) -> OffsetRanges | None:
        """Return the ranges that an epoch reads of a side of a source; None if the epoch has no entry for it.

        before, now: entries of Spark's offset log where the epoch begins and ends; before: "" for the first epoch.
        line_sources: the number of the source of each of their lines.
        """
        end = self._offsets(now, name, number)
        return None if end is None else ranges_between(self._begin(name, number, folder, line_sources, before), end)

    def _begin(self, name: str, number: int, folder: SparkFolder, line_sources: Sequence[int], before: str) -> Offsets:
        begin = self._offsets(before, name, number)
        if begin is None:
            numbers = shares_of_sources(line_sources, self._lines, has_clock=self._has_clock)[name]
            begin = parse_initial_offsets(folder.first_source_entry(numbers[number]) or b"")
        assert begin is not None, "Spark notes where a source begins before its first epoch"
        return begin

    def _offsets(self, entry: str, name: str, number: int) -> Offsets | None:
        lines = lines_by_source(entry, self._lines, has_clock=self._has_clock)[name]
        return parse_offsets(lines[number]) if lines else None
