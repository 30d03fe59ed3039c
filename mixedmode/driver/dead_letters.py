"""Records that a source could not decode, as an output of the job: staged and committed with their epoch.

An epoch is a range of the source's offsets, and Spark's log has that range. A second query reads the same range and
returns only the records that cannot be decoded. So the rows need not carry these records through the steps, and a
repeat of the epoch finds the same records again. Only a source whose dead letters have an output is read twice.

Invariants (tests/kafka/test_dead_letters.py):
  I1  each record of a committed epoch is either a row of the source or is in its dead letters exactly once
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql import DataFrame

from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.errors import InvalidJobError
from mixedmode.executor.protocol import StageSettings
from mixedmode.plan.stages import dead_letter_output
from mixedmode.sources.kafka_offsets import (
    OffsetRanges,
    Offsets,
    lines_of,
    parse_initial_offsets,
    parse_offsets,
    ranges_between,
)
from mixedmode.sources.source import OpenSource
from mixedmode.spark.folder import SparkFolder
from mixedmode.spark.frames import spark_schema
from mixedmode.tasks.reports import REPORT_COLUMN, decode_report
from mixedmode.tasks.rows import RowsTask

__all__ = ["DEAD_LETTER_FIELDS", "DeadLetters", "ReadsAgain"]

#: columns of the output; `reason` follows the words "the record cannot be decoded, because"
DEAD_LETTER_FIELDS = (
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", "UTC")),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("reason", pa.string()),
)
_REPORT = spark_schema([pa.field(REPORT_COLUMN, pa.binary())])


@runtime_checkable
class ReadsAgain(Protocol):
    """A source of records with offsets that can read a range again, to find the records it cannot decode."""

    @property
    def has_dead_letters(self) -> bool:
        """Return whether dead letters have an output; if not, a record that cannot be decoded stops the job."""

    def reads(self, offsets: Offsets) -> bool:
        """Return whether a line of Spark's offset log belongs to this source."""

    def undecodable(self, ranges: OffsetRanges) -> DataFrame:
        """Return the records of a range that cannot be decoded, with the columns of DEAD_LETTER_FIELDS."""

    def batch_ranges(self) -> OffsetRanges:
        """Return the ranges that `batch` reads."""


class DeadLetters:
    """Stages the records that the sources of a job could not decode, epoch by epoch."""

    def __init__(self, sources: Mapping[str, OpenSource]) -> None:
        """`sources` are the sources of the job, by name; sources without a dead-letter output are ignored."""
        self._sources = {
            name: source
            for name, source in sources.items()
            if isinstance(source, ReadsAgain) and source.has_dead_letters
        }

    def stage(
        self, epoch: Epoch, settings: StageSettings, folder: SparkFolder, *, before: str, now: str
    ) -> tuple[StagedFile, ...]:
        """Stage the dead letters of an epoch, which reads from the offsets `before` to the offsets `now`.

        Both are entries of Spark's offset log; before: "" for the first epoch.
        """
        staged: list[StagedFile] = []
        for name, source in self._sources.items():
            end = _of(source, map(parse_offsets, lines_of(now)), name)
            if end is not None:
                begin = _of(source, map(parse_offsets, lines_of(before)), name)
                if begin is None:
                    begin = _of(source, map(parse_initial_offsets, folder.first_source_entries()), name)
                assert begin is not None, "Spark notes where a source begins before its first epoch"
                staged += _stage(name, source, ranges_between(begin, end), epoch, settings)
        return tuple(staged)

    def stage_batch(self, epoch: Epoch, settings: StageSettings) -> tuple[StagedFile, ...]:
        """Stage the dead letters of a batch run."""
        found = (_stage(name, source, source.batch_ranges(), epoch, settings) for name, source in self._sources.items())
        return tuple(file for files in found for file in files)


@dataclass(frozen=True, slots=True)
class DeadLetterTask(RowsTask):
    """Writes the dead letters of one partition. Called by Spark."""

    def _rows(self, batch: pa.RecordBatch) -> pa.Table:
        """Dead letters are only inserted, so their output has no column for inserts and deletes."""
        return pa.Table.from_batches([batch]).cast(pa.schema(list(self.fields)))


def _stage(
    name: str, source: ReadsAgain, ranges: OffsetRanges, epoch: Epoch, settings: StageSettings
) -> Iterable[StagedFile]:
    if not ranges.end:
        return ()
    output = dead_letter_output(name)
    task = DeadLetterTask(settings.sinks[output], epoch, settings.generation, DEAD_LETTER_FIELDS, name, output)
    rows = source.undecodable(ranges).mapInArrow(task, _REPORT).collect()
    return [file for row in rows for file in decode_report(bytes(row[0])).outputs]


def _of(source: ReadsAgain, lines: Iterable[Offsets | None], name: str) -> Offsets | None:
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
