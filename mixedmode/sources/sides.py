"""The sides of a source: the sources that it consists of. A source without sides is its own only side."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame
from typing_extensions import override

from mixedmode.sources.source import Admission, OpenSource

__all__ = ["HasSides", "UnitesSides", "batches_of_sides", "sides_of", "streams_of_sides", "united"]


@runtime_checkable
class HasSides(Protocol):
    """A source that consists of other sources."""

    @property
    @abstractmethod
    def sides_in_log(self) -> tuple[OpenSource, ...]:
        """Return the sides, in the order of their lines in Spark's log."""


@runtime_checkable
class UnitesSides(HasSides, OpenSource, Protocol):
    """A source whose sides can be read apart, and whose records are made of theirs."""

    @override
    def batch(self) -> DataFrame:
        return self.united(self.batch_sides())

    @override
    def stream(self, admission: Admission) -> DataFrame:
        return self.united(self.stream_sides(admission))

    @abstractmethod
    def batch_sides(self) -> tuple[DataFrame, ...]:
        """Return everything that exists now of each side."""

    @abstractmethod
    def stream_sides(self, admission: Admission) -> tuple[DataFrame, ...]:
        """Return the records of each side; see `OpenSource.stream`."""

    @abstractmethod
    def united(self, sides: Sequence[DataFrame]) -> DataFrame:
        """Return the records of the source, made of those of its sides."""


def sides_of(source: OpenSource) -> tuple[OpenSource, ...]:
    """Return the sides of a source, in the order of their lines in Spark's log."""
    return source.sides_in_log if isinstance(source, HasSides) else (source,)


def batches_of_sides(source: OpenSource) -> tuple[DataFrame, ...]:
    """Return everything that exists now of each side."""
    return source.batch_sides() if isinstance(source, UnitesSides) else (source.batch(),)


def streams_of_sides(source: OpenSource, admission: Admission) -> tuple[DataFrame, ...]:
    """Return the records of each side; see `OpenSource.stream`."""
    return source.stream_sides(admission) if isinstance(source, UnitesSides) else (source.stream(admission),)


def united(source: OpenSource, sides: Sequence[DataFrame]) -> DataFrame:
    """Return the records of a source, made of those of its sides."""
    return source.united(sides) if isinstance(source, UnitesSides) else sides[0]
