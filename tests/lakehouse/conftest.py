"""The Spark session of these tests, with Delta Lake, Iceberg and Kafka in it; where there is no build, they skip."""

from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from mixedmode.connectors.kafka.jars import kafka_connector
from mixedmode.errors import RetryableError
from mixedmode.job import Job, Sink, Source
from mixedmode.spark.session import open_session
from tests.lakehouse.jars import delta_jars, iceberg_jars
from tests.lakehouse.tables import SPARK


@pytest.fixture(scope="session")
def jars() -> str:
    """The jars of both formats, and of the live side of a history in one of them, as Spark takes them."""
    if not pyspark.__version__.startswith("4.1."):
        pytest.skip(f"no build of Delta Lake and Iceberg for this Spark, {pyspark.__version__}; see the env lakehouse")
    try:
        return ",".join(map(str, [*delta_jars(), *iceberg_jars(), *kafka_connector()]))
    except RetryableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(jars: str, scratch_folder: Path) -> Iterator[SparkSession]:
    """The session that these tests share: as a job gets it that reads a Delta table and writes an Iceberg one."""
    sources = {"t": Source.delta(scratch_folder / "none", bounded=True)}
    job = Job("tests", sources=sources, spark={**SPARK, "jars": jars})
    spec = job.sql("SELECT * FROM t").write(Sink.iceberg(scratch_folder / "none either")).spec
    session = open_session(spec, log_folder=scratch_folder)
    yield session
    session.stop()
