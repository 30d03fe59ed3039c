"""Sinks: outputs are staged by tasks and published, once, by the driver."""

from mixedmode.sinks.files import EPOCH_COLUMN, SinkTask
from mixedmode.sinks.sink import ConsoleSink, FileSink, Sink, print_rows, staging_folder

__all__ = ["EPOCH_COLUMN", "ConsoleSink", "FileSink", "Sink", "SinkTask", "print_rows", "staging_folder"]
