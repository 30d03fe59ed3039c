"""A streaming DataFrame of a program as the sources, the steps and the settings of a job."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from mixedmode.analysis.catalyst_texts import TextLostError
from mixedmode.analysis.from_stream import StreamReader, StreamStep
from mixedmode.analysis.stream_source import StreamSource
from mixedmode.errors import InvalidJobError
from mixedmode.spark.sql_settings import sql_settings

__all__ = ["StreamJob", "read_stream"]

_CALL = "Job.from_stream"


@dataclass(frozen=True, slots=True)
class StreamJob:
    """The parts of the job that a streaming DataFrame is.

    sources, tables: by their names; tables are dimensions. spark: settings of Spark with which SQL means the same as in
    the session of the DataFrame.
    """

    sources: Mapping[str, StreamSource]
    tables: Mapping[str, StreamSource]
    steps: tuple[StreamStep, ...]
    spark: Mapping[str, str]


def read_stream(stream: object, spark: Mapping[str, object]) -> StreamJob:
    """Return the job that a streaming DataFrame is.  spark: settings that the job has beside.

    Raise InvalidJobError for one that is not taken.
    """
    if not isinstance(stream, DataFrame) or not stream.isStreaming:
        found = "a DataFrame of spark.read" if isinstance(stream, DataFrame) else type(stream).__name__
        msg = f"{_CALL}: stream must be a streaming DataFrame of Spark: begin it with spark.readStream. found={found}"
        raise InvalidJobError(msg)
    given: Any = stream.sparkSession
    settings = sql_settings(given)
    own_views = given._jsparkSession.cloneSession()  # noqa: SLF001 - a session of the program does not show ours
    session = SparkSession(given.sparkContext, own_views)
    _check_settings(session, settings, spark)
    try:
        reader = StreamReader(session, stream)
        return StreamJob(reader.sources, reader.tables, tuple(reader.steps), settings)
    except TextLostError as error:
        msg = (
            f"{_CALL}: Spark does not read the text of a part of this query as that part, as with functions of "
            f"Python and lambdas. Write the query as steps: Job(name, sources={{...}}).sql(...). found={error}"
        )
        raise InvalidJobError(msg) from error


def _check_settings(session: SparkSession, settings: Mapping[str, str], spark: Mapping[str, object]) -> None:
    """Raise InvalidJobError if settings of the job change what SQL means.  session: a copy, which gets the settings."""
    for name, value in spark.items():
        full = name if name.startswith("spark.") else f"spark.{name}"
        if session.conf.isModifiable(full):
            session.conf.set(full, str(value))
    found = sql_settings(session)
    different = [name for name in sorted({*found, *settings}) if found.get(name) != settings.get(name)]
    if different:
        msg = (
            f"{_CALL}: these settings change what SQL computes, and the stream was made without them. Set them on its "
            f"session before you make it. found={', '.join(different)}"
        )
        raise InvalidJobError(msg)
