"""Sources that check what was read of them, with the offsets of Spark's log."""

from typing import Any

from mixedmode.driver.reading_checks import ReadingChecks
from mixedmode.driver.sources_read import SourcesRead
from mixedmode.sources.sides import HasSides
from mixedmode.sources.source import ChecksReading


class Plain:
    """A source that notices every change itself."""


class Checked(ChecksReading):
    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def check_reading(self, before: str, now: str) -> None:
        self.asked.append((before, now))


class Two(HasSides):
    def __init__(self, *sides: Any) -> None:
        self._sides = sides

    @property
    def sides_in_log(self) -> tuple[Any, ...]:
        return self._sides


def entry(*lines: str) -> str:
    return "\n".join(["v1", "{}", *lines])


def test_each_source_and_side_gets_its_own_lines_of_sparks_log() -> None:
    table, side = Checked(), Checked()
    sources: dict[str, Any] = {"p": Plain(), "t": table, "h": Two(Plain(), side), "unread": Checked()}
    checks = ReadingChecks(SourcesRead.of(sources, ["p", "t", "h"], has_clock=True))
    checks.check("", entry("p1", "t1", "-", "s1", "99"))
    checks.check(entry("p1", "t1", "-", "s1", "99"), entry("x", "p1", "t2", "-", "s2", "100"))
    checks.check(entry("p1", "t2", "-", "s2", "100"), "")  # the last epoch reads nothing
    assert table.asked == [("", "t1"), ("t1", "t2")]
    assert side.asked == [("", "s1"), ("s1", "s2")]
    assert sources["unread"].asked == []
