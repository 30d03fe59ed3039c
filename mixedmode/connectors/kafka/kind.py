"""What the registry knows about Kafka."""

from mixedmode.config.kafka import KafkaSourceSpec
from mixedmode.config.kafka_sink import KafkaSinkSpec
from mixedmode.config.registry import ConnectorKind, SparkPackage

KIND = ConnectorKind(
    "kafka",
    source=KafkaSourceSpec,
    sink=KafkaSinkSpec,
    open_source="mixedmode.sources.kafka:KafkaSource",
    open_sink="mixedmode.sinks.kafka:KafkaSink",
    packages={
        "kafka": SparkPackage("Spark's Kafka connector", jars="mixedmode.spark.jars:kafka_connector"),
        "avro": SparkPackage("Spark's Avro module", jars="mixedmode.spark.jars:spark_avro"),
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
    errors="mixedmode.spark.kafka_errors:kafka_problem",
)
