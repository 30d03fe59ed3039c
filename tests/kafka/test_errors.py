"""Error texts of Spark and of Kafka's clients become messages. Neither of them runs here."""

import pytest

from mixedmode.connectors.kafka.errors import kafka_problem, without_connector
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
        "deleted and made anew, .* or in the seam is too great.* topic=a-b, partition=0, goes_on_at=10, ends_at=5$",
    ),
    (
        LOSS.format("PARTITIONS_DELETED", "Partitions Set(a-1, a-2) have been deleted."),
        InvalidJobError,
        "or the source no longer names it.* partitions=a-1, a-2$",
    ),
    (
        LOSS.format("INITIAL_OFFSET_NOT_FOUND", "Cannot find initial offsets for partitions HashSet(a-1). They may"),
        InvalidJobError,
        "or the source no longer names it.* partitions=a-1$",
    ),
    (
        "start offsets don't match what are assigned.\nSpecified: Set(a-0) Assigned: Set(a-0, a-1) X",
        InvalidJobError,
        "the offsets of a seam, must name every partition .* given=a-0, existing=a-0, a-1$",
    ),
    (
        "Failed to construct kafka consumer\nCaused by: org.apache.kafka.ConfigException: Invalid value abc",
        InvalidJobError,
        "Kafka's client does not start with these `options` .* cause=Invalid value abc$",
    ),
    (
        "terminated with exception: No enum constant org.apache.kafka.common.IsolationLevel.READ_ALL SQLSTATE: XXKST",
        InvalidJobError,
        "does not start with these `options` .* cause=No enum constant .*IsolationLevel.READ_ALL$",
    ),
    (
        "org.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient",
        InvalidJobError,
        "does not start with these `options` .* cause=Failed to create new KafkaAdminClient$",
    ),
    (
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this topic",
        InvalidJobError,
        "or correct its name. cause=UnknownTopicOrPartitionException$",
    ),
    (
        "TimeoutException: Topic totals not present in metadata after 60000 ms.",
        InvalidJobError,
        "or correct its name. cause=Topic totals not present in metadata$",
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


@pytest.mark.parametrize(
    "text",
    [
        "\nKafka option 'x' is not supported.\nInstead set y.",
        "An error occurred while calling o5.load.\n: Kafka option 'x' is not supported.\n\tat org.apache",
    ],
)
def test_settings_that_spark_refuses_are_told_in_its_first_line_about_them(text: str) -> None:
    found = without_connector("sources.t", ValueError(text))
    assert str(found).endswith("refuses these settings of Kafka. cause=Kafka option 'x' is not supported.")
