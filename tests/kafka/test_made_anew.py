"""Topics that are deleted and made anew under their names, on a real broker."""

import itertools
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.connectors.kafka.admin import topic_ids
from mixedmode.driver.restoring import restore_savepoint
from mixedmode.driver.savepoints import take_savepoint
from mixedmode.driver.topic_ids import TopicIds
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.job import Job, Source
from tests.harness import manifests, output_rows, run
from tests.kafka.records import DDL, Orders, job, parquet
from tests.services.fixtures import Kafka

pytestmark = pytest.mark.spark


def ids(base: Path) -> list[int]:
    return sorted(row["id"] for row in output_rows(base / "out"))


def passed_on(base: Path, orders: Orders, **settings: Any) -> Job:
    """A job that gives the ids of the orders that it reads."""
    return job(base, orders.source(**settings)).sql("SELECT id FROM t").write(parquet(base))


def made_anew(orders: Orders, count: int) -> None:
    """Delete the topic, and make it anew with so many other orders."""
    orders.kafka.delete_topic(orders.topic)
    orders.kafka.create_topic(orders.topic)
    orders.add(count, is_new=True)


def test_a_topic_made_anew_with_more_records_is_refused_and_goes_on_if_loss_is_allowed(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    orders = Orders.new(kafka, partitions=1)
    orders.add(10)
    run(passed_on(tmp_path, orders), spark)
    (manifest,) = manifests(tmp_path / "checkpoints")
    before = manifest.topic_ids["t"][orders.topic]
    orders.add(5)
    run(passed_on(tmp_path, orders), spark)  # the same topic, and it is read on
    savepoint = str(tmp_path / "savepoint")
    take_savepoint(passed_on(tmp_path, orders).spec, savepoint)
    made_anew(orders, 20)
    committed = manifests(tmp_path / "checkpoints")
    with pytest.raises(InvalidJobError) as error:
        run(passed_on(tmp_path, orders), spark)
    assert "sources.t: a topic is not the one that this job has read, although it has the same name" in str(error.value)
    assert f"topics={orders.topic}, ids_now=" in str(error.value)
    assert str(error.value).endswith(f", ids_before={before}")
    assert manifests(tmp_path / "checkpoints") == committed
    other = passed_on(tmp_path / "other", orders)
    with pytest.raises(InvalidJobError, match="a topic is not the one that this job has read"):
        restore_savepoint(savepoint, other.spec, other.where, session=spark)
    assert not manifests(tmp_path / "other" / "checkpoints")

    recording = run(passed_on(tmp_path, orders, allow_data_loss=True), spark)
    (notice,) = (text for text in recording.notices if "allow-data-loss" in text)
    assert f"topics={orders.topic}, ids_now=" in notice
    assert ids(tmp_path) == [*range(1, 16), *range(31, 36)], "15 records of the new topic are skipped"
    assert manifests(tmp_path / "checkpoints")[-1].topic_ids["t"][orders.topic] != before
    orders.add(1, is_new=True)
    run(passed_on(tmp_path, orders), spark)  # the new topic is the one that the job reads now
    assert ids(tmp_path) == [*range(1, 16), *range(31, 37)]


@pytest.mark.parametrize("is_first", [True, False])
def test_no_epoch_is_committed_whose_topic_is_made_anew_before_its_tasks_read(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    orders = Orders.new(kafka, partitions=1)
    orders.add(10)
    if not is_first:
        run(passed_on(tmp_path, orders), spark)
        orders.add(5)
    look = TopicIds.look

    def looked(self: TopicIds, before: str, now: str) -> None:
        look(self, before, now)
        made_anew(orders, 30)

    with monkeypatch.context() as patch:
        patch.setattr(TopicIds, "look", looked)
        with pytest.raises(InvalidJobError, match=f"topics={orders.topic}, ids_now="):
            run(passed_on(tmp_path, orders), spark)
    assert len(manifests(tmp_path / "checkpoints")) == (0 if is_first else 1)
    assert ids(tmp_path) == ([] if is_first else list(range(1, 11)))
    if is_first:
        run(passed_on(tmp_path, orders), spark)  # nothing was committed, so it begins with the new topic
        assert ids(tmp_path) == list(range(11, 41))


def test_a_first_epoch_that_began_within_a_topic_is_not_repeated_over_another_one(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is committed, so no manifest has the ids. The first records of the new topic would never be read."""
    orders = Orders.new(kafka, partitions=1)
    orders.add(10)

    def killed(*_: object) -> None:
        msg = "killed"
        raise RetryableError(msg)

    with monkeypatch.context() as patch:
        patch.setattr(TopicIds, "check_read", killed)
        with pytest.raises(RetryableError, match="killed"):
            run(passed_on(tmp_path, orders, starting="latest"), spark)
    run_again = partial(run, passed_on(tmp_path, orders, starting="latest"), spark)
    made_anew(orders, 30)
    for _ in range(2):
        with pytest.raises(InvalidJobError, match=rf"topics={orders.topic}, ids_now=.*, ids_before="):
            run_again()
    assert not manifests(tmp_path / "checkpoints")
    rmtree(tmp_path / "checkpoints" / "spark")  # nothing is planned any more, so it begins as told
    run_again(feed=[lambda: orders.add(2)])
    assert ids(tmp_path) == [41, 42]


def test_of_a_pattern_a_new_topic_is_read_and_one_made_anew_is_refused(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    orders = Orders.new(kafka, partitions=1)
    orders.add(3)
    later = Orders(kafka, f"{orders.topic}-more", _ids=itertools.count(100))

    def new_topic() -> None:
        kafka.create_topic(later.topic)
        later.add(3, is_new=True)

    pattern = f"{orders.topic}.*"
    source = Source.kafka(bootstrap_servers=kafka.bootstrap_servers, topic_pattern=pattern, value="json", schema=DDL)
    steps = job(tmp_path, source).sql("SELECT id FROM t").write(parquet(tmp_path))
    run(steps, spark, feed=[new_topic])
    assert manifests(tmp_path / "checkpoints")[-1].topic_ids["t"].keys() == {orders.topic, later.topic}
    run(steps, spark)
    made_anew(later, 5)
    with pytest.raises(InvalidJobError, match=f"topics={later.topic}, ids_now="):
        run(steps, spark)
    assert ids(tmp_path) == [1, 2, 3, 100, 101, 102]


def test_a_topic_of_which_nothing_was_read_may_be_made_anew(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    orders, other = Orders.new(kafka, partitions=1), Orders.new(kafka, partitions=1)
    other.add(2)
    servers = kafka.bootstrap_servers
    source = Source.kafka([orders.topic, other.topic], bootstrap_servers=servers, value="json", schema=DDL)
    steps = job(tmp_path, source).sql("SELECT id FROM t").write(parquet(tmp_path))
    run(steps, spark)
    made_anew(orders, 3)
    run(steps, spark)
    assert ids(tmp_path) == sorted([1, 2, 1, 2, 3])


def test_a_topic_that_does_not_exist_has_no_id(spark: SparkSession, kafka: Kafka) -> None:
    topic, servers = kafka.new_topic(), {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    assert topic_ids(spark, servers, [topic, "no-such-topic"]).keys() == {topic}
    with pytest.raises(InvalidJobError, match="Kafka's client does not start with these `options`"):
        topic_ids(spark, {**servers, "kafka.security.protocol": "NOPE"}, [topic])
