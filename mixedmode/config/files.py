"""Files that a job reads, and files that it writes."""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from mixedmode.config.document import Path
from mixedmode.config.fields import Count, Options, PositiveBytes, Text
from mixedmode.config.sinks import SinkSpec, WithSchema
from mixedmode.config.sources import SourceSpec


class FileSourceSpec(SourceSpec):
    """Files that the job reads."""

    format: Literal["parquet", "json", "csv"] = Field(description="parquet, json or csv")
    path: Text = Field(description="a directory or glob, local or a URL")
    schema_ddl: Text | None = Field(
        default=None, description="columns as Spark DDL, such as date timestamp, origin string; parquet brings its own"
    )
    options: Options = Field(default={}, description="options for Spark's reader of this format, such as header")
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

    def _findings(self) -> Iterator[tuple[Path, str]]:
        if self.schema_ddl is None and self.format != "parquet":
            text = (
                " is missing: these files do not say what columns they have. Add them as Spark DDL, such as "
                f'"date timestamp, origin string". format={self.format}'
            )
            yield ("schema",), text
        yield from super()._findings()
        if self.max_files_per_epoch is not None and self.max_bytes_per_epoch is not None:
            text = " and max-files-per-epoch are both given, and Spark takes one of them. Remove one."
            yield ("max-bytes-per-epoch",), text


class FileSinkSpec(SinkSpec):
    """A folder of files."""

    format: Literal["parquet", "json"] = Field(description="parquet or json")
    path: Text = Field(description="the directory or URL to write files in")

    @property
    def place(self) -> str:
        """See SinkSpec."""
        return f"{self.format} {self.path}"

    @property
    def folder(self) -> str:
        """See SinkSpec."""
        return self.path


class FileSideOutputSpec(WithSchema, FileSinkSpec):
    """A folder of files for the rows of one tag."""
