"""The broker is a real one: what is produced by another process arrives, and stays when it is killed.

That it stays when the broker is stopped is shown in test_services.py.
"""

import pytest

from tests.services.fixtures import Consumed, Kafka, Record


def values(records: list[Consumed]) -> list[bytes | None]:
    return [record.value for record in records]


def test_records_of_another_process_arrive_as_they_were(kafka: Kafka) -> None:
    topic = kafka.new_topic(partitions=2)
    kafka.produce(
        topic,
        [
            Record(b"one", key=b"a", headers=[("h", b"\x00\xff"), ("empty", None)], partition=1, timestamp_ms=1_000),
            Record(None, key=b"a", partition=1, timestamp_ms=2_000),
            Record(b"", partition=0, timestamp_ms=4_102_444_800_000),
        ],
    )
    assert kafka.consume(topic) == [
        Consumed(0, 0, None, b"", [], 4_102_444_800_000),
        Consumed(1, 0, b"a", b"one", [("h", b"\x00\xff"), ("empty", None)], 1_000),
        Consumed(1, 1, b"a", None, [], 2_000),
    ]


def test_many_records_arrive_once_each_and_in_order(kafka: Kafka) -> None:
    topic = kafka.new_topic()
    sent = [b"%d" % number for number in range(20_000)]
    kafka.produce(topic, map(Record, sent))
    assert values(kafka.consume(topic)) == sent


def test_deleted_records_are_gone_and_offsets_go_on(kafka: Kafka) -> None:
    topic = kafka.new_topic(partitions=2)
    kafka.produce(topic, [Record(b"%d" % number, partition=number % 2) for number in range(10)])
    kafka.delete_records(topic, {1: 3})
    assert kafka.offsets(topic) == {0: (0, 5), 1: (3, 5)}
    assert [(record.partition, record.value) for record in kafka.consume(topic)][5:] == [(1, b"7"), (1, b"9")]


def test_partitions_can_be_added(kafka: Kafka) -> None:
    topic = kafka.new_topic()
    kafka.produce(topic, [Record(b"before")])
    kafka.add_partitions(topic, 3)
    with kafka.producing() as producing:
        assert producing.send(topic, [Record(b"after", partition=2)]) == 1
    assert [(record.partition, record.value) for record in kafka.consume(topic)] == [(0, b"before"), (2, b"after")]


@pytest.mark.soak
def test_what_was_acknowledged_is_there_after_a_kill(own_kafka: Kafka) -> None:
    topic, broker = own_kafka.new_topic(), own_kafka.broker
    own_kafka.produce(topic, [Record(b"first")])
    broker.kill()
    assert not broker.is_running
    broker.start()
    own_kafka.produce(topic, [Record(b"second")])
    assert values(own_kafka.consume(topic)) == [b"first", b"second"]
