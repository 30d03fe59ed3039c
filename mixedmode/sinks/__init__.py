"""Sinks: tasks stage outputs, and the driver publishes each output once."""

from mixedmode.sinks.files import EPOCH_COLUMN, SinkTask
from mixedmode.sinks.open import open_sink
from mixedmode.sinks.sink import Sink, SinkContext, staging_folder
from mixedmode.sinks.sinks import OutputSchema, Sinks

__all__ = [
    "EPOCH_COLUMN",
    "OutputSchema",
    "Sink",
    "SinkContext",
    "SinkTask",
    "Sinks",
    "open_sink",
    "staging_folder",
]
