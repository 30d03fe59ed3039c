"""Settings of sinks that keep a table up to date in a PostgreSQL database."""

import re
from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field
from typing_extensions import override

from mixedmode.config.document import Path
from mixedmode.config.fields import Flag, Text
from mixedmode.config.sinks import SinkSpec

_ONLY_A_VARIABLE = re.compile(r"\$\{env:[^}]*\}")
_SCHEMES = ("postgresql://", "postgres://")
_CREATE = (
    "true: the table, its primary key and the bookkeeping table `_mixedmode` are created where they are missing; "
    "false: they have to be there"
)


class PostgresSinkSpec(SinkSpec):
    """A sink that writes a table in a PostgreSQL database."""

    format: Literal["postgres"] = Field(description="postgres")
    url: Text = Field(description="postgresql://user:${env:NAME}@host:5432/database, with any option of libpq behind ?")
    table: Text = Field(description="the table, which is this output's alone")
    table_schema: Text = Field(default="public", description="the schema of the database in which the table is")
    create: Flag = Field(default=True, description=_CREATE)

    @property
    @override
    def place(self) -> str:
        """Return host, port, database and table, without user, password and options."""
        return f"postgres {_server_of(self.url)} {self.table_schema}.{self.table}"

    @override
    def renamed(self, suffix: str) -> Self:
        return self.model_copy(update={"table": f"{self.table}{suffix}"})

    def _findings(self) -> Iterator[tuple[Path, str]]:
        if _ONLY_A_VARIABLE.fullmatch(self.url):
            return
        if not self.url.startswith(_SCHEMES):
            # the value is not shown: whatever it is, it may hold a password
            yield ("url",), " is not one of PostgreSQL's. Write postgresql://user:${env:NAME}@host:5432/database."
        elif _server_of(self.url).endswith("/"):
            text = " names no database. Put it behind the host: postgresql://user:${env:NAME}@host:5432/database."
            yield ("url",), text


def _server_of(url: str) -> str:
    """Return `host:port/database` of a URL."""
    if _ONLY_A_VARIABLE.fullmatch(url):
        return url
    authority, _, rest = url.partition("://")[2].partition("/")
    host = authority.rpartition("@")[2] or "localhost"
    has_port = ":" in host.rpartition("]")[2]
    return f"{host}{'' if has_port else ':5432'}/{rest.partition('?')[0]}"
