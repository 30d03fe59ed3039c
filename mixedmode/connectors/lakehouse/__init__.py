"""Tables of Delta Lake and Apache Iceberg as sources and sinks."""
