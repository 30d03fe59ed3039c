"""The interface of sources that can read a range again, to find the records that they could not decode."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql import DataFrame

from mixedmode.sources.kafka_offsets import OffsetRanges

__all__ = ["FILE_DEAD_LETTERS", "KAFKA_DEAD_LETTERS", "HasDeadLetters", "ReadsFilesAgain", "ReadsOffsetsAgain"]

#: columns of the output of a Kafka source; `reason` follows the words "the record cannot be decoded, because"
KAFKA_DEAD_LETTERS = (
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", "UTC")),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("reason", pa.string()),
)
#: columns of the output of a file source: the file's URL, the number of the line from 1, and its text
FILE_DEAD_LETTERS = (
    pa.field("file", pa.string()),
    pa.field("line", pa.int64()),
    pa.field("record", pa.string()),
    pa.field("reason", pa.string()),
)


@runtime_checkable
class HasDeadLetters(Protocol):
    """A source whose records that cannot be decoded may have an output."""

    @property
    @abstractmethod
    def dead_letter_fields(self) -> tuple[pa.Field, ...]:
        """Return the columns of the output; none if there is no output, so such a record stops the job."""


@runtime_checkable
class ReadsOffsetsAgain(HasDeadLetters, Protocol):
    """A source of records with offsets."""

    @abstractmethod
    def undecodable(self, ranges: OffsetRanges) -> DataFrame:
        """Return the records of a range that cannot be decoded, with the columns of KAFKA_DEAD_LETTERS."""

    @abstractmethod
    def batch_ranges(self) -> OffsetRanges:
        """Return the ranges that `batch` reads."""


@runtime_checkable
class ReadsFilesAgain(HasDeadLetters, Protocol):
    """A source of files of lines."""

    @abstractmethod
    def undecodable_lines(self, urls: Sequence[str]) -> DataFrame | None:
        """Return the lines of files that are no records, with the columns of FILE_DEAD_LETTERS; None if all are."""

    @abstractmethod
    def batch_files(self) -> Sequence[str]:
        """Return the URLs of the files that `batch` has read."""
