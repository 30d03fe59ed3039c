"""Opens the source of a job file: the only module that knows every kind of source."""

from pyspark.sql import SparkSession

from mixedmode.config import (
    CustomSourceSpec,
    FileSourceSpec,
    HistoryAndLiveSpec,
    KafkaSourceSpec,
    SourceSpec,
    TableSourceSpec,
)
from mixedmode.sources.files import FileSource
from mixedmode.sources.history import HistoryAndLive
from mixedmode.sources.lakehouse import LakehouseSource
from mixedmode.sources.source import OpenSource


def open_source(session: SparkSession, source: SourceSpec, *, where: str) -> OpenSource:
    """Return the source, after checking it.
    Raises InvalidJobError, beginning with `where`, if the source cannot be read.
    """
    match source:
        case FileSourceSpec():
            return FileSource(session, source, where=where)
        case KafkaSourceSpec():
            from mixedmode.sources.kafka import KafkaSource  # noqa: PLC0415 - only a job that reads it needs it

            return KafkaSource(session, source, where=where)
        case TableSourceSpec():
            return LakehouseSource(session, source, where=where)
        case CustomSourceSpec():
            from mixedmode.sources.custom import CustomSourceReader  # noqa: PLC0415 - only a job that reads it needs it

            return CustomSourceReader(session, source, where=where)
        case HistoryAndLiveSpec():
            sides = {side: open_source(session, one, where=f"{where}.{side}") for side, one in source.sides.items()}
            return HistoryAndLive(source, sides, where=where)
    raise AssertionError(source)
