"""Asks the sources of a job if the records of an epoch are backlog: a custom source decides itself, Kafka by its lag.

A source is asked with two offsets: where the epoch begins and where it ends. Both are in Spark's log before the epoch
runs, so a repeat of the epoch gets the same answer.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from mixedmode.driver.sources_read import SourcesRead

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
    """The sources of a job that may say so."""

    def __init__(self, read: SourcesRead) -> None:
        self._read = read
        self._telling = {name: source for name, source in read.by_name.items() if isinstance(source, TellsBacklog)}

    def of_epoch(self, before: str, now: str) -> frozenset[str]:
        """Return the names of the sources that are in backlog in an epoch.

        before, now: entries of Spark's offset log where the epoch begins and ends; before: "" for the first epoch.
        """
        begins, ends = self._read.lines(before), self._read.lines(now)
        return frozenset(name for name, source in self._telling.items() if source.is_backlog(begins[name], ends[name]))
