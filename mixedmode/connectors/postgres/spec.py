"""Settings of tables in PostgreSQL databases: sinks that keep one up to date, and dimensions."""

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field
from typing_extensions import override

from mixedmode.config.document import Path
from mixedmode.config.fields import Columns, Flag, Text
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.sources import SourceSpec
from mixedmode.secrets import is_variable

_URL = "postgresql://user:${env:NAME}@host:5432/database, with any option of libpq behind ?"
_SCHEMES = ("postgresql://", "postgres://")
_NAME_BYTES_MAX = 63  # the server truncates longer names, and only issues a notice
CUT_OFF = f"is longer than the {_NAME_BYTES_MAX} bytes of a name in PostgreSQL, and the rest would be cut off"
_CREATE = (
    "true: the table, its primary key and the bookkeeping table `_mixedmode` are created where they are missing; "
    "false: they have to be there"
)


def is_cut_off(name: str) -> bool:
    """Return whether the server would truncate a name."""
    return len(name.encode()) > _NAME_BYTES_MAX


class PostgresSinkSpec(SinkSpec):
    """A sink that writes a table in a PostgreSQL database."""

    format: Literal["postgres"] = Field(description="postgres")
    url: Text = Field(description=_URL)
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
        yield from _url_findings(self.url)
        for setting, name in (("table", self.table), ("table_schema", self.table_schema)):
            if is_cut_off(name):
                yield (setting,), f" {CUT_OFF}. Write a shorter one. found={name}"


class PostgresTableSpec(SourceSpec):
    """A table of a PostgreSQL database that sql joins as a dimension. It is no source of records."""

    may_be = frozenset()
    dimension_settings = frozenset({"url", "table", "table_schema", "columns", "replay"})
    is_dimension_only = True

    format: Literal["postgres"] = Field(description="postgres")
    url: Text = Field(description=_URL)
    table: Text = Field(description="the table or view")
    table_schema: Text = Field(default="public", description="the schema of the database in which the table is")
    columns: Columns = Field(default=(), description="the columns to read; not given: all of the table")
    replay: Literal["latest"] | None = Field(
        default=None,
        description="latest: an epoch that is repeated, and a replay, read the rows that the table has then",
    )

    @property
    @override
    def place(self) -> str:
        return f"postgres {_server_of(self.url)} {self.table_schema}.{self.table}"

    @override
    def dimension_findings(self) -> Iterator[tuple[Path, str]]:
        if self.replay is None:
            text = (
                " is missing. PostgreSQL keeps no older rows of a table: each epoch reads the rows that the table has "
                "when the epoch begins, and an epoch that is repeated, or a replay of the input, cannot read them "
                "again; it is joined with other rows if the table has changed. Write replay: latest if that will do. "
                "If not, keep the table in Delta Lake or Iceberg, or read its changes as a source with event time and "
                "join as-of."
            )
            yield ("replay",), text

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from _url_findings(self.url)
        yield from super()._findings()


def _url_findings(url: str) -> Iterator[tuple[Path, str]]:
    if is_variable(url):
        return
    if not url.startswith(_SCHEMES):
        # the value is not shown: whatever it is, it may hold a password
        yield ("url",), " is not one of PostgreSQL's. Write postgresql://user:${env:NAME}@host:5432/database."
    elif _server_of(url).endswith("/"):
        text = " names no database. Put it behind the host: postgresql://user:${env:NAME}@host:5432/database."
        yield ("url",), text


def _server_of(url: str) -> str:
    """Return `host:port/database` of a URL."""
    if is_variable(url):
        return url
    authority, _, rest = url.partition("://")[2].partition("/")
    host = authority.rpartition("@")[2] or "localhost"
    has_port = ":" in host.rpartition("]")[2]
    return f"{host}{'' if has_port else ':5432'}/{rest.partition('?')[0]}"
