"""Records that a source could not decode, as an output of the job: staged and committed with their epoch.

An epoch is a range of the source's offsets, or a list of files, and Spark's log has it. A second query reads the same
range and returns only the records that cannot be decoded. So the rows need not carry these records through the steps,
and a repeat of the epoch finds the same records again. Only a source whose dead letters have an output is read twice.

Invariants (tests/kafka/test_dead_letters.py, tests/sources/test_dead_lines.py):
  I1  each record of a committed epoch is either a row of the source or is in its dead letters exactly once
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.driver.sources_read import SourcesRead
from mixedmode.executor.protocol import StageSettings
from mixedmode.plan.side_outputs import dead_letter_output
from mixedmode.sources.dead_letters import HasDeadLetters, ReadsFilesAgain, ReadsOffsetsAgain
from mixedmode.spark.folder import SparkFolder
from mixedmode.spark.frames import map_in_arrow, spark_schema
from mixedmode.tasks.reports import REPORT_COLUMN, decode_report
from mixedmode.tasks.rows import RowsTask

__all__ = ["DeadLetters", "FilesOf"]

#: the files of an epoch, by the source that reads them
FilesOf = Sequence[tuple[object, Sequence[str]]]
_REPORT = spark_schema([pa.field(REPORT_COLUMN, pa.binary())])


class DeadLetters:
    """Stages the records that the sources of a job could not decode, epoch by epoch."""

    def __init__(self, read: SourcesRead) -> None:
        self._read = read
        #: (name of a source, number of a side, this side) of the sides that have dead letters
        self._sides: list[tuple[str, int, HasDeadLetters]] = [
            (name, number, side)
            for name, number, side in read.sides
            if isinstance(side, HasDeadLetters) and side.dead_letter_fields
        ]

    def stage(
        self,
        epoch: Epoch,
        settings: StageSettings,
        folder: SparkFolder,
        files: FilesOf,
        line_sources: Sequence[int],
        *,
        before: str,
        now: str,
    ) -> tuple[StagedFile, ...]:
        """Stage the dead letters of an epoch, which reads `files`, and from the offsets `before` to the offsets `now`.

        Both are entries of Spark's offset log; before: "" for the first epoch. line_sources: the number of the source
        of each of their lines.
        """
        staged: list[StagedFile] = []
        for name, number, side in self._sides:
            frame: DataFrame | None = None
            if isinstance(side, ReadsFilesAgain):
                frame = side.undecodable_lines([url for one, urls in files if one is side for url in urls])
            elif isinstance(side, ReadsOffsetsAgain):
                ranges = self._read.ranges(name, number, folder, line_sources, before=before, now=now)
                frame = side.undecodable(ranges) if ranges is not None and ranges.end else None
            if frame is not None:
                staged += _stage(name, side, frame, epoch, settings)
        return tuple(staged)

    def stage_batch(self, epoch: Epoch, settings: StageSettings) -> tuple[StagedFile, ...]:
        """Stage the dead letters of a batch run."""
        return tuple(
            file
            for name, _, side in self._sides
            for frame in _of_batch(side)
            for file in _stage(name, side, frame, epoch, settings)
        )


def _of_batch(source: HasDeadLetters) -> Iterator[DataFrame]:
    """Yield the frame of a batch run's dead letters, if there may be any."""
    if isinstance(source, ReadsFilesAgain):
        lines = source.undecodable_lines(source.batch_files())
        if lines is not None:
            yield lines
    elif isinstance(source, ReadsOffsetsAgain) and source.batch_ranges().end:
        yield source.undecodable(source.batch_ranges())


def _stage(
    name: str, source: HasDeadLetters, frame: DataFrame, epoch: Epoch, settings: StageSettings
) -> Iterator[StagedFile]:
    output = dead_letter_output(name)
    fields = source.dead_letter_fields
    task = RowsTask(settings.sinks[output], epoch, settings.generation, fields, output, has_op=False)
    for row in map_in_arrow(frame, task, _REPORT).collect():
        yield from decode_report(bytes(row[0])).outputs
