"""Records that cannot be decoded: the job stops and says which, or each of them is in the dead letters once."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK, output_changes, output_rows, run, write_parquet
from tests.kafka.records import DDL, Orders, by_customer, job, parquet, summed
from tests.services.fixtures import Kafka, Record

pytestmark = pytest.mark.spark

BAD = (b"", b"not json", b'{"id": "one"}', b'{"id": 1}{"id": 2}', b"[]", b"null", b'{"customer": "\xff"}')


def produce_bad(orders: Orders, partition: int = 0) -> list[tuple[int, int, bytes]]:
    """(partition, offset, value) of one bad record of each kind."""
    end = orders.kafka.offsets(orders.topic)[partition][1]
    orders.kafka.produce(orders.topic, [Record(value, partition=partition) for value in BAD])
    return [(partition, end + number, value) for number, value in enumerate(BAD)]


def found(folder: Path) -> list[tuple[int, int, bytes]]:
    return sorted((row["partition"], row["offset"], row["value"]) for row in output_changes(folder))


@pytest.mark.parametrize("mode", ["batch", pytest.param("streaming", marks=pytest.mark.soak), "mixed"])
def test_each_is_in_the_dead_letters_once_and_the_others_are_rows(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, mode: str
) -> None:
    orders = Orders.new(kafka)
    orders.add(100)
    bad = produce_bad(orders)
    orders.add(100)
    settings: dict[str, Any] = {"undecodable": "dead-letter", "dead_letter": Sink.parquet(tmp_path / "dead")}
    if mode == "streaming":
        settings["max_records_per_epoch"] = 50

    def live() -> None:
        bad.extend(produce_bad(orders, 1))
        orders.add(10)

    steps = summed(job(tmp_path, orders.source(**settings), mode=mode), parquet(tmp_path))
    run(steps, spark, feed=[] if mode == "batch" else [live])
    assert by_customer(output_rows(tmp_path / "out")) == orders.answer()
    assert found(tmp_path / "dead") == sorted(bad)
    rows = output_changes(tmp_path / "dead")
    assert {row["topic"] for row in rows} == {orders.topic}
    assert {row["reason"] for row in rows} == {
        "its value is not one JSON object that fits the schema",
        "its value is not UTF-8 text",
    }


def test_each_source_has_its_own_also_where_two_read_one_topic(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    """By a pattern that means something else in Python, and with other columns."""
    topic = f"{kafka.new_topic()}-a"
    kafka.create_topic(topic)
    pattern = f"{topic[:-1]}[a-z&&[^b]]"
    dead = {name: Sink.parquet(tmp_path / f"dead-{name}") for name in "tu"}
    given: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers, "undecodable": "dead-letter"}
    named = Source.kafka(topic, value="json", schema="v long", dead_letter=dead["t"], **given)
    matched = Source.kafka(topic_pattern=pattern, value="csv", schema="v long", dead_letter=dead["u"], **given)
    kafka.produce(topic, [Record(b"1"), Record(b"x")])
    steps = Job(
        "two",
        sources={"t": named, "u": matched},
        mode="mixed",
        checkpoint_dir=tmp_path / "checkpoints",
        checkpoint_interval="100ms",
        spark=SPARK,
    )
    steps = steps.sql("SELECT v FROM t UNION ALL SELECT v FROM u").write(parquet(tmp_path))
    run(steps, spark, feed=[lambda: kafka.produce(topic, [Record(b'{"v": 2}'), Record(b"3")])])
    assert sorted(row["v"] for row in output_rows(tmp_path / "out")) == [1, 2, 3]
    assert [at for _, at, _ in found(tmp_path / "dead-t")] == [0, 1, 3]
    assert [at for _, at, _ in found(tmp_path / "dead-u")] == [1, 2]


def test_the_live_side_of_a_history_has_its_own_from_the_seam_on(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    orders = Orders.new(kafka, partitions=1)
    kafka.produce(orders.topic, [Record(b"before the seam"), Record(b"x"), Record(b'{"v": 2}')])
    write_parquet(tmp_path / "history", "1.parquet", pa.table({"v": [1]}))
    settings: dict[str, Any] = {"undecodable": "dead-letter", "dead_letter": Sink.parquet(tmp_path / "dead")}
    live = Source.kafka(
        orders.topic, bootstrap_servers=kafka.bootstrap_servers, value="json", schema="v long", **settings
    )
    source = Source.history_and_live(Source.parquet(tmp_path / "history"), live, seam={orders.topic: {0: 1}})
    steps = job(tmp_path, source).sql("SELECT v FROM t").write(parquet(tmp_path))
    run(steps, spark, feed=[lambda: kafka.produce(orders.topic, [Record(b"y"), Record(b'{"v": 3}')])])
    assert sorted(row["v"] for row in output_rows(tmp_path / "out")) == [1, 2, 3]
    assert [value for _, _, value in found(tmp_path / "dead")] == [b"x", b"y"]


def test_they_stay_once_each_when_a_topic_is_no_longer_read(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    kept, gone = Orders.new(kafka, partitions=1), Orders.new(kafka, partitions=1)
    settings: dict[str, Any] = {"undecodable": "dead-letter", "dead_letter": Sink.parquet(tmp_path / "dead")}
    settings |= {"bootstrap_servers": kafka.bootstrap_servers, "value": "json", "schema": DDL, "allow_data_loss": True}
    bad = produce_bad(kept)
    steps = job(tmp_path, Source.kafka([kept.topic, gone.topic], **settings))
    run(steps.sql("SELECT id FROM t").write(parquet(tmp_path)), spark)
    bad += produce_bad(kept)
    run(job(tmp_path, Source.kafka(kept.topic, **settings)).sql("SELECT id FROM t").write(parquet(tmp_path)), spark)
    assert found(tmp_path / "dead") == sorted(bad)


def test_the_job_stops_and_says_which_record_it_is(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    orders = Orders.new(kafka)
    orders.add(3, partition=1)
    kafka.produce(orders.topic, [Record(b"oops", partition=1)])
    steps = job(tmp_path, orders.source()).sql("SELECT 1 AS one FROM t").write(parquet(tmp_path))
    with pytest.raises(InvalidJobError) as error:
        run(steps, spark)
    assert "a record of Kafka cannot be decoded, and nothing was committed" in str(error.value)
    assert f"topic={orders.topic}, partition=1, offset=3" in str(error.value)
    assert not list((tmp_path / "out").glob("part-*"))
