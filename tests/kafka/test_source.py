"""Topics as a source, on a real broker: where it begins, what is backlog, what a record becomes, what is new later."""

import itertools
import threading
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.connectors.kafka.source import KafkaSource
from mixedmode.driver.events import RecordsExpired
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.job import Job, Source
from mixedmode.sources.kafka_offsets import Offsets
from tests.harness import ManualClock, Recording, manifests, output_rows, run
from tests.kafka.records import DDL, Orders, by_customer, job, parquet, summed
from tests.services.fixtures import Kafka, Record

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "mode", [*(pytest.param(one, marks=pytest.mark.soak) for one in ("batch", "streaming")), "mixed"]
)
def test_every_mode_sums_up_what_is_there_and_what_comes(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, mode: str
) -> None:
    orders = Orders.new(kafka)
    orders.add(500)
    limit = {"max_records_per_epoch": 200} if mode == "streaming" else {}
    feed = [] if mode == "batch" else [lambda: orders.add(30), lambda: orders.add(20)]
    run(summed(job(tmp_path, orders.source(**limit), mode=mode), parquet(tmp_path)), spark, feed=feed)
    assert by_customer(output_rows(tmp_path / "out")) == orders.answer()
    if mode == "mixed":
        assert [(m.is_backlog, m.records_in) for m in manifests(tmp_path / "checkpoints")] == [
            (True, 500),
            (False, 30),
            (False, 20),
        ]
    if mode == "streaming":
        assert len(manifests(tmp_path / "checkpoints")) > 3, "the backlog came in epochs of limited size"


def ids(base: Path) -> list[int]:
    return sorted(row["id"] for row in output_rows(base / "out"))


def passed_on(base: Path, orders: Orders, **settings: Any) -> Job:
    """A job that gives the ids of the orders that it reads."""
    return job(base, orders.source(**settings)).sql("SELECT id FROM t").write(parquet(base))


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        ({}, 1),
        ({"starting": "latest"}, 11),
        ({"starting_timestamp": "1970-01-01T00:00:06Z"}, 6),
        ({"starting_timestamp": "1980-01-01T00:00:00Z"}, 11),
        ({"starting_offsets": {0: 8}}, 9),
    ],
)
def test_it_begins_where_it_is_told_to(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, settings: dict[str, Any], first: int
) -> None:
    orders = Orders.new(kafka, partitions=1)
    kafka.produce(orders.topic, [orders.record(row, timestamp_ms=1000 * row["id"]) for row in orders.rows(10)])
    if "starting_offsets" in settings:
        settings = {"starting_offsets": {orders.topic: settings["starting_offsets"]}}
    run(passed_on(tmp_path, orders, **settings), spark, feed=[lambda: orders.add(1)])
    assert ids(tmp_path) == list(range(first, 12))


def test_offsets_have_to_name_every_partition(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    orders = Orders.new(kafka)
    with pytest.raises(InvalidJobError, match=r"starting\.offsets of a Kafka source, or .* must name every partition"):
        run(passed_on(tmp_path, orders, starting_offsets={orders.topic: {0: 0}}), spark)


def test_what_kafka_knows_of_a_record_can_be_columns(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.new_topic(2)
    headers = [("trace", b"\x01"), ("trace", None)]
    record = Record(b"a", key=b"k", headers=headers, partition=1, timestamp_ms=1_000)
    kafka.produce(topic, [record, Record(None, partition=0)])
    names = {name: f"k_{name}" for name in ("topic", "partition", "offset", "timestamp", "key", "headers")}
    source = Source.kafka(topic, bootstrap_servers=kafka.bootstrap_servers, value="text", metadata=names)
    steps = job(tmp_path, source).sql("SELECT * FROM t").write(parquet(tmp_path))
    run(steps, spark)
    tombstone, row = sorted(output_rows(tmp_path / "out"), key=lambda row: row["k_partition"])
    assert (row["value"], row["k_key"], row["k_topic"], row["k_partition"], row["k_offset"]) == ("a", "k", topic, 1, 0)
    assert row["k_timestamp"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert row["k_headers"] == [{"key": "trace", "value": b"\x01"}, {"key": "trace", "value": None}]
    assert (tombstone["value"], tombstone["k_key"], tombstone["k_headers"]) == (None, None, None)


def test_topics_of_a_pattern_and_new_partitions_are_picked_up(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    name = kafka.new_topic(1)
    orders = Orders(kafka, name)
    orders.add(5)
    later = Orders(kafka, f"{name}-more", _ids=itertools.count(100))

    def new_partition() -> None:
        kafka.add_partitions(name, 3)
        orders.add(5, partition=2, is_new=True)

    def new_topic() -> None:
        kafka.create_topic(later.topic)
        later.add(5, is_new=True)

    servers = kafka.bootstrap_servers
    source = Source.kafka(bootstrap_servers=servers, topic_pattern=f"{name}.*", value="json", schema=DDL)
    steps = job(tmp_path, source).sql("SELECT id FROM t").write(parquet(tmp_path))
    run(steps, spark, feed=[new_partition, new_topic])
    assert ids(tmp_path) == sorted(row["id"] for row in (*orders.produced, *later.produced))


def test_partitions_have_watermarks_of_their_own_and_a_silent_one_is_not_waited_for(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    orders, clock = Orders.new(kafka), ManualClock()
    source = orders.source(
        metadata={"partition": "p"}, event_time="at", partition_column="p", idle_timeout="10m", max_ahead="none"
    )
    steps = job(tmp_path, source).key_by("customer").window(tumbling="1m").aggregate(n="count(*)")
    steps = steps.write(parquet(tmp_path))

    def watermark() -> datetime:
        watermark_us = manifests(tmp_path / "checkpoints")[-1].watermark_us
        assert watermark_us is not None
        return datetime.fromtimestamp(watermark_us / 1e6, UTC)

    seen: list[datetime] = []
    (slow,) = orders.add(1, partition=0)
    (fast,) = orders.add(1, partition=1)

    def silent() -> None:
        seen.append(watermark())
        clock.time_ms += 11 * 60_000
        seen.extend(row["at"] for row in orders.add(1, partition=1))

    def new_partition() -> None:
        seen.append(watermark())
        kafka.add_partitions(orders.topic, 3)
        orders.add(1, partition=2, is_new=True)

    run(steps, spark, clock=clock, feed=[silent, new_partition])
    assert seen[0] == slow["at"], "the slower of the two"
    assert seen[2] == seen[1] > fast["at"], "the slower one has been silent for too long"
    assert set(manifests(tmp_path / "checkpoints")[-1].sources["t"].splits) == {"0", "1", "2"}


def test_expired_records_stop_the_job_and_it_says_which(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    orders = Orders.new(kafka, partitions=1)
    orders.add(10)
    run(passed_on(tmp_path, orders), spark)
    orders.add(10)
    kafka.delete_records(orders.topic, {0: 15})
    with pytest.raises(InvalidJobError) as error:
        run(passed_on(tmp_path, orders), spark)
    assert "Kafka no longer has records that this job has yet to read" in str(error.value)
    assert f"topic={orders.topic}, partition=0, offsets=[10, 20) or a part of them" in str(error.value)
    assert ids(tmp_path) == list(range(1, 11))
    recording = Recording()
    run(passed_on(tmp_path, orders, allow_data_loss=True), spark, observer=recording)
    assert ids(tmp_path) == [*range(1, 11), *range(16, 21)]
    expired = [event for event in recording.events if isinstance(event, RecordsExpired)]
    assert expired == [RecordsExpired("t", orders.topic, 0, 10, 15)]
    assert expired[0].text.endswith(f"source=t, topic={orders.topic}, partition=0, offsets=[10, 15)")


@pytest.mark.parametrize("mode", ["mixed", "batch"])
def test_records_that_expire_while_they_are_read_are_told(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    orders = Orders.new(kafka, partitions=1)
    orders.add(20)
    ask = KafkaSource.first_offsets

    def asked(self: KafkaSource, partitions: Mapping[str, Collection[int]]) -> Offsets:
        found = ask(self, partitions)
        kafka.delete_records(orders.topic, {0: 15})
        return found

    monkeypatch.setattr(KafkaSource, "first_offsets", asked)
    recording = Recording()
    source = orders.source(allow_data_loss=True)
    steps = job(tmp_path, source, mode=mode).sql("SELECT id FROM t").write(parquet(tmp_path))
    run(steps, spark, observer=recording)
    assert ids(tmp_path) == list(range(16, 21))
    expired = [event for event in recording.events if isinstance(event, RecordsExpired)]
    assert expired == [RecordsExpired("t", orders.topic, 0, 0, 15, while_read=True)]
    assert "while this job read them, and those that it had not read yet are skipped" in expired[0].text


def in_transaction(kafka: Kafka, topic: str, records: Iterable[Record], *, commits: bool) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"of-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for record in records:
        producer.produce(topic, record.value, key=record.key)
    producer.flush(30)
    (producer.commit_transaction if commits else producer.abort_transaction)(30)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_offsets_without_a_record_are_no_loss(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, isolation: str
) -> None:
    """Spark skips the marks of transactions, and does not count them as missing."""
    orders = Orders.new(kafka, partitions=1)
    said: list[bool] = []
    ask = KafkaSource.has_skipped

    def asked(self: KafkaSource) -> bool:
        said.append(ask(self))
        return said[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KafkaSource, "has_skipped", asked)
        for commits in (True, False, True):
            in_transaction(kafka, orders.topic, [orders.record(row) for row in orders.rows(5)], commits=commits)
        source = orders.source(allow_data_loss=True, options={"kafka.isolation.level": isolation})
        run(job(tmp_path, source).sql("SELECT id FROM t").write(parquet(tmp_path)), spark)
    aborted = [] if isolation == "read_committed" else range(6, 11)
    assert ids(tmp_path) == sorted([*range(1, 6), *aborted, *range(11, 16)])
    assert said
    assert not any(said)


def test_a_topic_that_is_not_there_and_a_broker_that_does_not_answer(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    missing = Orders(kafka, "there-is-no-such-topic")
    with pytest.raises(InvalidJobError, match="a Kafka topic of the job does not exist, and the job makes none"):
        run(passed_on(tmp_path / "a", missing), spark)
    away = {"kafka.default.api.timeout.ms": "1000", "kafka.request.timeout.ms": "900", "fetchOffset.numRetries": "1"}
    source = Source.kafka("t", bootstrap_servers="127.0.0.1:9", value="text", options=away)
    steps = job(tmp_path / "b", source).sql("SELECT * FROM t").write(parquet(tmp_path / "b"))
    with pytest.raises(RetryableError, match="Kafka's brokers do not answer"):
        run(steps, spark)


@pytest.mark.soak  # tests/connectors has it of each source
def test_the_flip_comes_although_records_keep_coming(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    """The end of the backlog is fixed when the job starts; what is produced meanwhile is live."""
    orders, stop = Orders.new(kafka), threading.Event()
    orders.add(2_000)
    with kafka.producing() as producing:

        def produce() -> None:
            while not stop.is_set():
                rows = orders.rows(100)
                producing.send(orders.topic, [orders.record(row) for row in rows])
                orders.produced += rows

        producer = threading.Thread(target=produce)
        recording = Recording(on_commit=lambda event: stop.set() if event.epoch == 2 else None)
        producer.start()
        try:
            run(summed(job(tmp_path, orders.source()), parquet(tmp_path)), spark, observer=recording)
        finally:
            stop.set()
            producer.join()
    assert len(recording.flips) == 1
    backlog, *live = manifests(tmp_path / "checkpoints")
    assert backlog.is_backlog
    assert live
    assert 2_000 <= backlog.records_in < sum(m.records_in for m in (backlog, *live))
    run(summed(job(tmp_path, orders.source()), parquet(tmp_path)), spark)
    assert by_customer(output_rows(tmp_path / "out")) == orders.answer()
