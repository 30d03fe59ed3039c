"""The jars of Delta Lake and Apache Iceberg."""

from pathlib import Path

from mixedmode.spark.jars import Jars, fetch, for_this_spark

#: Maven coordinates of the builds for Spark 4.1
DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"


def delta_jars() -> list[Path]:
    """Fetch Delta Lake for Spark 4.1, for `spark.jars`. It does not run on later versions of Spark."""
    jars = fetch(for_this_spark("delta-4.4.0"), [Jars((DELTA,))])
    return [jar for jar in jars if jar.name.startswith(("delta-", "unitycatalog-"))]


def iceberg_jars() -> list[Path]:
    """Fetch Iceberg for Spark 4.1, for `spark.jars`. It does not run on later versions of Spark."""
    return fetch(for_this_spark("iceberg-1.12.0"), [Jars((ICEBERG,))])
