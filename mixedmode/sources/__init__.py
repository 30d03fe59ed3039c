"""Sources: Spark does the reading; this adds the settings under which no record is lost or turned into NULL unseen."""

from mixedmode.sources.files import (
    Admission,
    list_files_batch,
    list_files_stream,
    parse_ddl,
    read_batch,
    read_stream,
    source_schema,
)

__all__ = [
    "Admission",
    "list_files_batch",
    "list_files_stream",
    "parse_ddl",
    "read_batch",
    "read_stream",
    "source_schema",
]
