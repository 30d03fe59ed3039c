"""What the runtime asks of a source, whatever its kind."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from mixedmode.errors import InvalidJobError
from mixedmode.spark.errors import spark_text


@dataclass(frozen=True, slots=True)
class Admission:
    """How much of a source one epoch may take; None is no limit. A source heeds the limit that it can."""

    max_files: int | None = None
    max_bytes: int | None = None
    max_records: int | None = None


class OpenSource(Protocol):
    """One source of a job in a session."""

    @property
    def schema(self) -> StructType:
        """Its columns, the same in `batch` and `stream`."""

    def batch(self) -> DataFrame:
        """Everything that is there now."""

    def stream(self, admission: Admission) -> DataFrame:
        """What is there and what comes, in micro-batches of at most `admission`. Without a limit, the first
        micro-batch of an availableNow query takes everything that is there when it begins.
        """


@runtime_checkable
class ChecksBeginning(Protocol):
    """A source that may have lost the beginning of what a stream has to read."""

    def check_beginning(self) -> None:
        """Asked before a job's first epoch. Raises InvalidJobError if rows that are there would not be read."""


@runtime_checkable
class NotesBeginning(Protocol):
    """A source that can say something about its beginning that a person should see."""

    def notices(self) -> Iterator[str]:
        """Asked before a job's first epoch: sentences, each of which begins with the source's place in the job."""

    def reads_once(self, path: str) -> bool:
        """Return whether this source reads the file of this path exactly once, whatever characters are in it."""


def parse_ddl(ddl: str, *, where: str) -> StructType:
    """Columns written as Spark DDL. Raises InvalidJobError, beginning with `where`, when they are not."""
    try:
        schema = StructType.fromDDL(ddl)
    except (ParseException, AnalysisException) as error:
        msg = (
            f"{where}: the schema is not valid Spark DDL. Write columns as `name type, name type`. "
            f"cause={spark_text(error)}"
        )
        raise InvalidJobError(msg) from error
    if not isinstance(schema, StructType):  # a single type is DDL too
        msg = f"{where}: the schema names no columns. Write columns as `name type, name type`. schema={ddl}"
        raise InvalidJobError(msg)
    return schema
