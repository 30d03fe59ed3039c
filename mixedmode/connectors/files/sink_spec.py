"""Settings of file sinks."""

from collections.abc import Iterator, Mapping
from typing import Literal, Self

from pydantic import Field
from typing_extensions import override

from mixedmode.config.document import Path
from mixedmode.config.fields import Columns, Flag, PositiveBytes, Text
from mixedmode.config.partitions import Partition, parse_partition
from mixedmode.config.sinks import SinkSpec, with_suffix
from mixedmode.errors import InvalidJobError

Compression = Literal["snappy", "zstd", "gzip", "none"]
_COMPRESSIONS: Mapping[str, tuple[Compression, ...]] = {
    "parquet": ("snappy", "zstd", "gzip", "none"),
    "json": ("none", "gzip"),
    "csv": ("none", "gzip"),
}


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
    @override
    def place(self) -> str:
        return f"{self.format} {self.path}"

    @property
    @override
    def folder(self) -> str:
        return self.path

    @override
    def renamed(self, suffix: str) -> Self:
        return self.model_copy(update={"path": with_suffix(self.path, suffix)})

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
