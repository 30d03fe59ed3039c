"""Settings of file sources and file sinks."""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from mixedmode.config.document import Path
from mixedmode.config.drift import Drift
from mixedmode.config.fields import Columns, Count, Flag, Lines, Options, PositiveBytes, Section, Text
from mixedmode.config.partitions import Partition, parse_partition
from mixedmode.config.reader_options import option_findings
from mixedmode.config.sinks import SinkSpec, WithSchema
from mixedmode.config.sources import SourceSpec
from mixedmode.errors import InvalidJobError

Compression = Literal["snappy", "zstd", "gzip", "none"]
_COMPRESSIONS: Mapping[str, tuple[Compression, ...]] = {
    "parquet": ("snappy", "zstd", "gzip", "none"),
    "json": ("none", "gzip"),
    "csv": ("none", "gzip"),
}


class SchemaDriftSpec(Section):
    """Rules for files whose columns differ from those of `schema`."""

    new_column: Literal["ignore", "fail"] = Field(
        default="ignore", description="ignore, or fail: a file has a column that schema does not name"
    )
    missing_column: Literal["nulls", "fail"] = Field(
        default="nulls", description="nulls, or fail: a file, of JSON a record, lacks a column that schema names"
    )
    wrong_type: Literal["fail", "nulls"] = Field(
        default="fail", description="fail, or nulls: what a file has in a column is not of the type that schema says"
    )


class FileSourceSpec(SourceSpec):
    """A source of files."""

    format: Literal["parquet", "json", "csv"] = Field(description="parquet, json or csv")
    path: Text = Field(description="a folder, a single file or a glob, local or a URL")
    schema_ddl: Lines | None = Field(
        default=None, description="columns as Spark DDL, such as date timestamp, origin string; parquet brings its own"
    )
    options: Options = Field(default={}, description="options for Spark's reader of this format, such as header")
    schema_drift: SchemaDriftSpec | None = Field(
        default=None, description="what becomes of files with other columns; not given: what Spark's reader does"
    )
    max_files_per_epoch: Count | None = Field(
        default=None, description="most files in one epoch when a backlog takes the streaming path; not given: no limit"
    )
    max_bytes_per_epoch: PositiveBytes | None = Field(
        default=None, description="most bytes in one epoch when a backlog takes the streaming path; not given: no limit"
    )

    @property
    def place(self) -> str:
        """See SourceSpec."""
        return f"{self.format} {self.path}"

    @property
    def limits_per_epoch(self) -> Mapping[str, int]:
        """See SourceSpec."""
        limits = {"max_files": self.max_files_per_epoch, "max_bytes": self.max_bytes_per_epoch}
        return {name: limit for name, limit in limits.items() if limit is not None}

    @property
    def drift(self) -> Drift | None:
        """The rules for schema drift, without the names of columns; None for the behaviour of Spark's reader."""
        rules = self.schema_drift
        return None if rules is None else Drift(rules.new_column, rules.missing_column, rules.wrong_type)

    def _findings(self) -> Iterator[tuple[Path, str]]:
        if self.schema_ddl is None and self.schema_drift is not None and self.format == "parquet":
            text = " has no effect without schema, whose columns files are held against. Add schema, or remove it."
            yield ("schema-drift",), text
        if self.schema_ddl is None and self.format != "parquet":
            text = (
                " is missing: these files do not say what columns they have. Add them as Spark DDL, such as "
                f'"date timestamp, origin string". format={self.format}'
            )
            yield ("schema",), text
        for path, text in option_findings(self.format, self.options, self.schema_ddl):
            yield ("options", *path), text
        yield from super()._findings()
        if self.max_files_per_epoch is not None and self.max_bytes_per_epoch is not None:
            text = " and max-files-per-epoch are both given, and Spark takes one of them. Remove one."
            yield ("max-bytes-per-epoch",), text


class FileSinkSpec(SinkSpec):
    """A sink that writes a folder of files."""

    format: Literal["parquet", "json", "csv"] = Field(description="parquet, json or csv")
    path: Text = Field(description="the directory or URL to write files in")
    partition_by: Columns = Field(
        default=(),
        description="columns with a folder per value (country=DE), or parts of time: day(at); of the key, if any",
    )
    max_file_size_bytes: PositiveBytes | None = Field(
        default=None,
        description="a file that has reached this size is followed by another one of its epoch; not given: no limit",
    )
    compression: Compression | None = Field(
        default=None,
        description="snappy, zstd, gzip or none; not given: snappy for parquet, none for json and csv, which know gzip",
    )
    success_marker: Flag = Field(
        default=False,
        description="true: an object in _epochs per published epoch, which names its files, if it has any",
    )

    @property
    def place(self) -> str:
        """See SinkSpec."""
        return f"{self.format} {self.path}"

    @property
    def folder(self) -> str:
        """See SinkSpec."""
        return self.path

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The parsed `partition_by`."""
        return tuple(map(parse_partition, self.partition_by))

    @property
    def compression_used(self) -> Compression:
        """The compression that is set, or the default of the format."""
        return self.compression or _COMPRESSIONS[self.format][0]

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from super()._findings()
        known = _COMPRESSIONS[self.format]
        if self.compression is not None and self.compression not in known:
            text = (
                f" is one that readers of this format do not expect. Write {' or '.join(known)}. "
                f"format={self.format}, found={self.compression}"
            )
            yield ("compression",), text
        names: set[str] = set()
        for index, written in enumerate(self.partition_by):
            try:
                name = parse_partition(written).name.lower()
            except InvalidJobError as error:
                yield ("partition-by", index), f": {error}"
                continue
            if name in names:
                yield ("partition-by", index), f" gives a second level of folders of one name. Remove one. name={name}"
            names.add(name)


class FileSideOutputSpec(WithSchema, FileSinkSpec):
    """A sink that writes the rows of one tag to a folder of files."""
