"""The death of a job with Kafka on both sides: what is in the topic and in the dead letters after the next start."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.connectors.kafka.jars import kafka_connector
from mixedmode.crash_points import CrashPoint
from mixedmode.job import Job
from tests.faults.in_process import dies_at
from tests.faults.processes import killed_at
from tests.harness import manifests, output_changes, run, write_text
from tests.kafka.records import DDL, Orders
from tests.kafka.test_dead_letters import found, produce_bad
from tests.kafka.test_sink import header, upserted
from tests.services.fixtures import Consumed, Kafka

pytestmark = [pytest.mark.spark, pytest.mark.faults]

JOB = """\
name: kills
execution: {runtime-mode: mixed, checkpointing: {interval: 100ms, dir: ./checkpoints}}
parallelism: 2
spark: {master: "local[2]", driver.memory: 1g, jars: "JARS"}
sources:
  t:
    format: kafka
    bootstrap-servers: "SERVERS"
    topics: SOURCE
    value: {format: json, schema: "DDL"}
    undecodable: dead-letter
    dead-letter: {format: parquet, path: ./dead}
steps:
  - key-by: customer
    aggregate: {orders: count(*), total: sum(amount)}
sink: {format: kafka, bootstrap-servers: "SERVERS", topic: SINK}
"""

Identity = tuple[int, int, int]


class KilledJob:
    """A job file in a folder, its topics, and what was produced to it."""

    def __init__(self, folder: Path, kafka: Kafka) -> None:
        self.folder, self.kafka = folder, kafka
        self.orders, self.topic = Orders.new(kafka), kafka.new_topic(2)
        self.bad: list[tuple[int, int, bytes]] = []
        text = JOB.replace("JARS", ",".join(map(str, kafka_connector())))
        values = {"SERVERS": kafka.bootstrap_servers, "SOURCE": self.orders.topic, "SINK": self.topic, "DDL": DDL}
        for name, value in values.items():
            text = text.replace(name, value)
        self.file = write_text(folder, "job.yaml", text)

    def add(self, count: int) -> None:
        self.orders.add(count)
        self.bad += produce_bad(self.orders)

    def sent(self) -> dict[Identity, list[Consumed]]:
        """Return the records by the identity in their headers; records that were sent again are together."""
        sent: dict[Identity, list[Consumed]] = {}
        for record in self.kafka.consume(self.topic):
            names = ("generation", "epoch", "sequence")
            generation, epoch, sequence = (int(header(record, f"mixedmode-{name}")) for name in names)
            sent.setdefault((generation, epoch, sequence), []).append(record)
        return sent

    def check(self) -> None:
        """Headers identify each record, the topic folds to the answer, and each dead letter is there once."""
        sent = self.sent()
        first = sorted((records[0] for records in sent.values()), key=lambda record: (record.partition, record.offset))
        assert upserted(first) == self.orders.answer()
        assert upserted(self.kafka.consume(self.topic)) == self.orders.answer(), "repeats do no harm to upserts"
        for records in sent.values():
            assert len({(record.key, record.value) for record in records}) == 1, "a repeat is the same record"
        committed = manifests(self.folder / "checkpoints")
        numbers = sorted((epoch, sequence) for _, epoch, sequence in sent)
        rows = {m.epoch: sum(file.rows for file in m.outputs if file.sink == "") for m in committed}
        assert numbers == [(epoch, number) for epoch, count in rows.items() for number in range(count)]
        assert found(self.folder / "dead") == sorted(self.bad)
        assert len(output_changes(self.folder / "dead")) == len(self.bad)


@pytest.mark.parametrize(
    ("point", "epoch", "times"),
    [
        pytest.param("before-manifest", 0, {1}, marks=pytest.mark.soak),  # tests/connectors has it
        ("kafka-sent", 1, {2}),  # all of it was sent, and the next start cannot know that
        pytest.param("after-publish", 1, {1}, marks=pytest.mark.soak),  # it can: it was noted
    ],
)
def test_what_was_sent_before_a_kill_and_what_after_it_are_told_apart(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, point: CrashPoint, epoch: int, times: set[int]
) -> None:
    job = KilledJob(tmp_path, kafka)
    job.add(300)
    if epoch:
        run(Job.from_file(job.file), spark)
        job.add(60)
    if point == "kafka-sent":  # the producer has no time to end
        killed_at(job.file, point, epoch)
    else:
        dies_at(Job.from_file(job.file), spark, point, epoch)
    job.add(20)
    run(Job.from_file(job.file), spark)
    job.check()
    of_epoch = [records for (_, of, _), records in job.sent().items() if of == epoch]
    assert {len(records) for records in of_epoch} == times


def test_an_older_checkpoint_is_gone_back_to(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    """The epoch that replaces a damaged one has the same numbers, and another generation."""
    job = KilledJob(tmp_path, kafka)
    job.add(100)
    run(Job.from_file(job.file), spark, feed=[lambda: job.add(30)])
    newest = max((tmp_path / "checkpoints" / "manifests").iterdir())
    newest.write_bytes(newest.read_bytes()[:-10])
    job.add(10)
    run(Job.from_file(job.file), spark)
    assert {generation for generation, epoch, _ in job.sent() if epoch == 1} == {1, 2}
    assert upserted(job.kafka.consume(job.topic)) == job.orders.answer()
    assert found(tmp_path / "dead") == sorted(job.bad)
