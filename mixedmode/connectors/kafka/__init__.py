"""Topics of Kafka as sources and sinks."""
