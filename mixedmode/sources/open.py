"""Opens the source of a job file, of any kind that is installed."""

from pyspark.sql import SparkSession

from mixedmode.config import SourceSpec
from mixedmode.config.registry import kind_of, loaded
from mixedmode.sources.computed import ComputedColumns
from mixedmode.sources.source import OpenSource


def open_source(session: SparkSession, source: SourceSpec, *, where: str) -> OpenSource:
    """Return the source, after checking it.
    Raises InvalidJobError, beginning with `where`, if the source cannot be read.
    """
    opener = kind_of(source).open_source
    assert opener is not None, source
    opened: OpenSource = loaded(opener)(session, source, where=where)
    if not source.computed_columns:
        return opened
    return ComputedColumns(session, opened, source.computed_columns, where=where)
