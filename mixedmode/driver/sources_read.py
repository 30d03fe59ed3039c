"""The sources that a job reads, with their lines in Spark's offset log and the offsets that an epoch reads of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from mixedmode.checkpoint.spark_log import lines_by_source, shares_of_sources
from mixedmode.sources.kafka_offsets import OffsetRanges, Offsets, parse_initial_offsets, parse_offsets, ranges_between
from mixedmode.sources.sides import sides_of
from mixedmode.sources.source import OpenSource
from mixedmode.spark.folder import SparkFolder

__all__ = ["SourcesRead"]


@dataclass(frozen=True, slots=True)
class SourcesRead:
    """The sources by name, in the order of their lines in an entry of Spark's offset log. Each side has a line.

    has_clock: the query also reads the clock, whose line is the last one (sources/heartbeat.py).
    """

    by_name: Mapping[str, OpenSource]
    has_clock: bool

    @classmethod
    def of(cls, sources: Mapping[str, OpenSource], names: Sequence[str], *, has_clock: bool) -> Self:
        """Return those of the opened sources that a job reads.  names: of them, in the order of the query."""
        return cls({name: sources[name] for name in names if name in sources}, has_clock)

    @property
    def sides(self) -> list[tuple[str, int, OpenSource]]:
        """Return (name of the source, number of the side, the side) of each side."""
        return [(name, *side) for name, source in self.by_name.items() for side in enumerate(sides_of(source))]

    def lines(self, entry: str) -> Mapping[str, tuple[str, ...]]:
        """Return {source: a line of each side} of an entry; () for each source if the entry is ""."""
        return lines_by_source(entry, self._counts(), has_clock=self.has_clock)

    def line(self, entry: str, name: str, number: int) -> str:
        """Return the line of a side of a source; "" if the entry is ""."""
        lines = self.lines(entry)[name]
        return lines[number] if lines else ""

    def numbers(self, line_sources: Sequence[int]) -> Mapping[str, tuple[int, ...]]:
        """Return {source: the number that Spark has for each side}.  line_sources: the number of each line."""
        return shares_of_sources(line_sources, self._counts(), has_clock=self.has_clock)

    def ranges(
        self, name: str, number: int, folder: SparkFolder, line_sources: Sequence[int], *, before: str, now: str
    ) -> OffsetRanges | None:
        """Return the ranges that an epoch reads of a side of a source; None if the epoch has no entry for it.

        before, now: entries of Spark's offset log where the epoch begins and ends; before: "" for the first epoch.
        line_sources: the number of the source of each of their lines.
        """
        end = parse_offsets(self.line(now, name, number))
        return None if end is None else ranges_between(self._begin(name, number, folder, line_sources, before), end)

    def _begin(self, name: str, number: int, folder: SparkFolder, line_sources: Sequence[int], before: str) -> Offsets:
        begin = parse_offsets(self.line(before, name, number))
        if begin is None:
            begin = parse_initial_offsets(folder.first_source_entry(self.numbers(line_sources)[name][number]) or b"")
        assert begin is not None, "Spark notes where a source begins before its first epoch"
        return begin

    def _counts(self) -> dict[str, int]:
        return {name: len(sides_of(source)) for name, source in self.by_name.items()}
