"""Options of Kafka that nothing would read, because their names are misspelt."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.config import JobSpec
from mixedmode.connectors.kafka.options import OF_LIBRDKAFKA, meant, names_of_clients
from mixedmode.driver.reach import option_problems
from tests.services.fixtures import need_kafka

NAMES = ("security.protocol", "sasl.mechanism", "acks", "retries", "max.request.size", "ssl.truststore.location")


@pytest.mark.parametrize(
    ("written", "option"),
    [
        ("kafka.securty.protocol", "kafka.security.protocol"),
        ("kafka.Security.Protocol", "kafka.security.protocol"),
        ("kakfa.security.protocol", "kafka.security.protocol"),
        ("kafka.ssl.trustore.location", "kafka.ssl.truststore.location"),
        ("kafka.max_request_size", "kafka.max.request.size"),
        ("security.protocol", "kafka.security.protocol"),
        ("acks", "kafka.acks"),
        ("MAX.REQUEST.SIZE", "kafka.max.request.size"),
        ("kafka.sasl.username", "kafka.sasl.jaas.config"),
        ("sasl.mechanisms", "kafka.sasl.mechanism"),
        ("kafka.metadata.broker.list", "bootstrap-servers"),
        ("minPartition", "minpartitions"),
        ("startingOffset", "startingoffsets"),
        *((known, None) for known in ("kafka.acks", "minPartitions", "fetchOffset.numRetries", "kafka.group.id")),
        *((unknown, None) for unknown in ("kafka.schema.registry.url", "kafka.com.example.interceptor", "tag")),
    ],
)
def test_a_misspelt_option_is_told_with_the_one_that_is_meant(written: str, option: str | None) -> None:
    assert meant([written, "kafka.retries"], NAMES) == ({} if option is None else {written: option})


@pytest.mark.spark
def test_options_of_sources_and_sinks_are_checked_without_a_broker(spark: SparkSession, tmp_path: Path) -> None:
    """The names are those of the client that Spark's connector brings."""
    need_kafka()
    kafka = {"format": "kafka", "bootstrap-servers": "127.0.0.1:1"}
    right = ["kafka.sasl.jaas.config", "kafka.fetch.max.bytes", "kafka.linger.ms", "kafka.default.api.timeout.ms"]
    of_librdkafka = ["kafka.sasl.username", "kafka.sasl.password"]
    wrong = ["kafka.sasl.mechanisms", "ssl.truststore.location", *of_librdkafka]
    source = {"topics": "t", "value": {"format": "text"}, "options": dict.fromkeys([*right, *wrong], "1")}
    job = JobSpec.model_validate(
        {
            "name": "misspelt",
            "execution": {"checkpointing": {"dir": str(tmp_path)}},
            "sources": {"t": {**kafka, **source}},
            "steps": [{"sql": "SELECT * FROM t"}],
            "sink": {**kafka, "topic": "out", "options": {"kafka.acknowledge": "1", "kafka.aks": "all"}},
        }
    )
    found = option_problems(spark, job, lambda *path: ".".join(map(str, path)))
    said = "`options` has names that neither Spark's Kafka connector nor Kafka's clients know, and they ignore them."
    meant_in_source = "kafka.sasl.mechanism, kafka.ssl.truststore.location, kafka.sasl.jaas.config"
    assert [str(one) for one in found] == [
        f"sources.t: {said} Did you mean {meant_in_source}? found={', '.join(wrong)}",
        f"sink: {said} Did you mean kafka.acks? found=kafka.aks",
    ]


@pytest.mark.spark
def test_names_of_librdkafka_stand_for_settings_that_the_clients_have(spark: SparkSession) -> None:
    need_kafka()
    known = {f"kafka.{name}" for name in names_of_clients(spark)}
    assert set(OF_LIBRDKAFKA.values()) - known == {"bootstrap-servers"}
    assert not {f"kafka.{name}" for name in OF_LIBRDKAFKA} & known
