"""The input of an epoch on Spark: rows or files, for each reader of sources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from typing_extensions import override

from mixedmode.connectors.files.parquet_files import file_bytes, path_of_url
from mixedmode.connectors.files.source import FileSource
from mixedmode.executor.dimensions import VersionsRead
from mixedmode.executor.input_frames import entry_rows, joined_rows, rows_of_progress, rows_read
from mixedmode.executor.protocol import EpochTask
from mixedmode.plan.job_plan import PROGRESS, DirectRead, JobPlan
from mixedmode.sources.sides import sides_of, united
from mixedmode.sources.source import OpenSource
from mixedmode.tasks.direct import FilesRead

__all__ = [
    "OfBoth",
    "OfEntries",
    "OfEntry",
    "OfFiles",
    "OfMaps",
    "OfSources",
    "ReaderInput",
    "files_of",
    "rows_in_files",
]


class ReaderInput(Protocol):
    """The input of an epoch, for each reader of sources (JobPlan.entries), and for PROGRESS if `measures_first`."""

    def rows(self, entry: str) -> DataFrame | None:
        """Return the rows of sources for an entry; None if the epoch has no input, or tasks read its files."""

    def files(self, entry: str) -> FilesRead:
        """Return the files that tasks read for an entry."""
        del entry
        return ()


@dataclass(frozen=True, slots=True)
class OfFiles(ReaderInput):
    """The files of all sources, {source: (path, bytes) of each}.  read: versions of the dimensions that tasks join."""

    plan: JobPlan
    by_source: Mapping[str, Sequence[tuple[str, int]]]
    read: VersionsRead

    @override
    def rows(self, entry: str) -> DataFrame | None:
        return None

    @override
    def files(self, entry: str) -> FilesRead:
        return [(self._with_dimensions(read), self.by_source[read.source]) for read in self.plan.direct.get(entry, ())]

    def _with_dimensions(self, read: DirectRead) -> DirectRead:
        return replace(read, queries=tuple(self.read.with_rows(query) for query in read.queries))


@dataclass(frozen=True, slots=True)
class OfEntry(ReaderInput):
    """The frame of a job with one entry."""

    frame: DataFrame | None

    @override
    def rows(self, entry: str) -> DataFrame | None:
        return self.frame


@dataclass(frozen=True, slots=True)
class OfEntries(ReaderInput):
    """The frame of a job with several entries, each with rows of its own."""

    plan: JobPlan
    frame: DataFrame | None

    @override
    def rows(self, entry: str) -> DataFrame | None:
        if self.frame is None:
            return None
        return rows_of_progress(self.frame) if entry == PROGRESS else entry_rows(self.frame, self.plan, entry)


@dataclass(frozen=True, slots=True)
class OfSources(ReaderInput):
    """The rows of sources as they are, for a job whose sql joins them with dimensions.  tables: {dimension: rows}."""

    session: SparkSession
    plan: JobPlan
    tables: Mapping[str, DataFrame]
    frame: DataFrame

    @override
    def rows(self, entry: str) -> DataFrame | None:
        if entry == PROGRESS:
            return rows_of_progress(self.frame)
        return joined_rows(self.session, self.frame, self.plan, entry, self.tables)


@dataclass(frozen=True, slots=True)
class OfBoth(ReaderInput):
    """Rows of Spark, and files of other sources."""

    plan: JobPlan
    of_rows: ReaderInput
    of_files: OfFiles

    @override
    def rows(self, entry: str) -> DataFrame | None:
        return self.of_rows.rows(entry) if self.plan.has_rows_of_spark(entry) else None

    @override
    def files(self, entry: str) -> FilesRead:
        return self.of_files.files(entry)


@dataclass(frozen=True, slots=True)
class OfMaps(ReaderInput):
    """The rows of the last map stage, which one stage or one result reads."""

    session: SparkSession
    plan: JobPlan
    tables: Mapping[str, DataFrame]
    mapped: DataFrame

    @override
    def rows(self, entry: str) -> DataFrame | None:
        reads, stage = self.plan.reader(entry)
        roots = {self.plan.maps[-1].operator_id: self.mapped}
        return rows_read(self.session, reads, roots, self.plan, stage, tables=self.tables)


def files_of(task: EpochTask) -> dict[str, list[tuple[str, int]]]:
    """Return (path, bytes) of each file that tasks read in an epoch, by source."""
    assert task.files is not None, "the driver knows the files that tasks read"
    files = task.files
    return {name: [(path, file_bytes(path)) for path in map(path_of_url, files[name])] for name in task.plan.listed}


def rows_in_files(
    source: OpenSource, side: int | None, files: Sequence[tuple[str, int]], session: SparkSession
) -> DataFrame:
    """Return the rows of a source that are in some of its files, read by Spark.

    side: the number of the side that has the files; None: the source is no other. files: (path, bytes) of each.
    """
    sides = sides_of(source)
    frames = [session.createDataFrame([], one.schema) for one in sides]
    if files:
        of_files = sides[side or 0]
        assert isinstance(of_files, FileSource), of_files
        frames[side or 0] = of_files.rows_of(session, [path for path, _ in files])
    return united(source, frames)
