"""The console as a sink, in Python."""

from mixedmode.connectors.calls import checked
from mixedmode.connectors.console.kind import KIND
from mixedmode.connectors.console.spec import ConsoleSinkSpec


class ConsoleSinks:
    """The methods of `Sink` for the console."""

    @staticmethod
    def console() -> ConsoleSinkSpec:
        """Return the sink that writes to the terminal."""
        return checked(ConsoleSinkSpec, KIND, {"format": "console"}, {}, call="Sink.console")
