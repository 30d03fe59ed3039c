"""Files that a job reads and writes, in Python."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mixedmode.config.files import FileSideOutputSpec, FileSinkSpec, FileSourceSpec
from mixedmode.job.arguments import Duration, FileName, Size, SparkValue, nested
from mixedmode.job.connectors.checked import AnyConnector, checked


class FileSources:
    """Calls of `Source` for files."""

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
        """Parquet files, which bring their own columns unless `schema` names some of them."""
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
        max_files_per_epoch: int | None = None,
        max_bytes_per_epoch: Size | None = None,
    ) -> FileSourceSpec:
        """Files of one JSON object, or one array of objects, a line."""
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
        max_files_per_epoch: int | None = None,
        max_bytes_per_epoch: Size | None = None,
    ) -> FileSourceSpec:
        """CSV files; `options={"header": True}` when they begin with a line of names."""
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
        return _files(FileSourceSpec, "csv", values, place="Source.csv")


class FileSinks:
    """Calls of `Sink` for files. `partition_by`: columns, or `day(at)`; `max_file_size`: `128MB`."""

    @staticmethod
    def parquet(
        path: FileName,
        *,
        partition_by: str | Sequence[str] | None = None,
        max_file_size: Size | None = None,
        compression: str | None = None,
        success_marker: bool | None = None,
    ) -> FileSinkSpec:
        """Parquet files in a directory."""
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
        """Files of one JSON object a line in a directory."""
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
        """CSV files in a directory, each with a line of names."""
        values = _layout(partition_by, max_file_size, compression, success_marker=success_marker)
        return _files(FileSinkSpec, "csv", {("path",): path, **values}, place="Sink.csv")


class FileSideOutputs:
    """Calls of `SideOutput` for files; see FileSinks."""

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
        """Parquet files in a directory."""
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
        """Files of one JSON object a line in a directory."""
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
        """CSV files in a directory, each with a line of names."""
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
    """How an output lies in files."""
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
