"""Kafka sources and sinks, in Python."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, Required, TypedDict, Unpack

from mixedmode.config.sinks import SinkSpec
from mixedmode.connectors.calls import FileName, SourceArguments, SparkValue, checked
from mixedmode.connectors.kafka.kind import KIND
from mixedmode.connectors.kafka.sink_spec import KafkaSinkSpec
from mixedmode.connectors.kafka.source_spec import KafkaSourceSpec

Offset = int | Literal["earliest", "latest"]


class KafkaSourceArguments(SourceArguments, total=False):
    """Arguments of Kafka sources, with those of SourceArguments. docs/kafka.md is the guide.

    bootstrap_servers: brokers to begin with, as `host:port,host:port`.
    topic_pattern: instead of topics, a Java regular expression for their names, also of topics created later.
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
    max_records_per_epoch: the most records that one epoch reads when a backlog uses the streaming strategy.
    backlog_lag_records: an epoch with more records of the source than this is backlog.
    """

    bootstrap_servers: Required[str]
    topic_pattern: str
    value: Required[Literal["json", "csv", "avro", "text", "binary"]]
    schema: str
    schema_file: FileName
    confluent_header: bool
    value_options: Mapping[str, SparkValue]
    starting: Literal["earliest", "latest"]
    starting_timestamp: datetime | str
    starting_offsets: Mapping[str, Mapping[int, Offset]]
    metadata: Mapping[str, str]
    key_format: Literal["text", "binary"]
    undecodable: Literal["fail", "dead-letter"]
    dead_letter: SinkSpec
    allow_data_loss: bool
    options: Mapping[str, SparkValue]
    max_records_per_epoch: int
    backlog_lag_records: int


class KafkaSinkArguments(TypedDict, total=False):
    """Arguments of Kafka sinks. docs/kafka.md is the guide, also to keys, headers and repeated records.

    bootstrap_servers: brokers to begin with, as `host:port,host:port`.
    options: options of Spark's Kafka connector; those of Kafka's producers begin with `kafka.`.
    """

    bootstrap_servers: Required[str]
    options: Mapping[str, SparkValue]


class KafkaSources:
    """The methods of `Source` for Kafka."""

    @staticmethod
    def kafka(topics: str | Sequence[str] | None = None, **settings: Unpack[KafkaSourceArguments]) -> KafkaSourceSpec:
        """Return a source of one topic, several topics, or all topics whose names match a pattern.

        Needs Spark's Kafka connector (docs/kafka.md).
        """
        given = {"format": "kafka", "topics": topics}
        return checked(KafkaSourceSpec, KIND, given, settings, call="Source.kafka", takes=KafkaSourceArguments)


class KafkaSinks:
    """The methods of `Sink` for Kafka."""

    @staticmethod
    def kafka(topic: str, **settings: Unpack[KafkaSinkArguments]) -> KafkaSinkSpec:
        """Return a sink that writes one record per row to an existing topic, at least once."""
        given = {"format": "kafka", "topic": topic}
        return checked(KafkaSinkSpec, KIND, given, settings, call="Sink.kafka", takes=KafkaSinkArguments)
