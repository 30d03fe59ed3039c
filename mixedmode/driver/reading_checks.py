"""Asks the sources that can tell, before each commit, whether what the epoch has read of them is right."""

from collections.abc import Mapping, Sequence

from mixedmode.checkpoint.spark_log import lines_by_source
from mixedmode.sources.sides import sides_of
from mixedmode.sources.source import ChecksReading, OpenSource

__all__ = ["ReadingChecks"]


class ReadingChecks:
    """The sources of a job, and sides of them, that check what was read."""

    def __init__(self, sources: Mapping[str, OpenSource], sources_read: Sequence[str], *, has_clock: bool) -> None:
        """has_clock: the query also reads the clock (sources/heartbeat.py)."""
        read = {name: sources[name] for name in sources_read if name in sources}
        self._lines = {name: len(sides_of(source)) for name, source in read.items()}
        self._asked = [
            (name, number, side)
            for name, source in read.items()
            for number, side in enumerate(sides_of(source))
            if isinstance(side, ChecksReading)
        ]
        self._has_clock = has_clock

    def check(self, before: str, now: str) -> None:
        """Raise InvalidJobError if rows of an epoch are wrong. The tasks have read them.

        before, now: entries of Spark's offset log where the epoch begins and ends; "": the first epoch begins, the
        last one ends.
        """
        begins, ends = (lines_by_source(entry, self._lines, has_clock=self._has_clock) for entry in (before, now))
        for name, number, side in self._asked:
            if ends[name]:
                side.check_reading(begins[name][number] if begins[name] else "", ends[name][number])
