"""Asks the sources that can tell, before each commit, whether what the epoch has read of them is right."""

from mixedmode.driver.sources_read import SourcesRead
from mixedmode.sources.source import ChecksReading

__all__ = ["ReadingChecks"]


class ReadingChecks:
    """The sources of a job, and sides of them, that check what was read."""

    def __init__(self, read: SourcesRead) -> None:
        self._read = read
        self._asked = [(name, number, side) for name, number, side in read.sides if isinstance(side, ChecksReading)]

    def check(self, before: str, now: str) -> None:
        """Raise InvalidJobError if rows of an epoch are wrong. The tasks have read them.

        before, now: entries of Spark's offset log where the epoch begins and ends; "": the first epoch begins, the
        last one ends.
        """
        for name, number, side in self._asked:
            end = self._read.line(now, name, number)
            if end:
                side.check_reading(self._read.line(before, name, number), end)
