"""Kafka over TLS, with a password that comes from the environment: it works, and is nowhere to be read afterwards."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.connectors.kafka.jars import kafka_connector
from mixedmode.driver.reach import connection_problems
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job
from mixedmode.plan.explain import explain_plan
from mixedmode_services.kafka import KafkaBroker
from tests.faults.processes import finished
from tests.harness import run, write_text
from tests.kafka.records import DDL, Orders
from tests.kafka.test_sink import upserted
from tests.services.fixtures import Kafka, need_kafka, open_folder, skip_without

pytestmark = pytest.mark.spark

PASSWORD = "Zw3i-Esel"
WRONG = "Dr3i-Esel"
SECONDS_MAX = 60.0  # for two logins, on a busy machine
JOB = """\
name: secrets
execution: {runtime-mode: mixed, checkpointing: {interval: 100ms, dir: ./checkpoints}}
parallelism: 2
spark: {master: "local[2]", driver.memory: 1g, jars: "JARS"}
sources:
  t:
    format: kafka
    bootstrap-servers: "127.0.0.1:PORT"
    topics: TOPIC
    value: {format: json, schema: "DDL"}
    options: &security
      kafka.security.protocol: SASL_SSL
      kafka.ssl.truststore.type: PEM
      kafka.ssl.truststore.location: CERTIFICATE
      kafka.sasl.mechanism: PLAIN
      kafka.sasl.jaas.config: >-
        org.apache.kafka.common.security.plain.PlainLoginModule required
        username="mixedmode" password="${env:KAFKA_PASSWORD}";
steps:
  - key-by: customer
    aggregate: {orders: count(*)}
sink:
  format: kafka
  bootstrap-servers: "127.0.0.1:PORT"
  topic: COUNTS
  options: *security
"""


@pytest.fixture
def guarded() -> Iterator[Kafka]:
    """A broker with a listener that speaks TLS and wants a password."""
    need_kafka()
    skip_without(kafka_connector)
    with open_folder() as folder, KafkaBroker(folder, password=PASSWORD) as broker:
        kafka = Kafka(broker)
        yield kafka
        kafka.close()


def explained(spark: SparkSession, file: Path) -> str:
    """Return the text that `mixedmode explain` prints."""
    job = Job.from_file(file)
    return explain_plan(job.spec, analyse(spark, job.spec, job.where).plan, cores=2)


def told_by_validate(spark: SparkSession, file: Path) -> str:
    """Return the problems that `mixedmode validate --connect` prints. Kafka has answered, so it is not asked again."""
    job = Job.from_file(file)
    started = time.monotonic()
    found = connection_problems(spark, job.spec, job.where)
    assert time.monotonic() - started < SECONDS_MAX, "a refused login is not repeated for minutes"
    assert [type(one) for one in found] == [InvalidJobError, InvalidJobError]
    text = "\n".join(map(str, found))
    check_refused(text)
    return text


def check_refused(text: str) -> None:
    """Both places are named, with what to do."""
    for place in ("sources.t", "sink"):
        assert re.search(rf"\b{place}: Kafka refuses this user\. Correct the security settings in `options`", text), (
            text
        )


def texts(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """All files below a folder."""
    yield from ((path, path.read_bytes()) for path in folder.rglob("*") if path.is_file())


def test_a_password_from_the_environment_is_used_and_not_told(
    spark: SparkSession, guarded: Kafka, tmp_path: Path
) -> None:
    orders = Orders.new(guarded)
    orders.add(50)
    counts = guarded.new_topic()
    port, certificate = str(guarded.broker.secure_port), str(guarded.broker.certificate)
    values = {"TOPIC": orders.topic, "COUNTS": counts, "PORT": port, "CERTIFICATE": certificate, "DDL": DDL}
    text = JOB.replace("JARS", ",".join(map(str, kafka_connector())))
    for name, value in values.items():
        text = text.replace(name, value)
    file = write_text(tmp_path, "job.yaml", text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_PASSWORD", PASSWORD)
        said = [explained(spark, file)]
    code, output, errors = finished("run", file, "--until-idle", environment={"KAFKA_PASSWORD": PASSWORD})
    assert code == 0, errors
    assert sum(row["orders"] for row in upserted(guarded.consume(counts)).values()) == 50
    said.append(output + errors)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_PASSWORD", WRONG)
        with pytest.raises(InvalidJobError) as refused:
            run(Job.from_file(file), spark)
        check_refused(str(refused.value))
        said.append(str(refused.value))
        said.append(told_by_validate(spark, file))
    with pytest.raises(InvalidJobError, match=r"not set\. Set it before you start the job\. variable=KAFKA_PASSWORD"):
        explained(spark, file)
    for secret in (PASSWORD, WRONG):
        assert not any(secret in text for text in said)
        assert not [path for path, data in texts(tmp_path) if secret.encode() in data]
    assert (tmp_path / "checkpoints" / "logs" / "spark.log").exists()
