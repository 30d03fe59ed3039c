"""What a job reads and where it writes, in Python. Each call gives the frozen spec that a job file gives.

A mistake is reported by the call that makes it, and a relative path is taken from the directory that is current then.
"""

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, Literal, TypeVar

from mixedmode.config.load import checked_section, resolve_field
from mixedmode.config.sinks import SideOutputSpec, SinkSpec
from mixedmode.config.sources import SourceSpec
from mixedmode.job.arguments import Duration, FileName, Size, SparkValue, argument, nested

AnyFiles = TypeVar("AnyFiles", SourceSpec, SinkSpec, SideOutputSpec)


class Source:
    """What a job reads. Each call gives a SourceSpec to name in `Job(sources={...})`."""

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
    ) -> SourceSpec:
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
        return _files(SourceSpec, "parquet", values, place="Source.parquet")

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
    ) -> SourceSpec:
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
        return _files(SourceSpec, "json", values, place="Source.json")

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
    ) -> SourceSpec:
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
        return _files(SourceSpec, "csv", values, place="Source.csv")


class Sink:
    """Where a job writes: its result, late records, and records on which a function failed."""

    @staticmethod
    def parquet(path: FileName) -> SinkSpec:
        """Parquet files in a directory."""
        return _files(SinkSpec, "parquet", {("path",): path}, place="Sink.parquet")

    @staticmethod
    def json(path: FileName) -> SinkSpec:
        """Files of one JSON object a line in a directory."""
        return _files(SinkSpec, "json", {("path",): path}, place="Sink.json")

    @staticmethod
    def console() -> SinkSpec:
        """The terminal."""
        return _files(SinkSpec, "console", {}, place="Sink.console")


class SideOutput:
    """Where the rows of a side output go. Each call gives a SideOutputSpec to name in `.process(outputs={...})`."""

    @staticmethod
    def parquet(path: FileName, *, schema: str) -> SideOutputSpec:
        """Parquet files in a directory."""
        return _files(SideOutputSpec, "parquet", {("path",): path, ("schema",): schema}, place="SideOutput.parquet")

    @staticmethod
    def json(path: FileName, *, schema: str) -> SideOutputSpec:
        """Files of one JSON object a line in a directory."""
        return _files(SideOutputSpec, "json", {("path",): path, ("schema",): schema}, place="SideOutput.json")

    @staticmethod
    def console(*, schema: str) -> SideOutputSpec:
        """The terminal."""
        return _files(SideOutputSpec, "console", {("schema",): schema}, place="SideOutput.console")


def _files(model: type[AnyFiles], file_format: str, values: Mapping[tuple[str, ...], Any], *, place: str) -> AnyFiles:
    checked = checked_section(model, {"format": file_format, **nested(values)}, place=place, name=argument)
    return resolve_field(checked, "path", FilePath())
