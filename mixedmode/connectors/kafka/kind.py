"""The entry of the registry for Kafka."""

from mixedmode.config.registry import ConnectorKind, SparkPackage
from mixedmode.connectors.kafka.sink_spec import KafkaSinkSpec
from mixedmode.connectors.kafka.source_spec import KafkaSourceSpec

KIND = ConnectorKind(
    "kafka",
    source=KafkaSourceSpec,
    sink=KafkaSinkSpec,
    open_source="mixedmode.connectors.kafka.source:KafkaSource",
    open_sink="mixedmode.connectors.kafka.sink:KafkaSink",
    check_options="mixedmode.connectors.kafka.options:check_options",
    check_service="mixedmode.connectors.kafka.reach:check_topics",
    packages={
        "kafka": SparkPackage("Spark's Kafka connector", jars="mixedmode.connectors.kafka.jars:kafka_connector"),
        "avro": SparkPackage("Spark's Avro module", jars="mixedmode.connectors.kafka.jars:spark_avro"),
    },
    source_arguments={
        ("value", "format"): "value",
        ("value", "schema"): "schema",
        ("value", "schema-file"): "schema_file",
        ("value", "confluent-header"): "confluent_header",
        ("value", "options"): "value_options",
        ("starting", "at"): "starting",
        ("starting", "timestamp"): "starting_timestamp",
        ("starting", "offsets"): "starting_offsets",
    },
    errors="mixedmode.connectors.kafka.errors:kafka_problem",
)
