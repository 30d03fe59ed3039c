"""What a job reads and where it writes, in Python. Each call gives the frozen spec that a job file gives.

A mistake is reported by the call that makes it, and a relative path is taken from the directory that is current then.
"""

from mixedmode.config.sinks import ConsoleSideOutputSpec, ConsoleSinkSpec
from mixedmode.job.connectors.checked import checked
from mixedmode.job.connectors.custom import CustomSinks, CustomSources, PythonSideOutputs
from mixedmode.job.connectors.files import FileSideOutputs, FileSinks, FileSources
from mixedmode.job.connectors.history import HistorySources
from mixedmode.job.connectors.kafka import KafkaSideOutputs, KafkaSinks, KafkaSources
from mixedmode.job.connectors.lakehouse import LakehouseSideOutputs, LakehouseSinks, LakehouseSources
from mixedmode.job.connectors.tables import TableSideOutputs, TableSinks

__all__ = ["SideOutput", "Sink", "Source"]


class Source(FileSources, LakehouseSources, KafkaSources, CustomSources, HistorySources):
    """What a job reads. Each call gives a SourceSpec to name in `Job(sources={...})`."""


class Sink(FileSinks, LakehouseSinks, KafkaSinks, TableSinks, CustomSinks):
    """Where a job writes: its result, late records, and records on which a function failed."""

    @staticmethod
    def console() -> ConsoleSinkSpec:
        """The terminal."""
        return checked(ConsoleSinkSpec, {"format": "console"}, place="Sink.console")


class SideOutput(FileSideOutputs, LakehouseSideOutputs, KafkaSideOutputs, TableSideOutputs, PythonSideOutputs):
    """Where the rows of a side output go. Each call gives a SinkSpec to name in `.process(outputs={...})`."""

    @staticmethod
    def console(*, schema: str) -> ConsoleSideOutputSpec:
        """The terminal."""
        return checked(ConsoleSideOutputSpec, {"format": "console", "schema": schema}, place="SideOutput.console")
