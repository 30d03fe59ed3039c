"""The sources and sinks of a job, in Python. Each call returns the same frozen spec as a section of a job file.

The call with a mistake raises the error. A relative path is resolved against the current directory of that moment.
The calls of our kinds are methods, so that a type checker knows their arguments; `of` is for every installed kind.
"""

from typing import Any

from mixedmode.config.arguments import of_type
from mixedmode.config.load import checked_section
from mixedmode.config.registry import kind_of
from mixedmode.config.sinks import SideOutputSpec, SinkSpec
from mixedmode.config.sources import SourceSpec
from mixedmode.connectors.calls import argument_at, sink_of, source_of
from mixedmode.connectors.console.calls import ConsoleSinks
from mixedmode.connectors.custom.calls import CustomSinks, CustomSources
from mixedmode.connectors.files.calls import FileSinks, FileSources
from mixedmode.connectors.history.calls import HistorySources
from mixedmode.connectors.kafka.calls import KafkaSinks, KafkaSources
from mixedmode.connectors.lakehouse.calls import LakehouseSinks, LakehouseSources
from mixedmode.connectors.postgres.calls import PostgresSinks, PostgresSources
from mixedmode.connectors.sqlite.calls import SqliteSinks

__all__ = ["Sink", "Source", "side_output"]


class Source(FileSources, LakehouseSources, KafkaSources, CustomSources, HistorySources, PostgresSources):
    """The sources of a job. Each call returns a SourceSpec to name in `Job(sources={...})`, or for `Job.dimension`.

    mixedmode.connectors.calls.SourceArguments lists the arguments that all sources have in common.
    Raises InvalidJobError with everything that is wrong.
    """

    @staticmethod
    def of(format: str, /, **settings: Any) -> SourceSpec:  # noqa: A002 - the key in a job file
        """Return a source of any installed kind, such as that of another package.

        settings: the keys of the section in a job file, with _ instead of -, and the arguments that all sources have.
        """
        return source_of(format, settings, call="Source.of")


class Sink(FileSinks, LakehouseSinks, KafkaSinks, PostgresSinks, SqliteSinks, CustomSinks, ConsoleSinks):
    """The sinks of a job: for its result, for late records, and for records on which a function failed.

    Each call returns a SinkSpec for `Job.write`, or for an argument `late` or `dead_letter`.
    Raises InvalidJobError with everything that is wrong.
    """

    @staticmethod
    def of(format: str, /, **settings: Any) -> SinkSpec:  # noqa: A002 - the key in a job file
        """Return a sink of any installed kind, such as that of another package.

        settings: the keys of the section in a job file, with _ instead of -.
        """
        return sink_of(format, settings, call="Sink.of")


def side_output(sink: SinkSpec, *, schema: str) -> SideOutputSpec:
    """Return a sink for the rows of a side output, such as `side_output(Sink.json(path), schema="k string, n long")`.

    Name it in `.process(outputs={...})`.  schema: the columns of the side output, as Spark DDL.
    Raises InvalidJobError for a wrong argument.
    """
    of_type(sink, SinkSpec, "side_output: sink", "one of `Sink`, such as Sink.parquet(path)")
    model = kind_of(sink).side_output
    assert model is not None, "a kind with a sink has side outputs"
    values = {**sink.model_dump(mode="json", by_alias=True, exclude_defaults=True), "schema": schema}
    return checked_section(model, values, place="side_output", name=lambda path: argument_at(path, {}))
