"""The common base of all sinks. Each kind of sink has a module of its own, in mixedmode/connectors."""

from abc import abstractmethod
from typing import Self

from pydantic import Field

from mixedmode.config.fields import Columns, Lines, Section, TableName
from mixedmode.config.used_places import UsedPlace


class SinkSpec(Section):
    """A sink for the result, or for another output of a step. The base of every kind."""

    from_: TableName | None = Field(
        default=None, description="in `outputs`: the step whose rows it gets; not given: the last step"
    )
    key: Columns = Field(
        default=(),
        description="the columns by which an output finds a row again; not given: the key of the rows, or none",
    )

    @property
    @abstractmethod
    def place(self) -> str:
        """The kind and place of the sink, for a person: `parquet run/out`.

        It has no secrets; one place always has one text.
        """

    @property
    def folder(self) -> str | None:
        """The folder that belongs to this sink alone; None if the sink is not a folder."""
        return None

    @property
    def used_places(self) -> tuple[UsedPlace, ...]:
        """The places that it writes. By default its folder, or what `place` names. None: several sinks may share it."""
        if self.folder is not None:
            return (UsedPlace(("path",), self.folder, self.folder),)
        return (UsedPlace((), self.place, names=frozenset({self.place})),)

    def renamed(self, suffix: str) -> Self | None:  # noqa: ARG002
        """Return the same sink, whose folder, table or topic has a suffix of letters, digits and `_`.

        By default None: the kind does not say what its place is.
        """
        return None


def with_suffix(place: str, suffix: str) -> str:
    """Return a folder or URL with a suffix.

    >>> with_suffix("s3://jobs/orders/", "_2")
    's3://jobs/orders_2'
    """
    return f"{place.rstrip('/')}{suffix}"


class SideOutputSpec(SinkSpec):
    """A sink for the rows of one tag. The registry adds these settings to those of each kind of sink."""

    schema_ddl: Lines = Field(description="columns as Spark DDL, such as customer string, at timestamp")
