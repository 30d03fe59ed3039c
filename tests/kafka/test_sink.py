"""A topic as an output, on a real broker: what a record looks like, and what a repeat of an epoch does to the topic."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.config.sinks import SinkSpec
from mixedmode.errors import InvalidJobError, MixedmodeError, RetryableError
from mixedmode.job import Sink
from tests.harness import manifests, run
from tests.kafka.records import Orders, Row, job, summed
from tests.services.fixtures import Consumed, Kafka

pytestmark = pytest.mark.spark


def topic_sink(kafka: Kafka, topic: str) -> SinkSpec:
    return Sink.kafka(topic, bootstrap_servers=kafka.bootstrap_servers)


def header(record: Consumed, name: str) -> str:
    (value,) = [value for key, value in record.headers if key == name]
    assert value is not None
    return value.decode()


def upserted(records: Sequence[Consumed]) -> dict[str, Row]:
    """{customer: its last row}, as a reader of the topic folds it; a tombstone takes it away."""
    table: dict[str, Row] = {}
    for record in records:  # by partition and offset, and a key is in one partition
        assert record.key is not None
        key = json.loads(record.key)["customer"]
        if record.value is None:
            del table[key]
        else:
            table[key] = json.loads(record.value)
    return table


def test_keyed_rows_are_upserts_in_the_order_of_their_changes(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    orders, topic = Orders.new(kafka), kafka.new_topic(3)
    orders.add(300)
    steps = summed(job(tmp_path, orders.source()), topic_sink(kafka, topic))
    run(steps, spark, feed=[lambda: orders.add(50), lambda: orders.add(50)])
    records = kafka.consume(topic)
    assert upserted(records) == orders.answer()
    committed = manifests(tmp_path / "checkpoints")
    assert len(records) == sum(m.rows_out for m in committed)
    assert {header(record, "mixedmode-job") for record in records} == {"orders"}
    assert {header(record, "mixedmode-epoch") for record in records} == {"0", "1", "2"}
    ids = [(header(record, "mixedmode-epoch"), int(header(record, "mixedmode-sequence"))) for record in records]
    assert sorted(ids) == sorted((str(m.epoch), number) for m in committed for number in range(m.rows_out))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka.acks": "2"}, "does not start with these `options` .* cause=Invalid value 2 for configuration acks"),
        ({"kafka.delivery.timeout.ms": "5"}, "does not start with these `options` .* cause=delivery.timeout.ms should"),
        ({"kafka.key.serializer": "a.B"}, "Spark refuses these settings of Kafka. cause=Kafka option 'key.serializer'"),
    ],
)
def test_options_that_no_producer_takes_are_told_before_the_first_epoch(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    orders = Orders.new(kafka)
    sink = Sink.kafka(kafka.new_topic(), bootstrap_servers=kafka.bootstrap_servers, options=options)
    with pytest.raises(InvalidJobError, match=message):
        run(job(tmp_path, orders.source()).sql("SELECT id FROM t").write(sink), spark)
    assert manifests(tmp_path / "checkpoints") == []


def test_rows_that_go_are_tombstones(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    orders, topic = Orders.new(kafka), kafka.new_topic()
    steps = job(tmp_path, orders.source()).key_by("customer").aggregate(orders="count(*)", total="sum(amount)")
    steps = steps.sql("SELECT * FROM previous WHERE total < 250").write(topic_sink(kafka, topic))
    orders.add(400)
    run(steps, spark, feed=[lambda: orders.add(200)])
    records = kafka.consume(topic)
    assert any(record.value is None for record in records)
    assert upserted(records) == {name: row for name, row in orders.answer().items() if row["total"] < 250}


def test_rows_without_a_key_have_every_type_as_json(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    orders, topic = Orders.new(kafka), kafka.new_topic()
    (row,) = orders.add(1)
    columns = (
        "id",
        "CAST(amount AS decimal(10, 2)) AS price",
        "at + INTERVAL 1 MICROSECOND AS at",
        "CAST(at AS date) AS day",
        "CAST(NULL AS string) AS nothing",
        "X'00FF' AS bytes",
        "array(id) AS ids",
        "named_struct('a', id) AS inner",
    )
    steps = job(tmp_path, orders.source()).sql(f"SELECT {', '.join(columns)} FROM t")
    run(steps.write(topic_sink(kafka, topic)), spark)
    (record,) = kafka.consume(topic)
    assert record.key is None
    assert record.value is not None
    assert json.loads(record.value) == {
        "id": row["id"],
        "price": row["amount"],
        "at": "2024-01-01T00:00:01.000001Z",
        "day": "2024-01-01",
        "nothing": None,
        "bytes": "AP8=",
        "ids": [row["id"]],
        "inner": {"a": row["id"]},
    }


@pytest.mark.parametrize(
    ("config", "options", "kind", "message"),
    [
        ({}, {"kafka.max.request.size": "500"}, InvalidJobError, "a row is larger, as a record, .* which is committed"),
        (
            {"cleanup.policy": "compact"},  # wants a key of every record
            {},
            RetryableError,
            "could not be sent to their topic, or only some of them. The epoch is committed, .* cause=.*without key",
        ),
    ],
)
def test_an_epoch_that_the_broker_does_not_take_is_committed_and_sent_later(
    spark: SparkSession,
    kafka: Kafka,
    tmp_path: Path,
    config: dict[str, str],
    options: dict[str, str],
    kind: type[MixedmodeError],
    message: str,
) -> None:
    orders, topic = Orders.new(kafka, 1), kafka.new_topic(config=config)
    orders.add(3)

    def one_start(options: dict[str, str]) -> None:
        sink = Sink.kafka(topic, bootstrap_servers=kafka.bootstrap_servers, options=options)
        run(job(tmp_path, orders.source()).sql("SELECT id, repeat('x', 900) AS text FROM t").write(sink), spark)

    with pytest.raises(kind, match=message) as caught:
        one_start(options)
    assert f"topic={topic}, epoch=0" in str(caught.value)
    assert len(manifests(tmp_path / "checkpoints")) == 1
    kafka.configure_topic(topic, {"cleanup.policy": "delete"})
    one_start({})
    assert {json.loads(record.value or b"")["id"] for record in kafka.consume(topic)} == {1, 2, 3}
