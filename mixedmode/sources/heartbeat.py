"""A source without records that makes Spark begin an epoch although nothing has arrived, for what goes by the clock.

Spark runs an epoch when some source has something new. Processing-time timers, early results and idle sources are due
when the clock says so, whether records come or not; so a job that has any of them reads Spark's `rate` source beside
its own, and drops its rows.
"""

from pyspark.sql import DataFrame, SparkSession

from mixedmode.spark.frames import quoted


def with_heartbeat(session: SparkSession, frame: DataFrame) -> DataFrame:
    """The rows of a streaming frame, which has something new in every second."""
    columns = [f"CAST(NULL AS {field.dataType.simpleString()}) AS {quoted(field.name)}" for field in frame.schema]
    beats = session.readStream.format("rate").option("rowsPerSecond", 1).load().where("false")
    return frame.union(beats.selectExpr(*columns))
