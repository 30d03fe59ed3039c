"""The statements of a SQL file together: its queries, what they read, and what does not fit together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from mixedmode.config.graph import PREVIOUS
from mixedmode.config.spelling import did_you_mean
from mixedmode.config.sql_changes import Changes
from mixedmode.config.sql_queries import EventTime, Read, WrittenQuery
from mixedmode.config.sql_statements import Flow, Function, MaterializedView, Setting, Table, View, WrittenStatement
from mixedmode.config.sql_tokens import WrongSqlError

__all__ = ["NamedQuery", "SqlJob"]


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query under the name of its table, view or flow.

    changes: how the rows are made of those of the query, if these are records of changes.
    """

    name: str
    query: WrittenQuery
    line: int
    changes: Changes | None = None


class SqlJob:
    """The statements of a file, by kind. Names are compared without case.

    settings, functions, flows, materialized: in the order of the file.
    views: {name in lower case: view} of views with USING.
    tables: {name in lower case: streaming table}.  queries: {name in lower case: query} of tables, flows, and views
    with a query.  others: {name in lower case: name} of queries that are not in SQL files, but belong to the same job.
    """

    def __init__(self, written: Sequence[WrittenStatement], others: Mapping[str, str] | None = None) -> None:
        self._written = written
        self.others = others or {}
        self.settings = [one for one in written if isinstance(one, Setting)]
        self.functions = [one for one in written if isinstance(one, Function)]
        self.materialized = [one for one in written if isinstance(one, MaterializedView)]
        self.flows = [one for one in written if isinstance(one, Flow)]
        self.views = {one.name.lower(): one for one in written if isinstance(one, View)}
        created = [one for one in written if isinstance(one, Table)]
        self.tables = {one.name.lower(): one for one in created if one.format is not None}
        asked: list[Table | Flow] = [*created, *self.flows]
        self.queries = {
            one.name.lower(): NamedQuery(one.name, one.query, one.line, one.changes)
            for one in asked
            if one.query is not None
        }
        for name, table in self.tables.items():
            flows = self._flows_into(table)
            if table.query is None and len(flows) == 1 and flows[0].changes is not None:
                only = self.queries.pop(flows[0].name.lower())
                self.queries[name] = replace(only, name=table.name)
            elif table.query is None and flows:
                self.queries[name] = self._union(table)

    @property
    def streams(self) -> dict[str, Read]:
        """{view that queries read with STREAM, in lower case: the first read of it}."""
        found: dict[str, Read] = {}
        for read in self._reads():
            if read.is_stream and read.name.lower() in self.views:
                found.setdefault(read.name.lower(), read)
        return found

    @property
    def event_times(self) -> dict[str, EventTime]:
        """{view, in lower case: its event time}."""
        return {read.name.lower(): read.event_time for read in self._reads() if read.event_time is not None}

    def in_order(self) -> list[NamedQuery]:
        """Return the queries, each after those that it reads. Raises CycleError."""
        graph = {
            name: [read.name.lower() for read in one.query.reads if read.name.lower() in self.queries]
            for name, one in self.queries.items()
        }
        return [self.queries[name] for name in TopologicalSorter(graph).static_order()]

    def inputs(self, query: WrittenQuery) -> list[str]:
        """Return the names of the streams and queries that a query reads, spelled as where they are created."""
        streams = self.streams
        names = dict.fromkeys(read.name.lower() for read in query.reads)
        known = {name: self.views[name].name for name in streams} | {
            name: one.name for name, one in self.queries.items()
        }
        known |= self.others
        return [known[name] for name in names if name in known]

    def mistakes(self) -> Iterator[WrongSqlError]:
        """Yield what is wrong with the statements taken together."""
        for view in self.materialized:
            text = (
                "only a project with a spark-pipeline.yml has materialized views. Write CREATE STREAMING TABLE: its "
                f"rows change with those of its query. view={view.table.name}"
            )
            yield WrongSqlError(view.line, text)
        yield from self._same_names()
        yield from self._wrong_flows()
        for one in self.queries.values():
            yield from self._wrong_reads(one)
        yield from self._wrong_event_times()
        yield from self._unread()
        if self._written and not self.tables and not self.others:
            text = "the file has no result. Add CREATE STREAMING TABLE name AS, with a query."
            yield WrongSqlError(self._written[-1].line, text)
        try:
            self.in_order()
        except CycleError as error:
            names = [self.queries[name].name for name in error.args[1]]
            text = f"these queries read each other, so none can be first. Break the circle. queries={', '.join(names)}"
            yield WrongSqlError(self.queries[error.args[1][0]].line, text)

    def _reads(self) -> Iterator[Read]:
        for one in self.queries.values():
            yield from one.query.reads

    def _flows_into(self, table: Table) -> list[Flow]:
        return [flow for flow in self.flows if flow.table.lower() == table.name.lower()]

    def _union(self, table: Table) -> NamedQuery:
        """Return the query of a table that flows insert into."""
        reads = tuple(Read(flow.name, flow.line, is_stream=True) for flow in self._flows_into(table))
        sql = f"SELECT * FROM {PREVIOUS}"  # noqa: S608 - the job's own SQL
        return NamedQuery(table.name, WrittenQuery(sql, reads, table.line), table.line)

    def _same_names(self) -> Iterator[WrongSqlError]:
        first: dict[str, View | Table | Flow] = {}
        for one in self._written:
            if isinstance(one, View | Table | Flow):
                other = first.setdefault(one.name.lower(), one)
                if other is not one:
                    text = f"line {other.line} has this name already (case does not count). Choose another. found="
                    yield WrongSqlError(one.line, text + one.name)

    def _wrong_flows(self) -> Iterator[WrongSqlError]:
        for flow in self.flows:
            table = self.tables.get(flow.table.lower())
            if table is None:
                near = did_you_mean(flow.table, [one.name for one in self.tables.values()])
                text = f"the file has no streaming table of this name.{near} Create it, without AS. found={flow.table}"
                yield WrongSqlError(flow.line, text)
            elif flow.changes is not None and len(self._flows_into(table)) > 1:
                text = "a table that AUTO CDC makes has one flow. Unite the records in a view with UNION ALL. table="
                yield WrongSqlError(flow.line, text + table.name)
            elif table.query is not None:
                text = f"this table has a query of its own. Make that a flow too. table={table.name}, line={table.line}"
                yield WrongSqlError(flow.line, text)
        for table in self.tables.values():
            if table.query is None and not self._flows_into(table):
                text = "nothing inserts into this table. Add AS with a query, or a CREATE FLOW. table="
                yield WrongSqlError(table.line, text + table.name)

    def _wrong_reads(self, query: NamedQuery) -> Iterator[WrongSqlError]:
        streams = self.streams
        own = (self.views, self.queries)
        known = [*(one.name for names in own for one in names.values()), *self.others.values()]
        for read in query.query.reads:
            name = read.name.lower()
            if read.is_stream and not any(name in names for names in (*own, self.others)):
                near = did_you_mean(read.name, known)
                text = f"the file has no view or table of this name.{near} Known here: {', '.join(known)}. found="
                yield WrongSqlError(read.line, text + read.name)
            elif not read.is_stream and name in streams:
                text = (
                    f"this view is a stream in line {streams[name].line}, and a table that each epoch reads as a whole "
                    f"here. Write STREAM here too, or make two views. view={read.name}"
                )
                yield WrongSqlError(read.line, text)
            elif not read.is_stream and (name in self.tables or name in self.others):
                text = f"rows of a streaming table arrive as they change. Write STREAM {read.name}."
                yield WrongSqlError(read.line, text)
        rows = {*self.queries, *streams}
        if not any(read.is_stream or read.name.lower() in rows for read in query.query.reads):
            text = (
                "this query reads no stream. Write FROM STREAM before the view whose records it reads; a query of a "
                "table alone goes into the query that joins it, in parentheses. query="
            )
            yield WrongSqlError(query.query.line, text + query.name)

    def _unread(self) -> Iterator[WrongSqlError]:
        read = {read.name.lower() for read in self._reads()}
        for name, view in self.views.items():
            if name not in read:
                yield WrongSqlError(view.line, f"no query reads this view. Remove it. view={view.name}")

    def _wrong_event_times(self) -> Iterator[WrongSqlError]:
        first: dict[str, EventTime] = {}
        for read in self._reads():
            time = read.event_time
            if time is None or read.name.lower() not in {*self.views, *self.queries, *self.others}:
                continue
            if read.name.lower() not in self.views:
                text = "a WATERMARK belongs to a view with USING: all queries downstream know its time. Move it there."
                yield WrongSqlError(time.line, f"{text} found={read.name}")
                continue
            other = first.setdefault(read.name.lower(), time)
            if (other.column, other.expression, other.delay) != (time.column, time.expression, time.delay):
                text = f"this view has another WATERMARK in line {other.line}, and can have one. Make them equal. view="
                yield WrongSqlError(time.line, text + read.name)
