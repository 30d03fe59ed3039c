"""The jars of Spark's Kafka connector and Avro module."""

from importlib.metadata import version
from pathlib import Path

from mixedmode.spark.jars import Jars, fetch, for_this_spark

_SPARK = "org.apache.spark"
_CONNECTOR = f"{_SPARK}:spark-sql-kafka-0-10_2.13"
#: Not every release of Spark has all of its Kafka modules in the repositories. These connectors run on Spark 4.1, and
#: on 4.2 and 4.3. The token provider that they depend on is not available, and an older one works as well.
_CONNECTORS_KNOWN_TO_WORK = {"4.1": "4.1.3", "later": "4.2.0"}
_AVRO_KNOWN_TO_WORK = "4.1.1"  # on Spark 4.1 to 4.3
_TOKEN_PROVIDER_KNOWN_TO_WORK = f"{_SPARK}:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1"


def kafka_connector() -> list[Path]:
    """Fetch Spark's Kafka connector, for `spark.jars`: in PySpark's version, else in a version that is known to work.

    The version is chosen once. To choose again, remove the set's folder from the cache.
    """
    own = Jars((f"{_CONNECTOR}:{version('pyspark')}",))
    line = version("pyspark").rpartition(".")[0]
    works = _CONNECTORS_KNOWN_TO_WORK.get(line, _CONNECTORS_KNOWN_TO_WORK["later"])
    known = Jars((f"{_CONNECTOR}:{works}",), overrides=(_TOKEN_PROVIDER_KNOWN_TO_WORK,))
    return fetch(for_this_spark("kafka-connector"), [own, known])


def spark_avro() -> list[Path]:
    """Fetch Spark's Avro module, for `spark.jars`: in PySpark's version, else in a version that is known to work."""
    own, known = (Jars((f"{_SPARK}:spark-avro_2.13:{of}",)) for of in (version("pyspark"), _AVRO_KNOWN_TO_WORK))
    jars = fetch(for_this_spark("avro"), [own, known])
    return [jar for jar in jars if jar.name.startswith("spark-avro")]
