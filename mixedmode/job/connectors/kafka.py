"""Kafka sources and sinks, in Python."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from mixedmode.config.kafka import KafkaSourceSpec
from mixedmode.config.kafka_sink import KafkaSideOutputSpec, KafkaSinkSpec
from mixedmode.config.sink_kinds import AnySink
from mixedmode.job.arguments import Duration, FileName, SparkValue, nested
from mixedmode.job.connectors.checked import checked

Offset = int | Literal["earliest", "latest"]


class KafkaSources:
    """The methods of `Source` for Kafka.

    topics: one topic or several.
    topic_pattern: instead, a Java regular expression for the names of topics, also of topics created later.
    bootstrap_servers: brokers to begin with, as `host:port,host:port`.
    value: the format of values; text and binary have one column named `value`.
    schema: columns as Spark DDL for json and csv; Avro's schema, as JSON, for avro.
    schema_file: instead, a file with Avro's schema.
    confluent_header: True if each value begins with the 5 bytes of Confluent's serializers.
    value_options: options for Spark's from_json, from_csv or from_avro.
    starting, starting_timestamp, starting_offsets: where a job without a checkpoint begins; set at most one.
    metadata: {Kafka field: column name}, such as `{"key": "customer", "partition": "kafka_partition"}`.
    key_format: the type of the key's column; text must be UTF-8.
    undecodable: for a record that cannot be decoded, `fail` stops the job, `dead-letter` writes it to a sink.
    dead_letter: the sink for these records; only with `undecodable="dead-letter"`.
    allow_data_loss: for records that Kafka deleted before they were read, True ignores them, False stops the job.
    options: options of Spark's Kafka connector; those of Kafka's consumers begin with `kafka.`.
    max_records_per_epoch: the most records that one epoch reads when a backlog takes the streaming path.
    backlog_lag_records: an epoch with more records of the source than this is backlog.

    See Source for the other arguments, and docs/kafka.md.
    """

    @staticmethod
    def kafka(  # noqa: PLR0913  # one argument per setting, by keyword
        topics: str | Sequence[str] | None = None,
        *,
        bootstrap_servers: str,
        topic_pattern: str | None = None,
        value: Literal["json", "csv", "avro", "text", "binary"],
        schema: str | None = None,
        schema_file: FileName | None = None,
        confluent_header: bool | None = None,
        value_options: Mapping[str, SparkValue] | None = None,
        starting: Literal["earliest", "latest"] | None = None,
        starting_timestamp: datetime | str | None = None,
        starting_offsets: Mapping[str, Mapping[int, Offset]] | None = None,
        metadata: Mapping[str, str] | None = None,
        key_format: Literal["text", "binary"] | None = None,
        undecodable: Literal["fail", "dead-letter"] | None = None,
        dead_letter: AnySink | None = None,
        allow_data_loss: bool | None = None,
        event_time: str | None = None,
        out_of_orderness: Duration | None = None,
        idle_timeout: Duration | None = None,
        max_ahead: Duration | Literal["none"] | None = None,
        partition_column: str | None = None,
        bounded: bool | None = None,
        options: Mapping[str, SparkValue] | None = None,
        max_records_per_epoch: int | None = None,
        backlog_lag_records: int | None = None,
    ) -> KafkaSourceSpec:
        """Return a source of one topic, several topics, or all topics whose names match a pattern.

        Needs Spark's Kafka connector (docs/kafka.md). See KafkaSources and Source for the arguments.
        """
        values: dict[tuple[str, ...], Any] = {
            ("topics",): topics,
            ("bootstrap-servers",): bootstrap_servers,
            ("topic-pattern",): topic_pattern,
            ("value", "format"): value,
            ("value", "schema"): schema,
            ("value", "schema-file"): schema_file,
            ("value", "confluent-header"): confluent_header,
            ("value", "options"): value_options,
            ("starting", "at"): starting,
            ("starting", "timestamp"): starting_timestamp,
            ("starting", "offsets"): starting_offsets,
            ("metadata",): metadata,
            ("key-format",): key_format,
            ("undecodable",): undecodable,
            ("dead-letter",): dead_letter,
            ("allow-data-loss",): allow_data_loss,
            ("event-time",): event_time,
            ("watermark", "out-of-orderness"): out_of_orderness,
            ("watermark", "idle-timeout"): idle_timeout,
            ("watermark", "max-ahead"): max_ahead,
            ("watermark", "partition-column"): partition_column,
            ("bounded",): bounded,
            ("options",): options,
            ("max-records-per-epoch",): max_records_per_epoch,
            ("backlog-lag-records",): backlog_lag_records,
        }
        return checked(KafkaSourceSpec, {"format": "kafka", **nested(values)}, place="Source.kafka")


class KafkaSinks:
    """The methods of `Sink` for Kafka."""

    @staticmethod
    def kafka(topic: str, *, bootstrap_servers: str, options: Mapping[str, SparkValue] | None = None) -> KafkaSinkSpec:
        """Return a sink that writes one record per row to a topic, at least once.

        topic: an existing topic. bootstrap_servers: `host:port,host:port`. options: options of Spark's Kafka connector.
        See docs/kafka.md for keys, headers and repeated records.
        """
        values = _sink_values(topic, bootstrap_servers, options)
        return checked(KafkaSinkSpec, values, place="Sink.kafka")


class KafkaSideOutputs:
    """The methods of `SideOutput` for Kafka."""

    @staticmethod
    def kafka(
        topic: str, *, bootstrap_servers: str, schema: str, options: Mapping[str, SparkValue] | None = None
    ) -> KafkaSideOutputSpec:
        """Return a sink that writes one record per row to a topic, at least once. See Sink.kafka."""
        values = {**_sink_values(topic, bootstrap_servers, options), "schema": schema}
        return checked(KafkaSideOutputSpec, values, place="SideOutput.kafka")


def _sink_values(topic: str, bootstrap_servers: str, options: Mapping[str, SparkValue] | None) -> dict[str, Any]:
    values: dict[tuple[str, ...], Any] = {
        ("topic",): topic,
        ("bootstrap-servers",): bootstrap_servers,
        ("options",): options,
    }
    return {"format": "kafka", **nested(values)}
