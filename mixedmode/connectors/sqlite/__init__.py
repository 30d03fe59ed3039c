"""Tables in SQLite files as sinks."""
