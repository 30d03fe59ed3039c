"""From a sink of a job file to one that can be published to: the one place that knows every kind."""

from mixedmode.config import ConsoleSinkSpec, FileSinkSpec, SinkSpec
from mixedmode.sinks.console import ConsoleSink
from mixedmode.sinks.file_sink import FileSink
from mixedmode.sinks.sink import Sink, SinkContext


def open_sink(sink: SinkSpec, context: SinkContext) -> Sink:
    """The sink of one output. Touches nothing outside before it is prepared."""
    match sink:
        case FileSinkSpec():
            return FileSink(context.job, sink.path, sink.format, replaces=context.replaces)
        case ConsoleSinkSpec():
            return ConsoleSink(context.screen, context.show, context.name)
    raise AssertionError(sink)
