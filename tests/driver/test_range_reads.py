"""Sources whose epochs read ranges: each one begins at its own line of Spark's log, in its own folder."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mixedmode.driver.range_reads import RangeReads
from mixedmode.driver.sources_read import SourcesRead
from mixedmode.sources.source import ReadsRanges
from tests.driver.test_reading_checks import Plain, Two, entry


class Ranges(ReadsRanges):
    def __init__(self, fact: str | None = None) -> None:
        self.begun: list[tuple[str, str, bool]] = []
        self._fact = fact

    def begin(self, folder: Path, at: str, *, is_limited: bool) -> str | None:
        self.begun.append((folder.name, at, is_limited))
        return self._fact

    def rows_between(self, session: object, before: str, now: str) -> Any:
        msg = "no epoch is read here"
        raise AssertionError(msg)


def reads(**sources: Any) -> RangeReads:
    plan: Any = None  # no frame is made here
    return RangeReads(SourcesRead(sources, has_clock=True), plan)


def test_each_source_and_side_begins_at_its_own_line() -> None:
    table, side = Ranges("a fact"), Ranges()
    ranges = reads(p=Plain(), t=table, h=Two(Plain(), side))
    folder: Any = SimpleNamespace(source_folder=lambda number: Path(f"/spark/sources/{number}"))
    lines = (2, 0, 1, 2, 3, 9)  # the first one is read twice; the clock comes last
    newest: Any = SimpleNamespace(offsets=entry("p1", "p1", "t1", "h1", "s1", "99"))
    assert ranges.begin(folder, lines, None, is_limited=True) == ["a fact"]
    ranges.begin(folder, lines, newest, is_limited=False)
    assert table.begun == [("1", "", True), ("1", "t1", False)]
    assert side.begun == [("3", "", True), ("3", "s1", False)]


def test_a_job_without_such_sources_asks_for_nothing() -> None:
    ranges = reads(p=Plain())
    folder: Any = None
    assert not ranges.is_needed
    assert ranges.begin(folder, (), None, is_limited=True) == []
    frame: Any = object()
    assert ranges.rows(frame, "", "") is frame
