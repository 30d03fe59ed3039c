"""Settings of sinks that keep a table up to date in a SQLite file."""

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field
from typing_extensions import override

from mixedmode.config.document import Path
from mixedmode.config.fields import Flag, Text
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.used_places import UsedPlace

_CREATE = (
    "true: the table, its primary key and the bookkeeping table `_mixedmode` are created where they are missing; "
    "false: they have to be there"
)


class SqliteSinkSpec(SinkSpec):
    """A sink that writes a table in a SQLite file on this machine."""

    format: Literal["sqlite"] = Field(description="sqlite")
    path: Text = Field(description="the database, a file on a disk of this machine")
    table: Text = Field(description="the table, which is this output's alone")
    create: Flag = Field(default=True, description=_CREATE)

    @property
    @override
    def place(self) -> str:
        return f"sqlite {self.path} {self.table}"

    @property
    @override
    def used_places(self) -> tuple[UsedPlace, ...]:
        return (UsedPlace(("path",), self.path, self.path, shared=self.table.lower()),)

    @override
    def renamed(self, suffix: str) -> Self:
        return self.model_copy(update={"table": f"{self.table}{suffix}"})

    def _findings(self) -> Iterator[tuple[Path, str]]:
        if "://" in self.path and not self.path.startswith("file:"):
            text = f" is a URL, and SQLite writes to a local disk only. Name a file on this machine. found={self.path}"
            yield ("path",), text
