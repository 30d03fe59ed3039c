"""Where rows go: what every sink has in common, and the console. Each other kind of sink has a module of its own."""

from typing import Literal

from pydantic import Field

from mixedmode.config.fields import Lines, Section


class SinkSpec(Section):
    """Where the result goes, or what steps give beside it. The base of every kind."""

    @property
    def place(self) -> str:
        """What it is and where, for a person: `parquet run/out`. Without secrets; one place, one text."""
        raise NotImplementedError

    @property
    def folder(self) -> str | None:
        """The folder that it has to itself, if it is one."""
        return None


class WithSchema(Section):
    """What a side output has beside what its kind of sink has."""

    schema_ddl: Lines = Field(description="columns as Spark DDL, such as customer string, at timestamp")


class ConsoleSinkSpec(SinkSpec):
    """The terminal."""

    format: Literal["console"] = Field(description="console")

    @property
    def place(self) -> str:
        """See SinkSpec."""
        return "console standard output"


class ConsoleSideOutputSpec(WithSchema, ConsoleSinkSpec):
    """The terminal, for the rows of one tag."""
