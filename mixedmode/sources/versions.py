"""The interface of a source that has versions, so that sql may join it as a dimension."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mixedmode.errors import InvalidJobError


def _never() -> None:
    return None


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One version of a table: exactly its rows, however often they are read.

    name: what the version is, for a person and for the manifest, such as "snapshot 7" or "2 files, 318 bytes, 0f3a".
    Two versions of one table with equal names have equal rows. changed: returns what of the version has changed since
    it was found, or is gone; None if nothing has. lost: returns why the version could not be read, if a part of it was
    removed; None if all of it exists. It is called after a failure, as it may take long.
    """

    name: str
    frame: DataFrame
    changed: Callable[[], str | None] = _never
    lost: Callable[[], str | None] = _never

    def is_of(self, session: SparkSession) -> bool:
        """Return whether the frame belongs to a session. Spark has a session of its own for each query."""
        return bool(self.frame.sparkSession._jsparkSession == session._jsparkSession)  # noqa: SLF001 - Python's differ


@runtime_checkable
class HasVersions(Protocol):
    """A source whose whole content at one moment can be read several times."""

    schema: StructType  #: the columns of the source

    @property
    def version_schema(self) -> StructType:
        """The columns of each version: those that the newest one had when it was first looked at."""
        return self.schema

    @abstractmethod
    def newest(self, session: SparkSession, before: TableVersion | None) -> TableVersion:
        """Return the newest version, to be read in a session; `before` itself if there is no newer one.

        before: an earlier result for the same session, if there is one. Raise RetryableError if the table changes too
        fast to find a version, InvalidJobError if columns are gone or have other types.
        """


def columns_changed(where: str, place: str) -> InvalidJobError:
    """Return the error for a dimension whose columns are others than when the run began."""
    msg = f"{where}: the columns of the table are others than when the run began. Start again. table={place}"
    return InvalidJobError(msg)
