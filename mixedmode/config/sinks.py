"""Where rows go: the result of the job, and what its steps give beside it."""

from typing import Literal, Self

from pydantic import Field, model_validator

from mixedmode.config.fields import Section, Text, refusal


class SinkSpec(Section):
    """Where the result goes."""

    format: Literal["parquet", "json", "console"] = Field(description="parquet, json or console")
    path: Text | None = Field(default=None, description="the directory or URL to write files in")

    @model_validator(mode="after")
    def _files_have_a_path(self) -> Self:
        if self.format == "console" and self.path is not None:
            raise refusal((("path",), " has no meaning for the console. Remove it, or choose a format of files."))
        if self.format != "console" and self.path is None:
            raise refusal((("path",), f" is missing: files need a directory. Add it. format={self.format}"))
        return self


class SideOutputSpec(SinkSpec):
    """Where the rows of one tag go, and what columns they have."""

    schema_ddl: Text = Field(description="columns as Spark DDL, such as customer string, at timestamp")
