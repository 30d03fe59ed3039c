"""The interface between the runtime and a source of any kind."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from mixedmode.errors import InvalidJobError
from mixedmode.spark.errors import REFUSALS, spark_text
from mixedmode.spark.file_lengths import FileState


@dataclass(frozen=True, slots=True)
class Admission:
    """The limits of one epoch for a source; None is no limit. A source applies those limits that it supports."""

    max_files: int | None = None
    max_bytes: int | None = None
    max_records: int | None = None


class OpenSource(Protocol):
    """One source of a job in a session."""

    schema: StructType  #: the columns of the source, the same in `batch` and `stream`

    @abstractmethod
    def batch(self) -> DataFrame:
        """Return everything that exists now."""

    @abstractmethod
    def stream(self, admission: Admission) -> DataFrame:
        """Return existing and future records, in micro-batches of at most `admission`. Without a limit, the first
        micro-batch of an availableNow query reads everything that exists when the query begins.
        """


@runtime_checkable
class ChecksBeginning(Protocol):
    """A source that may have lost the beginning of the data that a stream must read."""

    @abstractmethod
    def check_beginning(self) -> None:
        """Raise InvalidJobError if existing rows would not be read. Called before a job's first epoch."""


@runtime_checkable
class NotesBeginning(Protocol):
    """A source that can report facts about its beginning that a user should see."""

    @abstractmethod
    def notices(self) -> Iterator[str]:
        """Yield sentences, each beginning with the source's place in the job. Called before a job's first epoch."""

    @abstractmethod
    def reads_once(self, path: str) -> bool:
        """Return whether this source reads the file of this path exactly once, whatever characters are in it."""


@runtime_checkable
class ChecksFiles(Protocol):
    """A source of files that checks in them what Spark's reader would ignore, and whether they stay as they are."""

    @abstractmethod
    def check_files(self, files: Mapping[str, FileState]) -> None:
        """Raise InvalidJobError if Spark's reader would ignore a part of these files. Called before an epoch runs.

        files: {URL: its state}.
        """

    @abstractmethod
    def changed_file(self) -> str | None:
        """Return which file is changed or gone since `check_files` or `batch`, or since the last call; None if all are
        as before.
        """

    @abstractmethod
    def wrong_record(self, url: str) -> str | None:
        """Return an error's text that names the first wrong line of a file of this source; None if it finds none.

        Called after a failure, because it parses the whole file.
        """


@runtime_checkable
class ChecksReading(Protocol):
    """A source that can change while a query reads it, in a way that the query does not notice."""

    @abstractmethod
    def check_reading(self, before: str, now: str) -> None:
        """Raise InvalidJobError if the rows of an epoch are wrong. Called when its tasks have read, before its commit.

        before, now: the source's lines of Spark's offset log where the epoch begins and ends; before: "" or "-" if it
        is the first one with this source.
        """


@runtime_checkable
class ReadsRanges(Protocol):
    """A source whose stream only tells how far there is input. The rows of an epoch are read between two offsets.

    The query has no rows of its stream.
    """

    @abstractmethod
    def begin(self, folder: Path, at: str, *, is_limited: bool) -> str | None:
        """Note where the next query begins, in Spark's folder of the source. Return a fact that a user should see.

        Called before each query. at: the source's line of Spark's offset log in the newest manifest; "" before a job's
        first epoch, of which nothing is planned then. is_limited: the epochs of the backlog have limits.
        """

    @abstractmethod
    def rows_between(self, session: SparkSession, before: str, now: str) -> DataFrame:
        """Return the rows of an epoch. Raise MixedmodeError if they cannot be read any more.

        before, now: the source's lines of Spark's offset log where the epoch begins and ends; before: "" or "-" if it
        is the first one with this source.
        """


def parse_ddl(ddl: str, *, where: str) -> StructType:
    """Return columns written as Spark DDL. Raises InvalidJobError, beginning with `where`, if the DDL is invalid."""
    try:
        schema = StructType.fromDDL(ddl)
    except REFUSALS as error:
        msg = (
            f"{where}: the schema is not valid Spark DDL. Write columns as `name type, name type`. "
            f"cause={spark_text(error)}"
        )
        raise InvalidJobError(msg) from error
    if not isinstance(schema, StructType):  # a single type is DDL too
        msg = f"{where}: the schema names no columns. Write columns as `name type, name type`. schema={ddl}"
        raise InvalidJobError(msg)
    twice = _name_given_twice(schema)
    if twice is not None:
        msg = f"{where}: the schema has two columns of one name (case does not count). Rename one. column={twice}"
        raise InvalidJobError(msg)
    return schema


def _name_given_twice(kind: DataType) -> str | None:
    """Return the first column or field of a type whose name another one beside it has, None if there is none."""
    match kind:
        case StructType():
            names = [name.lower() for name in kind.names]
            twice = next((name for place, name in enumerate(kind.names) if name.lower() in names[:place]), None)
            inner = (field.dataType for field in kind.fields)
            return twice if twice is not None else next(filter(None, map(_name_given_twice, inner)), None)
        case ArrayType():
            return _name_given_twice(kind.elementType)
        case MapType():
            return _name_given_twice(kind.keyType) or _name_given_twice(kind.valueType)
        case _:
            return None
