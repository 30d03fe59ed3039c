"""Records that a source could not decode, as an output of the job: staged and committed with their epoch.

An epoch is a range of the source's offsets, or a list of files, and Spark's log has it. A second query reads the same
range and returns only the records that cannot be decoded. So the rows need not carry these records through the steps,
and a repeat of the epoch finds the same records again. Only a source whose dead letters have an output is read twice.

Invariants (tests/kafka/test_dead_letters.py, tests/sources/test_dead_lines.py):
  I1  each record of a committed epoch is either a row of the source or is in its dead letters exactly once
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.errors import InvalidJobError
from mixedmode.executor.protocol import StageSettings
from mixedmode.plan.side_outputs import dead_letter_output
from mixedmode.sources.dead_letters import HasDeadLetters, ReadsFilesAgain, ReadsOffsetsAgain
from mixedmode.sources.kafka_offsets import Offsets, lines_of, parse_initial_offsets, parse_offsets, ranges_between
from mixedmode.sources.sides import sides_of
from mixedmode.sources.source import OpenSource
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

    def __init__(self, sources: Mapping[str, OpenSource]) -> None:
        """`sources` are the sources of the job, by name; sources without a dead-letter output are ignored."""
        sides: list[tuple[str, object]] = [(name, side) for name, one in sources.items() for side in sides_of(one)]
        self._sources = [(name, side) for name, side in sides if isinstance(side, HasDeadLetters)]
        self._sources = [(name, side) for name, side in self._sources if side.dead_letter_fields]

    def stage(
        self, epoch: Epoch, settings: StageSettings, folder: SparkFolder, files: FilesOf, *, before: str, now: str
    ) -> tuple[StagedFile, ...]:
        """Stage the dead letters of an epoch, which reads `files`, and from the offsets `before` to the offsets `now`.

        Both are entries of Spark's offset log; before: "" for the first epoch.
        """
        staged: list[StagedFile] = []
        for name, source in self._sources:
            frame: DataFrame | None = None
            if isinstance(source, ReadsFilesAgain):
                frame = source.undecodable_lines([url for one, urls in files if one is source for url in urls])
            elif isinstance(source, ReadsOffsetsAgain):
                frame = _between(name, source, folder, before, now)
            if frame is not None:
                staged += _stage(name, source, frame, epoch, settings)
        return tuple(staged)

    def stage_batch(self, epoch: Epoch, settings: StageSettings) -> tuple[StagedFile, ...]:
        """Stage the dead letters of a batch run."""
        return tuple(
            file
            for name, source in self._sources
            for frame in _of_batch(source)
            for file in _stage(name, source, frame, epoch, settings)
        )


def _of_batch(source: HasDeadLetters) -> Iterator[DataFrame]:
    """Yield the frame of a batch run's dead letters, if there may be any."""
    if isinstance(source, ReadsFilesAgain):
        lines = source.undecodable_lines(source.batch_files())
        if lines is not None:
            yield lines
    elif isinstance(source, ReadsOffsetsAgain) and source.batch_ranges().end:
        yield source.undecodable(source.batch_ranges())


def _between(name: str, source: ReadsOffsetsAgain, folder: SparkFolder, before: str, now: str) -> DataFrame | None:
    """Return the dead letters between two entries of Spark's offset log; None if no record is between them."""
    end = _of(source, map(parse_offsets, lines_of(now)), name)
    if end is None:
        return None
    begin = _of(source, map(parse_offsets, lines_of(before)), name)
    if begin is None:
        begin = _of(source, map(parse_initial_offsets, folder.first_source_entries()), name)
    assert begin is not None, "Spark notes where a source begins before its first epoch"
    ranges = ranges_between(begin, end)
    return source.undecodable(ranges) if ranges.end else None


def _stage(
    name: str, source: HasDeadLetters, frame: DataFrame, epoch: Epoch, settings: StageSettings
) -> Iterator[StagedFile]:
    output = dead_letter_output(name)
    fields = source.dead_letter_fields
    task = RowsTask(settings.sinks[output], epoch, settings.generation, fields, output, has_op=False)
    for row in map_in_arrow(frame, task, _REPORT).collect():
        yield from decode_report(bytes(row[0])).outputs


def _of(source: ReadsOffsetsAgain, lines: Iterable[Offsets | None], name: str) -> Offsets | None:
    """Return the line of the source, None if it has none. Raise InvalidJobError if several lines may be its."""
    found: list[Offsets] = []
    for line in lines:
        if line is not None and source.reads(line) and line not in found:  # a source read twice has two equal lines
            found.append(line)
    if len(found) > 1:
        msg = (
            "two sources of the job read the same topics, so it cannot be told which of them could not decode a "
            "record, and nothing was committed. Read the topics by one source, or take `dead-letter` from this one. "
            f"source={name}"
        )
        raise InvalidJobError(msg)
    return found[0] if found else None
