"""The entry of the registry for lines: settings, and the names of the code that opens them. Imports no Spark."""

from typing import Literal

from pydantic import Field
from typing_extensions import override

from mixedmode.config.fields import Text
from mixedmode.config.registry import ConnectorKind
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.sources import SourceSpec
from mixedmode.config.used_places import UsedPlace


class LinesSourceSpec(SourceSpec):
    """A source of lines."""

    format: Literal["lines"] = Field(description="lines")
    path: Text = Field(description="a file or folder of text")
    column_name: Text = Field(default="line", description="the column that has the line")

    @property
    @override
    def place(self) -> str:
        return f"lines {self.path}"

    @property
    @override
    def used_places(self) -> tuple[UsedPlace, ...]:
        return (UsedPlace(("path",), self.path, self.path),)


class LinesSinkSpec(SinkSpec):
    """A sink that writes a file of lines for each epoch."""

    format: Literal["lines"] = Field(description="lines")
    path: Text = Field(description="the folder to write in")
    separator: Text = Field(default="|", description="what stands between two values")

    @property
    @override
    def place(self) -> str:
        return f"lines {self.path}"

    @property
    @override
    def folder(self) -> str:
        return self.path


KIND = ConnectorKind(
    "lines",
    source=LinesSourceSpec,
    sink=LinesSinkSpec,
    open_source="lines_connector.code:LinesSource",
    open_sink="lines_connector.code:LinesSink",
    errors="lines_connector.errors:lines_problem",
)
