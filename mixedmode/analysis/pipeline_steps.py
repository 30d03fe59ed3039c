"""Reads the DataFrames of a pipeline as sources, dimensions and steps of one job.

Each query is read down to the tables of the pipeline that it reads, so no table is computed twice. A watermark that a
query puts over a table becomes one of the query of that table, down to a source, which has the watermark in a job.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst import analysed
from mixedmode.analysis.catalyst_objects import id_of, items_of, kind_of
from mixedmode.analysis.catalyst_texts import TextLostError, value_of
from mixedmode.analysis.from_stream import NamedRows, StreamReader, StreamStep
from mixedmode.analysis.pipeline_changes import PipelineChanges
from mixedmode.analysis.pipeline_queries import PipelineQueries
from mixedmode.analysis.pipeline_registry import OTHER_SOURCES, PipelineQuery, PipelineTable, Registry
from mixedmode.analysis.pipeline_sql import PipelineSql
from mixedmode.analysis.same_plans import PASSED
from mixedmode.analysis.stream_source import OtherSourceError, StreamSource
from mixedmode.analysis.timed_source import delay_ms_of
from mixedmode.config import ApplyChangesStep, SqlStep
from mixedmode.config.graph import PREVIOUS
from mixedmode.errors import InvalidJobError

__all__ = ["PipelineSteps"]

_Java = Any  # an object of the JVM

_TIME = "EventTimeWatermark"
_OF_DATAFRAMES = "Job.from_stream: "


@dataclass(slots=True)
class PipelineSteps:
    """The parts of a job, each with the query that it is of.

    sources, tables: {name: those of the job}; tables are dimensions. steps: in the order of the job.
    """

    session: SparkSession
    registry: Registry
    queries: PipelineQueries
    sql: PipelineSql
    named: dict[str, NamedRows] = field(default_factory=dict)  #: {name in lower case: the rows} of functions
    sources: dict[str, tuple[StreamSource, PipelineQuery]] = field(default_factory=dict)
    tables: dict[str, tuple[StreamSource, PipelineQuery]] = field(default_factory=dict)
    steps: list[tuple[StreamStep | ApplyChangesStep, int]] = field(default_factory=list)
    _givers: dict[str, PipelineQuery] = field(default_factory=dict)  # {query: one whose watermark it has}

    def read(self) -> None:
        """Read all queries. Raise InvalidJobError for one that a job cannot take."""
        frames = self.queries.frames
        for name in reversed(frames):
            self._pass_down(name)
        for name in frames:
            self._read(name)
            query = self.registry.queries[name]
            flows = self.queries.flows[(query.table or name).lower()]
            if query.table is not None and all(flow in self.named for flow in flows):
                self._unite(self.registry.tables[query.table.lower()], flows)

    def _pass_down(self, name: str) -> None:
        """Give the watermarks that a query puts over tables of the pipeline to the queries of these tables."""
        query = self.registry.queries[name]
        for node in _nodes(analysed(self.queries.frames[name])):
            if kind_of(node) != _TIME or name in self.queries.views:
                continue
            read, column = self._timed_table(node)
            if read is None or column is None:
                continue
            delay_ms = delay_ms_of(self.session, node)
            for flow in self.queries.flows.get(read, ()):
                frame = self.queries.frames[flow]
                if not _has_watermark(analysed(frame)):
                    self.queries.frames[flow] = frame.withWatermark(column, f"{delay_ms} milliseconds")
                    self._givers[flow] = query

    def _timed_table(self, node: _Java) -> tuple[str | None, str | None]:
        """Return the table of the pipeline that a watermark is over, and the column there; None if there is none."""
        column, below = node.eventTime(), node.child()
        while kind_of(below) in {"Project", *PASSED}:
            if kind_of(below) == "Project":
                values = (value_of(one) for one in items_of(below.projectList()) if id_of(one) == id_of(column))
                column = next(values, column)
                if kind_of(column) != "AttributeReference":
                    return None, None
            below = below.child()
        return self.queries.table_of(below), str(column.name())

    def _read(self, name: str) -> None:
        """Add the sources and steps of a query."""
        query = self.registry.queries[name]
        if query.changes is not None:
            self._apply(name, query, query.changes)
            return
        try:
            reader = StreamReader(
                self.session,
                self.queries.frames[name],
                name=query.name,
                named_rows=self._rows_of,
                is_view=name in self.queries.views,
            )
        except OtherSourceError:
            self.queries.refuse(query, f"the stream reads a source whose settings are not in its plan. {OTHER_SOURCES}")
        except InvalidJobError as error:
            giver = self._givers.get(name)
            of = "" if giver is None else f" The watermark is that of {giver.kind} {giver.name}."
            self.queries.refuse(query, f"{str(error).removeprefix(_OF_DATAFRAMES)}{of}")
        except TextLostError as error:
            self.queries.refuse(
                query,
                "Spark does not read the text of a part of this query as that part, as with functions of Python and "
                f"lambdas. Write the job as steps. found={error}",
            )
        self.sources |= {source: (one, query) for source, one in reader.sources.items()}
        self.tables |= {table: (one, query) for table, one in reader.tables.items()}
        self.steps += [(step, query.line) for step in reader.steps]
        self.named[name] = NamedRows(query.name, reader.times, reader.delays_ms)

    def _apply(self, name: str, query: PipelineQuery, changes: PipelineChanges) -> None:
        """Add the step of a flow of changes. Its rows change, so they have no event time."""
        source = changes.source.lower()
        given = self.sql.rows(source, self.named) if self.sql.has(source) else self.named[source]
        step = changes.step(self.queries.stream_of(changes.source)).model_copy(update={"from_": (given.name,)})
        self.steps.append((step, query.line))
        self.named[name] = NamedRows(query.name, frozenset(), frozenset())

    def _unite(self, table: PipelineTable, flows: list[str]) -> None:
        """Add the step of a table that several functions, or one with another name, write to."""
        if flows == [table.name.lower()]:
            return
        named = [self.named[flow] for flow in flows]
        sql = f"SELECT * FROM {PREVIOUS}"  # noqa: S608 - the job's own SQL
        step = SqlStep(sql=sql).model_copy(update={"name": table.name, "from_": tuple(one.name for one in named)})
        self.steps.append((step, table.line))
        times = frozenset.intersection(*(one.times for one in named))
        delays_ms = frozenset[int]().union(*(one.delays_ms for one in named))
        self.named[table.name.lower()] = NamedRows(table.name, times, delays_ms)

    def _rows_of(self, leaf: _Java) -> NamedRows | None:
        table = self.queries.table_of(leaf)
        if table is not None and self.sql.has(table):
            return self.sql.rows(table, self.named)
        return None if table is None else self.named[table]


def _nodes(plan: _Java) -> Iterator[_Java]:
    yield plan
    for child in items_of(plan.children()):
        yield from _nodes(child)


def _has_watermark(plan: _Java) -> bool:
    return any(kind_of(node) == _TIME for node in _nodes(plan))
