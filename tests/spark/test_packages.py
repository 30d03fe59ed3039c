"""The jars that a session gets for the connectors of a job."""

from typing import Any

import pytest

from mixedmode.config import job_spec_from_mapping
from mixedmode.spark.packages import connector_settings
from tests.services.fixtures import need_kafka

KAFKA: dict[str, Any] = {
    "format": "kafka",
    "bootstrap-servers": "127.0.0.1:9092",
    "topics": ["t"],
    "value": {"format": "json", "schema": "k string"},
}
FILES = {"format": "parquet", "path": "in", "schema": "k string"}


def settings(source: dict[str, Any], **spark: str) -> dict[str, str]:
    mapping = {
        "name": "j",
        "execution": {"checkpointing": {"dir": "c"}},
        "spark": spark,
        "sources": {"t": source},
        "steps": [{"key-by": ["k"], "aggregate": {"n": "count(*)"}}],
        "sink": {"format": "console"},
    }
    return connector_settings(job_spec_from_mapping(mapping))


def jars(source: dict[str, Any]) -> list[str]:
    """Names of modules of Spark's among the jars."""
    found = settings(source)["spark.jars"].split(",")
    return sorted(path.rsplit("/", 1)[1].split("_2.13")[0] for path in found if "_2.13" in path)


def test_files_need_nothing() -> None:
    assert settings(FILES) == {}


def test_a_job_with_kafka_gets_the_connector_also_where_it_is_a_part_of_a_source() -> None:
    need_kafka()
    connector = ["spark-sql-kafka-0-10", "spark-token-provider-kafka-0-10"]
    assert jars(KAFKA) == connector
    seam = {"timestamp": "2024-01-01T00:00:00Z", "column": "k"}
    assert jars({"history": FILES, "live": KAFKA, "seam": seam}) == connector


def test_avro_values_need_a_module_more() -> None:
    need_kafka()
    value = {"format": "avro", "schema": '{"type": "record", "name": "r", "fields": [{"name": "k", "type": "string"}]}'}
    assert "spark-avro" in jars({**KAFKA, "value": value})


@pytest.mark.parametrize("setting", ["jars", "jars.packages"])
def test_a_job_that_says_what_spark_loads_gets_no_more(setting: str) -> None:
    assert settings(KAFKA, **{setting: ""}) == {}
