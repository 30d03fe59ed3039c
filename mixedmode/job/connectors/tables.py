"""Tables that a job keeps up to date, in Python."""

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
    """Calls of `Sink` for tables in databases."""

    @staticmethod
    def postgres(
        url: str, table: str, *, table_schema: str | None = None, create: bool | None = None
    ) -> PostgresSinkSpec:
        """A table in a PostgreSQL database; write a password in the URL as `${env:NAME}`."""
        values: Settings = {("url",): url, ("table",): table, ("table-schema",): table_schema, ("create",): create}
        return checked(PostgresSinkSpec, {"format": "postgres", **nested(values)}, place="Sink.postgres")

    @staticmethod
    def sqlite(path: FileName, table: str, *, create: bool | None = None) -> SqliteSinkSpec:
        """A table in a SQLite file."""
        values: Settings = {("path",): path, ("table",): table, ("create",): create}
        return checked(SqliteSinkSpec, {"format": "sqlite", **nested(values)}, place="Sink.sqlite")


class TableSideOutputs:
    """Calls of `SideOutput` for tables in databases."""

    @staticmethod
    def postgres(
        url: str, table: str, *, schema: str, table_schema: str | None = None, create: bool | None = None
    ) -> PostgresSideOutputSpec:
        """A table in a PostgreSQL database; `schema` are the columns, `table_schema` is where the table is."""
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
        """A table in a SQLite file."""
        values: Settings = {("path",): path, ("table",): table, ("schema",): schema, ("create",): create}
        return checked(SqliteSideOutputSpec, {"format": "sqlite", **nested(values)}, place="SideOutput.sqlite")
