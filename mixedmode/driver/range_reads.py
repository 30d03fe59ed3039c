"""Reads the rows of an epoch for the sources whose stream only tells how far there is input (sources/source.py).

The query of a job has no rows of these sources. So an epoch unites the rows of its micro-batch with theirs.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from mixedmode.checkpoint.types import Manifest
from mixedmode.driver.sources_read import SourcesRead
from mixedmode.executor.input_frames import input_frame
from mixedmode.plan.job_plan import JobPlan
from mixedmode.sources.sides import sides_of, united
from mixedmode.sources.source import ReadsRanges
from mixedmode.spark.folder import SparkFolder

__all__ = ["RangeReads"]


class RangeReads:
    """The sources of a job, and sides of them, of which epochs read ranges."""

    def __init__(self, read: SourcesRead, plan: JobPlan) -> None:
        self._read = read
        self._plan = plan
        self.is_needed = any(isinstance(side, ReadsRanges) for _, _, side in read.sides)

    def begin(
        self, folder: SparkFolder, line_sources: Sequence[int], latest: Manifest | None, *, is_limited: bool
    ) -> list[str]:
        """Note where the next query begins, before it starts. Return facts that a user should see.

        line_sources: for each line of Spark's offset entries, the number of its source. latest: the newest manifest.
        is_limited: the epochs of the backlog have limits.
        """
        if not self.is_needed:
            return []
        numbers, newest = self._read.numbers(line_sources), "" if latest is None else latest.offsets
        told = [
            side.begin(
                folder.source_folder(numbers[name][place]), self._read.line(newest, name, place), is_limited=is_limited
            )
            for name, place, side in self._read.sides
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
        session, line, frames = frame.sparkSession, self._read.line, {}
        for name, source in self._read.by_name.items():
            rows = [
                side.rows_between(session, line(before, name, place), line(now, name, place))
                if isinstance(side, ReadsRanges)
                else session.createDataFrame([], side.schema)
                for place, side in enumerate(sides_of(source))
            ]
            frames[name] = united(source, rows)
        return frame.unionByName(input_frame(session, self._plan, frames))
