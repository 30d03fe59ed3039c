"""A source without records that makes Spark begin an epoch when no data has arrived, for work that is due by the
clock.

Spark runs an epoch when some source has new data. Processing-time timers, early results and idle sources are due by
the clock, whether records arrive or not. So a job that has any of them also reads Spark's `rate` source, and drops its
rows.
"""

from pyspark.sql import DataFrame, SparkSession

from mixedmode.config.calls import quoted


def with_heartbeat(session: SparkSession, frame: DataFrame) -> DataFrame:
    """Return the rows of a streaming frame, as a frame that has new data every second."""
    columns = [f"CAST(NULL AS {field.dataType.simpleString()}) AS {quoted(field.name)}" for field in frame.schema]
    beats = session.readStream.format("rate").option("rowsPerSecond", 1).load().where("false")
    return frame.union(beats.selectExpr(*columns))
