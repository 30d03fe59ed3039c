"""Opens the sink of a job file, of any kind that is installed."""

from mixedmode.config import SinkSpec
from mixedmode.config.registry import kind_of, loaded
from mixedmode.sinks.sink import Sink, SinkContext


def open_sink(sink: SinkSpec, context: SinkContext) -> Sink:
    """Return the sink of one output. Accesses nothing outside until `prepare` is called."""
    opener = kind_of(sink).open_sink
    assert opener is not None, sink
    opened: Sink = loaded(opener)(sink, context)
    return opened
