"""Tables in PostgreSQL databases as sinks."""
