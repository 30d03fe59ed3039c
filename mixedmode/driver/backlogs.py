"""Asks the sources of a job if the records of an epoch are backlog: a custom source decides itself, Kafka by its lag.

A source is asked with two offsets: where the epoch begins and where it ends. Both are in Spark's log before the epoch
runs, so a repeat of the epoch gets the same answer.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from mixedmode.checkpoint.spark_log import lines_by_source
from mixedmode.sources.sides import sides_of
from mixedmode.sources.source import OpenSource

__all__ = ["SourceBacklogs", "TellsBacklog"]


@runtime_checkable
class TellsBacklog(Protocol):
    """A source that may say that it is in backlog again."""

    def is_backlog(self, before: Sequence[str], now: Sequence[str]) -> bool:
        """Return whether the records of an epoch are backlog.

        before, now: the source's lines in Spark's offset log where the epoch begins and ends. A source has one line;
        a source with history and live has one line per side. before: () for the first epoch.
        """


class SourceBacklogs:
    """The sources that a job reads, and the number of lines that each has in Spark's offset log."""

    def __init__(self, sources: Mapping[str, OpenSource], sources_read: Sequence[str], *, has_clock: bool) -> None:
        """has_clock: the query also reads the clock (sources/heartbeat.py)."""
        self._sources = {name: sources[name] for name in sources_read if name in sources}
        self._lines = {name: len(sides_of(source)) for name, source in self._sources.items()}
        self._has_clock = has_clock

    def of_epoch(self, before: str, now: str) -> frozenset[str]:
        """Return the names of the sources that are in backlog in an epoch.

        before, now: entries of Spark's offset log where the epoch begins and ends; before: "" for the first epoch.
        """
        telling = {name: source for name, source in self._sources.items() if isinstance(source, TellsBacklog)}
        if not telling:
            return frozenset()
        lines = [lines_by_source(text, self._lines, has_clock=self._has_clock) for text in (before, now)]
        return frozenset(name for name, source in telling.items() if source.is_backlog(lines[0][name], lines[1][name]))
