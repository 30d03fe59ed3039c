"""Sinks: outputs are staged by tasks and published, once, by the driver."""

from mixedmode.sinks.files import EPOCH_COLUMN, SinkTask
from mixedmode.sinks.sink import ConsoleSink, FileSink, Sink, print_rows, staging_folder
from mixedmode.sinks.sinks import OutputSchema, Sinks

__all__ = [
    "EPOCH_COLUMN",
    "ConsoleSink",
    "FileSink",
    "OutputSchema",
    "Sink",
    "SinkTask",
    "Sinks",
    "print_rows",
    "staging_folder",
]
