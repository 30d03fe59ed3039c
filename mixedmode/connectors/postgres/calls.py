"""Tables in PostgreSQL databases as sinks and dimensions, in Python."""

from collections.abc import Sequence
from typing import Literal, TypedDict, Unpack

from mixedmode.connectors.calls import checked
from mixedmode.connectors.postgres.kind import KIND
from mixedmode.connectors.postgres.spec import PostgresSinkSpec, PostgresTableSpec


class PostgresSinkArguments(TypedDict, total=False):
    """Arguments of sinks of PostgreSQL tables. docs/tables.md is the guide.

    table_schema: the database schema that holds the table.
    create: True creates the table, its primary key and the bookkeeping table `_mixedmode` where they are missing.
        False requires that they exist.
    """

    table_schema: str
    create: bool


class PostgresTableArguments(TypedDict, total=False):
    """Arguments of PostgreSQL tables as dimensions. docs/dimensions.md is the guide.

    table_schema: the database schema that holds the table.
    columns: the columns to read; by default all.
    replay: `latest`, which is required, as PostgreSQL keeps no older rows: an epoch that is repeated, and a replay,
        read the rows that the table has then.
    """

    table_schema: str
    columns: str | Sequence[str]
    replay: Literal["latest"]


class PostgresSources:
    """The methods of `Source` for PostgreSQL."""

    @staticmethod
    def postgres(url: str, table: str, **settings: Unpack[PostgresTableArguments]) -> PostgresTableSpec:
        """Return a table for `Job.dimension`. It cannot be a source of records. See PostgresSinks for url and table."""
        given = {"format": "postgres", "url": url, "table": table}
        return checked(PostgresTableSpec, KIND, given, settings, call="Source.postgres", takes=PostgresTableArguments)


class PostgresSinks:
    """The methods of `Sink` for PostgreSQL.

    url: `postgresql://user:${env:NAME}@host:5432/database`, where `${env:NAME}` is the variable with the password.
    table: the table, which must belong to this output alone.
    """

    @staticmethod
    def postgres(url: str, table: str, **settings: Unpack[PostgresSinkArguments]) -> PostgresSinkSpec:
        """Return a sink that writes a table in a PostgreSQL database."""
        given = {"format": "postgres", "url": url, "table": table}
        return checked(PostgresSinkSpec, KIND, given, settings, call="Sink.postgres", takes=PostgresSinkArguments)
