"""Files that a job reads and writes, in Python."""

from collections.abc import Mapping
from typing import Any, Literal

from mixedmode.config.files import FileSideOutputSpec, FileSinkSpec, FileSourceSpec
from mixedmode.job.arguments import Duration, FileName, Size, SparkValue, nested
from mixedmode.job.connectors.checked import AnyConnector, checked


class FileSources:
    """Calls of `Source` for files."""

    @staticmethod
    def parquet(  # noqa: PLR0913  # one argument per setting, by keyword
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
            ("max-files-per-epoch",): max_files_per_epoch,
            ("max-bytes-per-epoch",): max_bytes_per_epoch,
        }
        return _files(FileSourceSpec, "parquet", values, place="Source.parquet")

    @staticmethod
    def json(  # noqa: PLR0913  # one argument per setting, by keyword
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
        max_files_per_epoch: int | None = None,
        max_bytes_per_epoch: Size | None = None,
    ) -> FileSourceSpec:
        """Files of one JSON object a line."""
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
            ("max-files-per-epoch",): max_files_per_epoch,
            ("max-bytes-per-epoch",): max_bytes_per_epoch,
        }
        return _files(FileSourceSpec, "json", values, place="Source.json")

    @staticmethod
    def csv(  # noqa: PLR0913  # one argument per setting, by keyword
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
            ("max-files-per-epoch",): max_files_per_epoch,
            ("max-bytes-per-epoch",): max_bytes_per_epoch,
        }
        return _files(FileSourceSpec, "csv", values, place="Source.csv")


class FileSinks:
    """Calls of `Sink` for files."""

    @staticmethod
    def parquet(path: FileName) -> FileSinkSpec:
        """Parquet files in a directory."""
        return _files(FileSinkSpec, "parquet", {("path",): path}, place="Sink.parquet")

    @staticmethod
    def json(path: FileName) -> FileSinkSpec:
        """Files of one JSON object a line in a directory."""
        return _files(FileSinkSpec, "json", {("path",): path}, place="Sink.json")


class FileSideOutputs:
    """Calls of `SideOutput` for files."""

    @staticmethod
    def parquet(path: FileName, *, schema: str) -> FileSideOutputSpec:
        """Parquet files in a directory."""
        return _files(FileSideOutputSpec, "parquet", {("path",): path, ("schema",): schema}, place="SideOutput.parquet")

    @staticmethod
    def json(path: FileName, *, schema: str) -> FileSideOutputSpec:
        """Files of one JSON object a line in a directory."""
        return _files(FileSideOutputSpec, "json", {("path",): path, ("schema",): schema}, place="SideOutput.json")


def _files(
    model: type[AnyConnector], file_format: str, values: Mapping[tuple[str, ...], Any], *, place: str
) -> AnyConnector:
    return checked(model, {"format": file_format, **nested(values)}, place=place)
