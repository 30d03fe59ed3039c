"""From a source of a job file to one that can be read: the one place that knows every kind."""

from pyspark.sql import SparkSession

from mixedmode.config import FileSourceSpec, SourceSpec
from mixedmode.sources.files import FileSource
from mixedmode.sources.source import OpenSource


def open_source(session: SparkSession, source: SourceSpec, *, where: str) -> OpenSource:
    """The source, checked. Raises InvalidJobError, beginning with `where`, when it cannot be read."""
    match source:
        case FileSourceSpec():
            return FileSource(session, source, where=where)
    raise AssertionError(source)
