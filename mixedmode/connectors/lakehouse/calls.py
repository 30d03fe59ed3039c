"""Delta Lake and Iceberg tables as sources and sinks, in Python."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from mixedmode.connectors.calls import FileName, Size, SourceArguments, SparkValue, checked
from mixedmode.connectors.lakehouse.kind import KIND
from mixedmode.connectors.lakehouse.spec import TableSinkSpec, TableSourceSpec


class TableSourceArguments(SourceArguments, total=False):
    """Arguments of every source of a table, with those of SourceArguments. docs/lakehouse.md is the guide.

    table: the table's name in a catalog, instead of its folder.
    starting: read only what was added from this version (Delta), snapshot (Iceberg) or time (UTC) on, such as
        `{"version": 7}`, `{"snapshot": 7}` or `{"timestamp": "2026-01-31 08:00:00"}`.
    options: options for the format's reader.
    max_files_per_epoch: the most files that one epoch reads when a backlog uses the streaming strategy.
    """

    table: str
    starting: Mapping[str, str | int]
    options: Mapping[str, SparkValue]
    max_files_per_epoch: int


class DeltaSourceArguments(TableSourceArguments, total=False):
    """Arguments of sources of Delta tables, with those of TableSourceArguments.

    max_bytes_per_epoch: the most bytes that one epoch reads when a backlog uses the streaming strategy.
    """

    max_bytes_per_epoch: Size


class IcebergSourceArguments(TableSourceArguments, total=False):
    """Arguments of sources of Iceberg tables, with those of TableSourceArguments.

    max_records_per_epoch: the most records that one epoch reads when a backlog uses the streaming strategy.
    """

    max_records_per_epoch: int


class TableSinkArguments(TypedDict, total=False):
    """Arguments of sinks of tables. docs/lakehouse.md is the guide.

    table: the table's name in a catalog, instead of its folder.
    partition_by: columns that partition a table which the job creates.
    mode: `merge` keeps one row per key, `append` keeps every row; by default merge if the output has key columns.
    """

    table: str
    partition_by: str | Sequence[str]
    mode: Literal["append", "merge"]


class LakehouseSources:
    """The methods of `Source` for Delta Lake and Iceberg tables.  path: the table's folder, local or a URL."""

    @staticmethod
    def delta(path: FileName | None = None, **settings: Unpack[DeltaSourceArguments]) -> TableSourceSpec:
        """Return a source of a Delta table: its rows and later ones, or only what was added from `starting` on."""
        return _source("delta", path, settings, DeltaSourceArguments)

    @staticmethod
    def iceberg(path: FileName | None = None, **settings: Unpack[IcebergSourceArguments]) -> TableSourceSpec:
        """Return a source of an Iceberg table: its rows and later ones, or only what was added from `starting` on."""
        return _source("iceberg", path, settings, IcebergSourceArguments)


class LakehouseSinks:
    """The methods of `Sink` for Delta Lake and Iceberg tables.  path: the table's folder, local or a URL."""

    @staticmethod
    def delta(path: FileName | None = None, **settings: Unpack[TableSinkArguments]) -> TableSinkSpec:
        """Return a sink that writes a Delta table."""
        return _sink("delta", path, settings)

    @staticmethod
    def iceberg(path: FileName | None = None, **settings: Unpack[TableSinkArguments]) -> TableSinkSpec:
        """Return a sink that writes an Iceberg table."""
        return _sink("iceberg", path, settings)


def _source(table_format: str, path: FileName | None, settings: Mapping[str, Any], takes: Any) -> TableSourceSpec:
    given = {"format": table_format, "path": path}
    return checked(TableSourceSpec, KIND, given, settings, call=f"Source.{table_format}", takes=takes)


def _sink(table_format: str, path: FileName | None, settings: Mapping[str, Any]) -> TableSinkSpec:
    given = {"format": table_format, "path": path}
    return checked(TableSinkSpec, KIND, given, settings, call=f"Sink.{table_format}", takes=TableSinkArguments)
