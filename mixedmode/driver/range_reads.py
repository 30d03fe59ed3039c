"""Reads the rows of an epoch for the sources whose stream only tells how far there is input (sources/source.py).

The query of a job has no rows of these sources. So an epoch unites the rows of its micro-batch with theirs.
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from mixedmode.checkpoint.spark_log import lines_by_source, shares_of_sources
from mixedmode.checkpoint.types import Manifest
from mixedmode.executor.input_frames import input_frame
from mixedmode.plan.job_plan import JobPlan
from mixedmode.sources.sides import sides_of, united
from mixedmode.sources.source import OpenSource, ReadsRanges
from mixedmode.spark.folder import SparkFolder

__all__ = ["RangeReads"]


class RangeReads:
    """The sources of a job, and sides of them, of which epochs read ranges."""

    def __init__(self, sources: Mapping[str, OpenSource], plan: JobPlan) -> None:
        """`sources`: the opened sources of the job."""
        self._plan = plan
        self._sources = {name: sources[name] for name in plan.sources_read if name in sources}
        self._sides = {name: sides_of(source) for name, source in self._sources.items()}
        self.is_needed = any(isinstance(side, ReadsRanges) for sides in self._sides.values() for side in sides)

    def begin(
        self, folder: SparkFolder, line_sources: Sequence[int], latest: Manifest | None, *, is_limited: bool
    ) -> list[str]:
        """Note where the next query begins, before it starts. Return facts that a user should see.

        line_sources: for each line of Spark's offset entries, the number of its source. latest: the newest manifest.
        is_limited: the epochs of the backlog have limits.
        """
        if not self.is_needed:
            return []
        counts = {name: len(sides) for name, sides in self._sides.items()}
        numbers = shares_of_sources(line_sources, counts, has_clock=self._plan.uses_clock)
        lines = self._lines("" if latest is None else latest.offsets)
        told = [
            side.begin(folder.source_folder(numbers[name][place]), lines[name][place], is_limited=is_limited)
            for name, sides in self._sides.items()
            for place, side in enumerate(sides)
            if isinstance(side, ReadsRanges)
        ]
        return [text for text in told if text is not None]

    def rows(self, frame: DataFrame, before: str, now: str) -> DataFrame:
        """Return the input frame of an epoch, with the rows of these sources.

        frame: that of the micro-batch. before, now: entries of Spark's offset log where the epoch begins and ends;
        before: "" for the first epoch.
        """
        if not self.is_needed:
            return frame
        session, begins, ends = frame.sparkSession, self._lines(before), self._lines(now)
        frames = {}
        for name, source in self._sources.items():
            rows = [
                side.rows_between(session, begins[name][place], ends[name][place])
                if isinstance(side, ReadsRanges)
                else session.createDataFrame([], side.schema)
                for place, side in enumerate(self._sides[name])
            ]
            frames[name] = united(source, rows)
        return frame.unionByName(input_frame(session, self._plan, frames))

    def _lines(self, entry: str) -> Mapping[str, tuple[str, ...]]:
        """Return {source: a line of each side}, "" if the entry is ""."""
        counts = {name: len(sides) for name, sides in self._sides.items()}
        if not entry:
            return {name: ("",) * count for name, count in counts.items()}
        return lines_by_source(entry, counts, has_clock=self._plan.uses_clock)
