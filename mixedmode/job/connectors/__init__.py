"""The sources and sinks of a job, in Python. Each call returns the same frozen spec as a section of a job file.

The call with a mistake raises the error. A relative path is resolved against the current directory of that moment.
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
    """The sources of a job. Each call returns a SourceSpec to name in `Job(sources={...})`.

    These arguments are common to all sources:

    event_time: the column that says when a record happened.
    out_of_orderness: how far the watermark stays behind the newest event time, so how late a record may come.
    idle_timeout: a source or partition without a record for this long no longer holds the watermark back.
    max_ahead: a record further ahead of the clock than this does not move the watermark.
        With `none`, every record moves it.
    partition_column: the column that says which partition a record comes from.
        Each partition has its own watermark, and the smallest is used.
    bounded: True if all input is present when the job starts.

    Raises InvalidJobError with everything that is wrong.
    """


class Sink(FileSinks, LakehouseSinks, KafkaSinks, TableSinks, CustomSinks):
    """The sinks of a job: for its result, for late records, and for records on which a function failed.

    Each call returns a SinkSpec for `Job.write`, or for an argument `late` or `dead_letter`.
    Raises InvalidJobError with everything that is wrong.
    """

    @staticmethod
    def console() -> ConsoleSinkSpec:
        """Return the sink that writes to the terminal."""
        return checked(ConsoleSinkSpec, {"format": "console"}, place="Sink.console")


class SideOutput(FileSideOutputs, LakehouseSideOutputs, KafkaSideOutputs, TableSideOutputs, PythonSideOutputs):
    """The sinks of side outputs. Each call returns a SinkSpec to name in `.process(outputs={...})`.

    schema: the columns of the side output, as Spark DDL. Raises InvalidJobError with everything that is wrong.
    """

    @staticmethod
    def console(*, schema: str) -> ConsoleSideOutputSpec:
        """Return the sink that writes to the terminal."""
        return checked(ConsoleSideOutputSpec, {"format": "console", "schema": schema}, place="SideOutput.console")
