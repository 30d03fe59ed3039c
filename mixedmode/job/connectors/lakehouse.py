"""Delta Lake and Iceberg tables as sources and sinks, in Python."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mixedmode.config.lakehouse import TableSideOutputSpec, TableSinkSpec, TableSourceSpec
from mixedmode.job.arguments import Duration, FileName, Size, SparkValue, nested
from mixedmode.job.connectors.checked import AnyConnector, checked

Start = Mapping[str, str | int]  # {"version": 7}, {"snapshot": 7}, {"timestamp": "2026-01-31 08:00:00"}
Merging = Literal["append", "merge"]


class LakehouseSources:
    """The methods of `Source` for Delta Lake and Iceberg tables.

    path: the table's folder, local or a URL. table: the table's name in a catalog. Pass exactly one of the two.
    starting: read only what was added from this version (Delta), snapshot (Iceberg) or time (UTC) on.
    options: options for the format's reader.
    max_files_per_epoch: the most files that one epoch reads when a backlog takes the streaming path.
    max_bytes_per_epoch: the same limit in bytes. max_records_per_epoch: the same limit in records.

    See Source for the other arguments, and docs/lakehouse.md.
    """

    @staticmethod
    def delta(  # noqa: PLR0913  # one argument per setting, by keyword
        path: FileName | None = None,
        *,
        table: str | None = None,
        starting: Start | None = None,
        event_time: str | None = None,
        out_of_orderness: Duration | None = None,
        idle_timeout: Duration | None = None,
        max_ahead: Duration | Literal["none"] | None = None,
        partition_column: str | None = None,
        bounded: bool | None = None,
        options: Mapping[str, SparkValue] | None = None,
        max_files_per_epoch: int | None = None,
        max_bytes_per_epoch: Size | None = None,
    ) -> TableSourceSpec:
        """Return a source of a Delta table: its rows and later ones, or only what was added from `starting` on."""
        values = {
            ("path",): path,
            ("table",): table,
            ("starting",): starting,
            ("event-time",): event_time,
            ("watermark", "out-of-orderness"): out_of_orderness,
            ("watermark", "idle-timeout"): idle_timeout,
            ("watermark", "max-ahead"): max_ahead,
            ("watermark", "partition-column"): partition_column,
            ("bounded",): bounded,
            ("options",): options,
            ("max-files-per-epoch",): max_files_per_epoch,
            ("max-bytes-per-epoch",): max_bytes_per_epoch,
        }
        return _table(TableSourceSpec, "delta", values, place="Source.delta")

    @staticmethod
    def iceberg(  # noqa: PLR0913  # one argument per setting, by keyword
        path: FileName | None = None,
        *,
        table: str | None = None,
        starting: Start | None = None,
        event_time: str | None = None,
        out_of_orderness: Duration | None = None,
        idle_timeout: Duration | None = None,
        max_ahead: Duration | Literal["none"] | None = None,
        partition_column: str | None = None,
        bounded: bool | None = None,
        options: Mapping[str, SparkValue] | None = None,
        max_files_per_epoch: int | None = None,
        max_records_per_epoch: int | None = None,
    ) -> TableSourceSpec:
        """Return a source of an Iceberg table: its rows and later ones, or only what was added from `starting` on."""
        values = {
            ("path",): path,
            ("table",): table,
            ("starting",): starting,
            ("event-time",): event_time,
            ("watermark", "out-of-orderness"): out_of_orderness,
            ("watermark", "idle-timeout"): idle_timeout,
            ("watermark", "max-ahead"): max_ahead,
            ("watermark", "partition-column"): partition_column,
            ("bounded",): bounded,
            ("options",): options,
            ("max-files-per-epoch",): max_files_per_epoch,
            ("max-records-per-epoch",): max_records_per_epoch,
        }
        return _table(TableSourceSpec, "iceberg", values, place="Source.iceberg")


class LakehouseSinks:
    """The methods of `Sink` for Delta Lake and Iceberg tables.

    path: the table's folder, local or a URL. table: the table's name in a catalog. Pass exactly one of the two.
    mode: `merge` keeps one row per key, `append` keeps every row.
    partition_by: columns that partition a table which the job creates.

    See docs/lakehouse.md.
    """

    @staticmethod
    def delta(
        path: FileName | None = None,
        *,
        table: str | None = None,
        mode: Merging | None = None,
        partition_by: Sequence[str] = (),
    ) -> TableSinkSpec:
        """Return a sink that writes a Delta table.

        `mode` is by default merge if the output has key columns, else append.
        """
        return _table(TableSinkSpec, "delta", _sink(path, table, mode, partition_by), place="Sink.delta")

    @staticmethod
    def iceberg(
        path: FileName | None = None,
        *,
        table: str | None = None,
        mode: Merging | None = None,
        partition_by: Sequence[str] = (),
    ) -> TableSinkSpec:
        """Return a sink that writes an Iceberg table.

        `mode` is by default merge if the output has key columns, else append.
        """
        return _table(TableSinkSpec, "iceberg", _sink(path, table, mode, partition_by), place="Sink.iceberg")


class LakehouseSideOutputs:
    """The methods of `SideOutput` for Delta Lake and Iceberg tables. See LakehouseSinks for the arguments."""

    @staticmethod
    def delta(
        path: FileName | None = None, *, schema: str, table: str | None = None, partition_by: Sequence[str] = ()
    ) -> TableSideOutputSpec:
        """Return a sink that writes a Delta table."""
        values = {**_sink(path, table, None, partition_by), ("schema",): schema}
        return _table(TableSideOutputSpec, "delta", values, place="SideOutput.delta")

    @staticmethod
    def iceberg(
        path: FileName | None = None, *, schema: str, table: str | None = None, partition_by: Sequence[str] = ()
    ) -> TableSideOutputSpec:
        """Return a sink that writes an Iceberg table."""
        values = {**_sink(path, table, None, partition_by), ("schema",): schema}
        return _table(TableSideOutputSpec, "iceberg", values, place="SideOutput.iceberg")


def _sink(
    path: FileName | None, table: str | None, mode: Merging | None, partition_by: Sequence[str]
) -> dict[tuple[str, ...], Any]:
    columns = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    return {("path",): path, ("table",): table, ("mode",): mode, ("partition-by",): columns or None}


def _table(
    model: type[AnyConnector], table_format: str, values: Mapping[tuple[str, ...], Any], *, place: str
) -> AnyConnector:
    return checked(model, {"format": table_format, **nested(values)}, place=place)
