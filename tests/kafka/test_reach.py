"""The checks of topics before a job runs, against a real broker: a missing topic and a broker that does not answer."""

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.config import JobSpec
from mixedmode.driver.reach import connection_problems
from mixedmode.errors import InvalidJobError, MixedmodeError, RetryableError
from tests.services.fixtures import Kafka

pytestmark = pytest.mark.spark

#: Kafka's client asks for a missing topic, and for a broker, until this time is over
SHORT = {"kafka.default.api.timeout.ms": "1500", "kafka.request.timeout.ms": "1400", "fetchOffset.numRetries": "1"}


def problems(
    spark: SparkSession, folder: Path, servers: str, topic: str, out: str, options: Mapping[str, str] = SHORT
) -> list[MixedmodeError]:
    kafka = {"format": "kafka", "bootstrap-servers": servers}
    job = JobSpec.model_validate(
        {
            "name": "clicks",
            "execution": {"checkpointing": {"dir": str(folder)}},
            "sources": {
                "t": {**kafka, "topics": topic, "options": options, "value": {"format": "json", "schema": "k string"}}
            },
            "steps": [{"key-by": "k", "aggregate": {"n": "count(*)"}}],
            "sink": {**kafka, "topic": out, "options": options},
        }
    )
    return connection_problems(spark, job, lambda *path: ".".join(map(str, path)))


def test_topics_of_a_real_broker_are_found_and_missing_ones_are_named(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    topic, other = kafka.new_topic(), kafka.new_topic()
    assert problems(spark, tmp_path, kafka.bootstrap_servers, topic, other, options={}) == []
    found = problems(spark, tmp_path, kafka.bootstrap_servers, "no-such-source", "no-such-sink")
    assert [type(one) for one in found] == [InvalidJobError, InvalidJobError]
    for one, place, name in zip(found, ("sources.t", "sink"), ("no-such-source", "no-such-sink"), strict=True):
        assert str(one).startswith(f"{place}: a Kafka topic of the job does not exist, and the job makes none.")
        assert name in str(one)
        assert "\n" not in str(one)


def test_a_closed_port_is_a_broker_that_does_not_answer(spark: SparkSession, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{unused.getsockname()[1]}"
    found = problems(spark, tmp_path, servers, "a", "b")
    assert [type(one) for one in found] == [RetryableError, RetryableError]
    for one in found:
        assert "Kafka's brokers do not answer. See that they run" in str(one)
        assert "\n" not in str(one)
