"""File sources and file sinks, in Python."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mixedmode.config.file_sources import FileSourceSpec
from mixedmode.config.files import FileSideOutputSpec, FileSinkSpec
from mixedmode.config.sink_kinds import AnySink
from mixedmode.job.arguments import Duration, FileName, Size, SparkValue, nested
from mixedmode.job.connectors.checked import AnyConnector, checked


class FileSources:
    """The methods of `Source` for files.

    path: a folder, a single file or a glob, local or a URL.
    schema: the columns, as Spark DDL, such as `date timestamp, origin string`.
    options: options for Spark's reader of the format.
    schema_drift: rules for files with other columns than `schema`, such as `{"new-column": "fail"}`.
    undecodable: for a line that is no record of `schema`, `fail` stops the job, `dead-letter` writes it to a sink.
    dead_letter: the sink for these lines; only with `undecodable="dead-letter"`.
    max_files_per_epoch: the most files that one epoch reads when a backlog takes the streaming path.
    max_bytes_per_epoch: the same limit in bytes; set at most one of the two.

    See Source for the other arguments, and docs/files.md.
    """

    @staticmethod
    def parquet(  # noqa: PLR0913
        path: FileName,
        *,
        schema: str | None = None,
        event_time: str | None = None,
        out_of_orderness: Duration | None = None,
        idle_timeout: Duration | None = None,
        max_ahead: Duration | Literal["none"] | None = None,
        partition_column: str | None = None,
        bounded: bool | None = None,
        options: Mapping[str, SparkValue] | None = None,
        schema_drift: Mapping[str, str] | None = None,
        max_files_per_epoch: int | None = None,
        max_bytes_per_epoch: Size | None = None,
    ) -> FileSourceSpec:
        """Return a source of Parquet files. `schema` is optional: without it, the columns are those of the files."""
        values = {
            ("path",): path,
            ("schema",): schema,
            ("event-time",): event_time,
            ("watermark", "out-of-orderness"): out_of_orderness,
            ("watermark", "idle-timeout"): idle_timeout,
            ("watermark", "max-ahead"): max_ahead,
            ("watermark", "partition-column"): partition_column,
            ("bounded",): bounded,
            ("options",): options,
            ("schema-drift",): schema_drift,
            ("max-files-per-epoch",): max_files_per_epoch,
            ("max-bytes-per-epoch",): max_bytes_per_epoch,
        }
        return _files(FileSourceSpec, "parquet", values, place="Source.parquet")

    @staticmethod
    def json(  # noqa: PLR0913
        path: FileName,
        *,
        schema: str,
        event_time: str | None = None,
        out_of_orderness: Duration | None = None,
        idle_timeout: Duration | None = None,
        max_ahead: Duration | Literal["none"] | None = None,
        partition_column: str | None = None,
        bounded: bool | None = None,
        options: Mapping[str, SparkValue] | None = None,
        schema_drift: Mapping[str, str] | None = None,
        undecodable: Literal["fail", "dead-letter"] | None = None,
        dead_letter: AnySink | None = None,
        max_files_per_epoch: int | None = None,
        max_bytes_per_epoch: Size | None = None,
    ) -> FileSourceSpec:
        """Return a source of JSON files. Each line is one object, or one array of objects."""
        values = {
            ("path",): path,
            ("schema",): schema,
            ("event-time",): event_time,
            ("watermark", "out-of-orderness"): out_of_orderness,
            ("watermark", "idle-timeout"): idle_timeout,
            ("watermark", "max-ahead"): max_ahead,
            ("watermark", "partition-column"): partition_column,
            ("bounded",): bounded,
            ("options",): options,
            ("schema-drift",): schema_drift,
            ("undecodable",): undecodable,
            ("dead-letter",): dead_letter,
            ("max-files-per-epoch",): max_files_per_epoch,
            ("max-bytes-per-epoch",): max_bytes_per_epoch,
        }
        return _files(FileSourceSpec, "json", values, place="Source.json")

    @staticmethod
    def csv(  # noqa: PLR0913
        path: FileName,
        *,
        schema: str,
        event_time: str | None = None,
        out_of_orderness: Duration | None = None,
        idle_timeout: Duration | None = None,
        max_ahead: Duration | Literal["none"] | None = None,
        partition_column: str | None = None,
        bounded: bool | None = None,
        options: Mapping[str, SparkValue] | None = None,
        schema_drift: Mapping[str, str] | None = None,
        undecodable: Literal["fail", "dead-letter"] | None = None,
        dead_letter: AnySink | None = None,
        max_files_per_epoch: int | None = None,
        max_bytes_per_epoch: Size | None = None,
    ) -> FileSourceSpec:
        """Return a source of CSV files. Pass `options={"header": True}` if they begin with a line of column names."""
        values = {
            ("path",): path,
            ("schema",): schema,
            ("event-time",): event_time,
            ("watermark", "out-of-orderness"): out_of_orderness,
            ("watermark", "idle-timeout"): idle_timeout,
            ("watermark", "max-ahead"): max_ahead,
            ("watermark", "partition-column"): partition_column,
            ("bounded",): bounded,
            ("options",): options,
            ("schema-drift",): schema_drift,
            ("undecodable",): undecodable,
            ("dead-letter",): dead_letter,
            ("max-files-per-epoch",): max_files_per_epoch,
            ("max-bytes-per-epoch",): max_bytes_per_epoch,
        }
        return _files(FileSourceSpec, "csv", values, place="Source.csv")


class FileSinks:
    """The methods of `Sink` for files.

    path: the directory or URL to write files in.
    partition_by: columns with a folder per value, or parts of time such as `day(at)`.
    max_file_size: the size, such as `128MB`, at which the next file of the epoch is begun.
    compression: snappy, zstd, gzip or none; JSON and CSV support gzip and none.
    success_marker: True for an object per published epoch in `_epochs`, which names the epoch's files.

    See docs/files.md.
    """

    @staticmethod
    def parquet(
        path: FileName,
        *,
        partition_by: str | Sequence[str] | None = None,
        max_file_size: Size | None = None,
        compression: str | None = None,
        success_marker: bool | None = None,
    ) -> FileSinkSpec:
        """Return a sink that writes Parquet files to a directory."""
        values = _layout(partition_by, max_file_size, compression, success_marker=success_marker)
        return _files(FileSinkSpec, "parquet", {("path",): path, **values}, place="Sink.parquet")

    @staticmethod
    def json(
        path: FileName,
        *,
        partition_by: str | Sequence[str] | None = None,
        max_file_size: Size | None = None,
        compression: str | None = None,
        success_marker: bool | None = None,
    ) -> FileSinkSpec:
        """Return a sink that writes files with one JSON object per line to a directory."""
        values = _layout(partition_by, max_file_size, compression, success_marker=success_marker)
        return _files(FileSinkSpec, "json", {("path",): path, **values}, place="Sink.json")

    @staticmethod
    def csv(
        path: FileName,
        *,
        partition_by: str | Sequence[str] | None = None,
        max_file_size: Size | None = None,
        compression: str | None = None,
        success_marker: bool | None = None,
    ) -> FileSinkSpec:
        """Return a sink that writes CSV files, each with a line of column names, to a directory."""
        values = _layout(partition_by, max_file_size, compression, success_marker=success_marker)
        return _files(FileSinkSpec, "csv", {("path",): path, **values}, place="Sink.csv")


class FileSideOutputs:
    """The methods of `SideOutput` for files. See FileSinks for the arguments."""

    @staticmethod
    def parquet(
        path: FileName,
        *,
        schema: str,
        partition_by: str | Sequence[str] | None = None,
        max_file_size: Size | None = None,
        compression: str | None = None,
        success_marker: bool | None = None,
    ) -> FileSideOutputSpec:
        """Return a sink that writes Parquet files to a directory."""
        values = {
            **_layout(partition_by, max_file_size, compression, success_marker=success_marker),
            ("schema",): schema,
        }
        return _files(FileSideOutputSpec, "parquet", {("path",): path, **values}, place="SideOutput.parquet")

    @staticmethod
    def json(
        path: FileName,
        *,
        schema: str,
        partition_by: str | Sequence[str] | None = None,
        max_file_size: Size | None = None,
        compression: str | None = None,
        success_marker: bool | None = None,
    ) -> FileSideOutputSpec:
        """Return a sink that writes files with one JSON object per line to a directory."""
        values = {
            **_layout(partition_by, max_file_size, compression, success_marker=success_marker),
            ("schema",): schema,
        }
        return _files(FileSideOutputSpec, "json", {("path",): path, **values}, place="SideOutput.json")

    @staticmethod
    def csv(
        path: FileName,
        *,
        schema: str,
        partition_by: str | Sequence[str] | None = None,
        max_file_size: Size | None = None,
        compression: str | None = None,
        success_marker: bool | None = None,
    ) -> FileSideOutputSpec:
        """Return a sink that writes CSV files, each with a line of column names, to a directory."""
        values = {
            **_layout(partition_by, max_file_size, compression, success_marker=success_marker),
            ("schema",): schema,
        }
        return _files(FileSideOutputSpec, "csv", {("path",): path, **values}, place="SideOutput.csv")


def _layout(
    partition_by: str | Sequence[str] | None,
    max_file_size: Size | None,
    compression: str | None,
    *,
    success_marker: bool | None,
) -> dict[tuple[str, ...], Any]:
    """Return the settings for the layout of output files."""
    return {
        ("partition-by",): partition_by,
        ("max-file-size",): max_file_size,
        ("compression",): compression,
        ("success-marker",): success_marker,
    }


def _files(
    model: type[AnyConnector], file_format: str, values: Mapping[tuple[str, ...], Any], *, place: str
) -> AnyConnector:
    return checked(model, {"format": file_format, **nested(values)}, place=place)
