"""Kafka's topics that a job reads and writes, in Python."""

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
    """Calls of `Source` for Kafka."""

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
        """One topic or several, or all whose names a pattern matches. Needs Spark's Kafka connector (docs/kafka.md).

        metadata: {field of Kafka's: name of its column}, such as `{"key": "customer", "partition": "kafka_partition"}`.
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
    """Calls of `Sink` for Kafka."""

    @staticmethod
    def kafka(topic: str, *, bootstrap_servers: str, options: Mapping[str, SparkValue] | None = None) -> KafkaSinkSpec:
        """One record per row in a topic, at least once; see docs/kafka.md for keys, headers and repeats."""
        values = _sink_values(topic, bootstrap_servers, options)
        return checked(KafkaSinkSpec, values, place="Sink.kafka")


class KafkaSideOutputs:
    """Calls of `SideOutput` for Kafka."""

    @staticmethod
    def kafka(
        topic: str, *, bootstrap_servers: str, schema: str, options: Mapping[str, SparkValue] | None = None
    ) -> KafkaSideOutputSpec:
        """One record per row in a topic, at least once."""
        values = {**_sink_values(topic, bootstrap_servers, options), "schema": schema}
        return checked(KafkaSideOutputSpec, values, place="SideOutput.kafka")


def _sink_values(topic: str, bootstrap_servers: str, options: Mapping[str, SparkValue] | None) -> dict[str, Any]:
    values: dict[tuple[str, ...], Any] = {
        ("topic",): topic,
        ("bootstrap-servers",): bootstrap_servers,
        ("options",): options,
    }
    return {"format": "kafka", **nested(values)}
