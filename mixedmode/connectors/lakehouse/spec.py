"""Settings of sources and sinks of Delta Lake and Apache Iceberg tables.

A table is named by its folder (`path`) or by its name in a catalog (`table`), never by both.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, Self

from pydantic import Field
from typing_extensions import override

from mixedmode.config.document import Path
from mixedmode.config.fields import Columns, Count, CountOrZero, Options, PositiveBytes, Section, Text
from mixedmode.config.sinks import SinkSpec, with_suffix
from mixedmode.config.sources import SourceSpec
from mixedmode.config.starts import StartPoint
from mixedmode.config.used_places import UsedPlace

TableFormat = Literal["delta", "iceberg"]

_DEFAULT_CATALOG = ("spark_catalog", "default")
_NAMES = {"delta": "Delta", "iceberg": "Iceberg"}
#: {setting of a source, or of its start: the only format that has it}
_OF_ONE_FORMAT = {"max_bytes_per_epoch": "delta", "max_records_per_epoch": "iceberg"}
_STARTS_OF_ONE_FORMAT = {"version": "delta", "snapshot": "iceberg"}
#: {option of the formats' readers, in lower case: the setting of the source that sets it}
_SET_ELSEWHERE = {
    "maxfilespertrigger": "max-files-per-epoch",
    "maxbytespertrigger": "max-bytes-per-epoch",
    "startingversion": "starting.version",
    "startingtimestamp": "starting.timestamp",
    "streaming-max-files-per-micro-batch": "max-files-per-epoch",
    "streaming-max-rows-per-micro-batch": "max-records-per-epoch",
    "stream-from-timestamp": "starting.timestamp",
    "start-snapshot-id": "starting.snapshot",
}
#: options of the formats' readers that choose a version of the table
CHOOSES_VERSION = ("versionasof", "timestampasof", "snapshot-id", "as-of-timestamp", "branch", "tag")


class TableStartSpec(Section):
    """The position from which a table is read; without it, the whole table."""

    version: CountOrZero | None = Field(
        default=None, description="of Delta: only what this version of the table and later ones added"
    )
    snapshot: CountOrZero | None = Field(
        default=None, description="of Iceberg: only what the snapshot with this id and later ones added"
    )
    timestamp: Text | None = Field(
        default=None, description="only what was added at or after this time, such as 2026-01-31 08:00:00 (UTC)"
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        given = [name for name, value in self if value is not None]
        if len(given) != 1:
            text = (
                f" takes exactly one of version, snapshot and timestamp. Keep one. given={', '.join(given) or 'none'}"
            )
            yield (), text


class TableSourceSpec(SourceSpec):
    """A source of a table: its rows, and the rows that are added to it."""

    dimension_settings = frozenset({"path", "table", "options"})

    format: TableFormat = Field(description="delta or iceberg")
    path: Text | None = Field(default=None, description="the table's folder, local or a URL; or name it in table")
    table: Text | None = Field(default=None, description="the table's name, with its catalog if Spark has several")
    starting: TableStartSpec | None = Field(default=None, description="from where on; not given: all of the table")
    options: Options = Field(default={}, description="options for the format's reader, such as skipChangeCommits")
    max_files_per_epoch: Count | None = Field(
        default=None,
        description="most files in one epoch when a backlog uses the streaming strategy; not given: no limit",
    )
    max_bytes_per_epoch: PositiveBytes | None = Field(
        default=None, description="of Delta: most bytes in one epoch, as max-files-per-epoch; not given: no limit"
    )
    max_records_per_epoch: Count | None = Field(
        default=None, description="of Iceberg: most records in one epoch, as max-files-per-epoch; not given: no limit"
    )

    @property
    @override
    def place(self) -> str:
        return f"{self.format} {self.path or self.table}"

    @property
    @override
    def used_places(self) -> tuple[UsedPlace, ...]:
        return _used_places(self.path, self.table)

    @property
    @override
    def limits_per_epoch(self) -> Mapping[str, int]:
        limits = {
            "max_files": self.max_files_per_epoch,
            "max_bytes": self.max_bytes_per_epoch,
            "max_records": self.max_records_per_epoch,
        }
        return {name: limit for name, limit in limits.items() if limit is not None}

    @override
    def starting_at(self, point: StartPoint) -> Self | str:
        if point.at == "earliest":
            return self.model_copy(update={"starting": None})
        if point.timestamp is not None:
            return self.model_copy(update={"starting": TableStartSpec(timestamp=point.timestamp.isoformat())})
        return "a table is read from its beginning, or from a time of its history on. Use --to earliest or a time."

    @override
    def dimension_findings(self) -> Iterator[tuple[Path, str]]:
        for option in self.options:
            if option.lower() in CHOOSES_VERSION:
                text = " cannot be set on a dimension, of which each epoch reads the newest version. Remove it."
                yield ("options", option), text

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from _place_findings(self.path, self.table)
        yield from super()._findings()
        other = {"delta": "iceberg", "iceberg": "delta"}[self.format]
        wrong: dict[Path, object] = {
            (name.replace("_", "-"),): getattr(self, name) for name, own in _OF_ONE_FORMAT.items() if own == other
        }
        if self.starting is not None:
            wrong |= {
                ("starting", name): getattr(self.starting, name)
                for name, own in _STARTS_OF_ONE_FORMAT.items()
                if own == other
            }
        for path, value in wrong.items():
            if value is not None:
                yield path, f" is for {_NAMES[other]} tables. Remove it. format={self.format}"
        for option in self.options:
            key = _SET_ELSEWHERE.get(option.lower())
            if key is not None:
                yield ("options", option), f" is set by the source itself. Use {key} of the source."


class TableSinkSpec(SinkSpec):
    """A sink that writes a table."""

    format: TableFormat = Field(description="delta or iceberg")
    path: Text | None = Field(default=None, description="the table's folder, local or a URL; or name it in table")
    table: Text | None = Field(default=None, description="the table's name, with its catalog if Spark has several")
    mode: Literal["append", "merge"] | None = Field(
        default=None,
        description="merge: one row per key, append: every row; not given: merge if the output has key columns",
    )
    partition_by: Columns = Field(
        default=(), description="columns that a table which the job creates is partitioned by"
    )

    @property
    @override
    def place(self) -> str:
        return f"{self.format} {self.path or self.table}"

    @property
    @override
    def folder(self) -> str | None:
        return self.path

    @property
    @override
    def used_places(self) -> tuple[UsedPlace, ...]:
        return _used_places(self.path, self.table)

    @override
    def renamed(self, suffix: str) -> Self:
        if self.table is not None:
            return self.model_copy(update={"table": f"{self.table}{suffix}"})
        assert self.path is not None, "a table has a folder or a name"
        return self.model_copy(update={"path": with_suffix(self.path, suffix)})

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from _place_findings(self.path, self.table)
        yield from super()._findings()


def _used_places(path: str | None, table: str | None) -> tuple[UsedPlace, ...]:
    if table is not None:
        return (UsedPlace(("table",), table, names=frozenset({_full_name(table)})),)
    assert path is not None, "a table has a folder or a name"
    return (UsedPlace(("path",), path, path),)


def _full_name(table: str) -> str:
    """Return a table's name without the catalog and the database that Spark adds by itself."""
    parts = table.lower().split(".")
    for usual in _DEFAULT_CATALOG:
        if len(parts) > 1 and parts[0] == usual:
            del parts[0]
    return ".".join(parts)


def _place_findings(path: str | None, table: str | None) -> Iterator[tuple[Path, str]]:
    if path is None and table is None:
        yield ("path",), " is missing: the folder of the table. Add it, or name the table in table."
    if path is not None and table is not None:
        yield ("table",), " and path are both given, and they may be two tables. Remove one."
    if table is not None and not all(part.strip() and "`" not in part for part in table.split(".")):
        text = f": this does not name a table. Write it as catalog.database.name, without quotes. found={table}"
        yield ("table",), text
