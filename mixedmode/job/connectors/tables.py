"""Database tables that a job keeps up to date, in Python."""

from collections.abc import Mapping
from typing import Any

from mixedmode.config.tables import (
    PostgresSideOutputSpec,
    PostgresSinkSpec,
    SqliteSideOutputSpec,
    SqliteSinkSpec,
)
from mixedmode.job.arguments import FileName, nested
from mixedmode.job.connectors.checked import checked

Settings = Mapping[tuple[str, ...], Any]


class TableSinks:
    """The methods of `Sink` for tables in databases. The table must belong to this output alone. See docs/tables.md.

    create: True creates the table, its primary key and the bookkeeping table `_mixedmode` where they are missing.
        False requires that they exist.
    """

    @staticmethod
    def postgres(
        url: str, table: str, *, table_schema: str | None = None, create: bool | None = None
    ) -> PostgresSinkSpec:
        """Return a sink that writes a table in a PostgreSQL database.

        url: `postgresql://user:${env:NAME}@host:5432/database`, where `${env:NAME}` is the variable with the password.
        table_schema: the database schema that holds the table.
        """
        values: Settings = {("url",): url, ("table",): table, ("table-schema",): table_schema, ("create",): create}
        return checked(PostgresSinkSpec, {"format": "postgres", **nested(values)}, place="Sink.postgres")

    @staticmethod
    def sqlite(path: FileName, table: str, *, create: bool | None = None) -> SqliteSinkSpec:
        """Return a sink that writes a table in a SQLite file on this machine."""
        values: Settings = {("path",): path, ("table",): table, ("create",): create}
        return checked(SqliteSinkSpec, {"format": "sqlite", **nested(values)}, place="Sink.sqlite")


class TableSideOutputs:
    """The methods of `SideOutput` for tables in databases. See TableSinks."""

    @staticmethod
    def postgres(
        url: str, table: str, *, schema: str, table_schema: str | None = None, create: bool | None = None
    ) -> PostgresSideOutputSpec:
        """Return a sink that writes a table in a PostgreSQL database.

        schema: the columns of the side output, as Spark DDL. table_schema: the database schema that holds the table.
        """
        values: Settings = {
            ("url",): url,
            ("table",): table,
            ("schema",): schema,
            ("table-schema",): table_schema,
            ("create",): create,
        }
        return checked(PostgresSideOutputSpec, {"format": "postgres", **nested(values)}, place="SideOutput.postgres")

    @staticmethod
    def sqlite(path: FileName, table: str, *, schema: str, create: bool | None = None) -> SqliteSideOutputSpec:
        """Return a sink that writes a table in a SQLite file on this machine."""
        values: Settings = {("path",): path, ("table",): table, ("schema",): schema, ("create",): create}
        return checked(SqliteSideOutputSpec, {"format": "sqlite", **nested(values)}, place="SideOutput.sqlite")
