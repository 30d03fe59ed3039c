"""The jars of Delta Lake and Iceberg, fetched once for all sessions of the tests. A job gets them from Spark."""

from pathlib import Path

from mixedmode.connectors.lakehouse.kind import DELTA, ICEBERG
from mixedmode.spark.jars import Jars, fetch, for_this_spark


def delta_jars() -> list[Path]:
    """Fetch Delta Lake, for `spark.jars`."""
    jars = fetch(for_this_spark("delta-4.4.0"), [Jars((DELTA,))])
    return [jar for jar in jars if jar.name.startswith(("delta-", "unitycatalog-"))]


def iceberg_jars() -> list[Path]:
    """Fetch Iceberg, for `spark.jars`."""
    return fetch(for_this_spark("iceberg-1.12.0"), [Jars((ICEBERG,))])
