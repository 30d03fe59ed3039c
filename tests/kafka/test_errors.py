"""Error texts of Spark and of Kafka's clients become messages. Neither of them runs here."""

import pytest

from mixedmode.connectors.kafka.errors import kafka_problem
from mixedmode.errors import InvalidJobError, MixedmodeError, RetryableError

LOSS = "[KAFKA_DATA_LOSS.{}] Some data may have been lost because they are not available in Kafka any more; Reason: {}"
CASES: list[tuple[str, type[MixedmodeError], str]] = [
    (
        LOSS.format("COULD_NOT_READ_OFFSET_RANGE", "Could not read records in offset [3, 7) for topic partition a-b-0"),
        InvalidJobError,
        "no longer has records .* topic=a-b, partition=0, offsets=\\[3, 7\\) or a part of them",
    ),
    (
        LOSS.format("PARTITION_OFFSET_CHANGED", "Partition a-b-0 offset was changed from 10 to 5. This could be"),
        InvalidJobError,
        "deleted and made anew, .* which is not read. topic=a-b, partition=0, read_up_to=10, ends_at=5$",
    ),
    (
        LOSS.format("PARTITIONS_DELETED", "Partitions Set(a-1, a-2) have been deleted."),
        InvalidJobError,
        "partitions deleted=Set\\(a-1, a-2\\)$",
    ),
    (
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this topic",
        InvalidJobError,
        "or correct its name$",
    ),
    (
        "TimeoutException: Topic totals not present in metadata after 60000 ms.",
        InvalidJobError,
        "or correct its name. topic=totals$",
    ),
    (
        "Caused by: org.apache.kafka.common.errors.RecordTooLargeException: The message is 2700186 bytes\n\tat",
        InvalidJobError,
        "sends the epoch, which is committed. cause=The message is 2700186 bytes$",
    ),
    (
        "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: Timed out waiting",
        RetryableError,
        "Kafka's brokers do not answer",
    ),
]


@pytest.mark.parametrize(("text", "kind", "message"), CASES)
def test_a_text_of_kafka_is_told_as_what_to_do(text: str, kind: type[MixedmodeError], message: str) -> None:
    found = kafka_problem(text)
    assert type(found) is kind
    with pytest.raises(kind, match=message):
        raise found


def test_other_texts_are_not_of_kafka() -> None:
    assert kafka_problem("org.apache.spark.SparkException: the disk is full") is None
