"""The console as a sink, in Python."""

from mixedmode.config.sinks import SideOutputSpec
from mixedmode.connectors.calls import checked, checked_side_output
from mixedmode.connectors.console.kind import KIND
from mixedmode.connectors.console.spec import ConsoleSinkSpec


class ConsoleSinks:
    """The methods of `Sink` for the console."""

    @staticmethod
    def console() -> ConsoleSinkSpec:
        """Return the sink that writes to the terminal."""
        return checked(ConsoleSinkSpec, KIND, {"format": "console"}, {}, call="Sink.console")


class ConsoleSideOutputs:
    """The methods of `SideOutput` for the console."""

    @staticmethod
    def console(*, schema: str) -> SideOutputSpec:
        """Return the sink that writes to the terminal."""
        return checked_side_output(KIND, {"format": "console", "schema": schema}, {}, call="SideOutput.console")
