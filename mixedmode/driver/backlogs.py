"""Which sources of a job say that the records of an epoch are backlog: a class of the user's own, Kafka by lag.

The one idea: a source is asked with two offsets, where the epoch begins and where it ends. Both stand in Spark's log
before the epoch runs, so a repeat of the epoch gets the same answer.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from mixedmode.checkpoint.spark_log import lines_by_source
from mixedmode.sources import OpenSource

__all__ = ["SourceBacklogs", "TellsBacklog"]


@runtime_checkable
class TellsBacklog(Protocol):
    """A source that may say that it is in backlog again."""

    def is_backlog(self, before: Sequence[str], now: Sequence[str]) -> bool:
        """Return whether the records of an epoch are backlog, from the source's lines of Spark's offset log: one, or
        one per side of history and live. before: () for the first epoch.
        """


class SourceBacklogs:
    """The sources that a job reads, and how their offsets stand in Spark's log."""

    def __init__(self, sources: Mapping[str, OpenSource], sources_read: Sequence[str], *, has_clock: bool) -> None:
        """has_clock: the query also reads the clock (sources/heartbeat.py)."""
        self._sources = {name: sources[name] for name in sources_read if name in sources}
        self._lines = {name: getattr(source, "lines_in_log", 1) for name, source in self._sources.items()}
        self._has_clock = has_clock

    def of_epoch(self, before: str, now: str) -> frozenset[str]:
        """Return the sources that say so. before, now: texts of Spark's offset log, "" for before the first epoch."""
        telling = {name: source for name, source in self._sources.items() if isinstance(source, TellsBacklog)}
        if not telling:
            return frozenset()
        lines = [lines_by_source(text, self._lines, has_clock=self._has_clock) for text in (before, now)]
        return frozenset(name for name, source in telling.items() if source.is_backlog(lines[0][name], lines[1][name]))
