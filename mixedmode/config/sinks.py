"""The common base of all sinks, and the console. Each other kind of sink has a module of its own."""

from abc import abstractmethod
from typing import Literal

from pydantic import Field
from typing_extensions import override

from mixedmode.config.fields import Lines, Section, TableName


class SinkSpec(Section):
    """A sink for the result, or for another output of a step. The base of every kind."""

    from_: TableName | None = Field(
        default=None, description="in `outputs`: the step whose rows it gets; not given: the last step"
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


class WithSchema(Section):
    """The settings of a side output in addition to those of its kind of sink."""

    schema_ddl: Lines = Field(description="columns as Spark DDL, such as customer string, at timestamp")


class ConsoleSinkSpec(SinkSpec):
    """A sink that writes to the terminal."""

    format: Literal["console"] = Field(description="console")

    @property
    @override
    def place(self) -> str:
        return "console standard output"


class ConsoleSideOutputSpec(WithSchema, ConsoleSinkSpec):
    """A sink that writes the rows of one tag to the terminal."""
