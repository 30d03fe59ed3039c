"""File sources and file sinks, in Python."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict, Unpack

from mixedmode.config.sinks import SinkSpec
from mixedmode.connectors.calls import FileName, Size, SourceArguments, SparkValue, checked
from mixedmode.connectors.files.kind import KIND
from mixedmode.connectors.files.sink_spec import FileSinkSpec
from mixedmode.connectors.files.source_spec import FileSourceSpec


class FileSourceArguments(SourceArguments, total=False):
    """Arguments of every source of files, with those of SourceArguments. docs/files.md is the guide.

    options: options for Spark's reader of the format.
    schema_drift: rules for files with other columns than `schema`, such as `{"new-column": "fail"}`.
    max_files_per_epoch: the most files that one epoch reads when a backlog uses the streaming strategy.
    max_bytes_per_epoch: the same limit in bytes; set at most one of the two.
    """

    options: Mapping[str, SparkValue]
    schema_drift: Mapping[str, str]
    max_files_per_epoch: int
    max_bytes_per_epoch: Size


class ParquetSourceArguments(FileSourceArguments, total=False):
    """Arguments of sources of Parquet, with those of FileSourceArguments.

    schema: the columns, as Spark DDL; without it, the columns are those of the files.
    """

    schema: str


class LineFileArguments(FileSourceArguments, total=False):
    """Arguments of sources of JSON and CSV, with those of FileSourceArguments.

    undecodable: for a line that is no record of `schema`, `fail` stops the job, `dead-letter` writes it to a sink.
    dead_letter: the sink for these lines; only with `undecodable="dead-letter"`.
    """

    undecodable: Literal["fail", "dead-letter"]
    dead_letter: SinkSpec


class FileSinkArguments(TypedDict, total=False):
    """Arguments of sinks of files. docs/files.md is the guide.

    partition_by: columns with a folder per value, or parts of time such as `day(at)`.
    max_file_size: the size, such as `128MB`, at which the next file of the epoch is begun.
    compression: snappy, zstd, gzip or none; JSON and CSV support gzip and none.
    success_marker: True for an object per published epoch in `_epochs`, which names the epoch's files.
    """

    partition_by: str | Sequence[str]
    max_file_size: Size
    compression: str
    success_marker: bool


class FileSources:
    """The methods of `Source` for files.

    path: a folder, a single file or a glob, local or a URL.
    schema: the columns, as Spark DDL, such as `date timestamp, origin string`.
    """

    @staticmethod
    def parquet(path: FileName, **settings: Unpack[ParquetSourceArguments]) -> FileSourceSpec:
        """Return a source of Parquet files."""
        given = {"format": "parquet", "path": path}
        return checked(FileSourceSpec, KIND, given, settings, call="Source.parquet", takes=ParquetSourceArguments)

    @staticmethod
    def json(path: FileName, *, schema: str, **settings: Unpack[LineFileArguments]) -> FileSourceSpec:
        """Return a source of JSON files. Each line is one object, or one array of objects."""
        given = {"format": "json", "path": path, "schema": schema}
        return checked(FileSourceSpec, KIND, given, settings, call="Source.json", takes=LineFileArguments)

    @staticmethod
    def csv(path: FileName, *, schema: str, **settings: Unpack[LineFileArguments]) -> FileSourceSpec:
        """Return a source of CSV files. Pass `options={"header": True}` if they begin with a line of column names."""
        given = {"format": "csv", "path": path, "schema": schema}
        return checked(FileSourceSpec, KIND, given, settings, call="Source.csv", takes=LineFileArguments)


class FileSinks:
    """The methods of `Sink` for files.  path: the directory or URL to write files in."""

    @staticmethod
    def parquet(path: FileName, **settings: Unpack[FileSinkArguments]) -> FileSinkSpec:
        """Return a sink that writes Parquet files to a directory."""
        given = {"format": "parquet", "path": path}
        return checked(FileSinkSpec, KIND, given, settings, call="Sink.parquet", takes=FileSinkArguments)

    @staticmethod
    def json(path: FileName, **settings: Unpack[FileSinkArguments]) -> FileSinkSpec:
        """Return a sink that writes files with one JSON object per line to a directory."""
        given = {"format": "json", "path": path}
        return checked(FileSinkSpec, KIND, given, settings, call="Sink.json", takes=FileSinkArguments)

    @staticmethod
    def csv(path: FileName, **settings: Unpack[FileSinkArguments]) -> FileSinkSpec:
        """Return a sink that writes CSV files, each with a line of column names, to a directory."""
        given = {"format": "csv", "path": path}
        return checked(FileSinkSpec, KIND, given, settings, call="Sink.csv", takes=FileSinkArguments)
