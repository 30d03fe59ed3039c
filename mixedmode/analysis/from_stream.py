"""Reads a streaming DataFrame of plain PySpark as the sources and the steps of a job.

A plan is taken whole, or refused. Each text that is written is read back by Spark, and must be the plan that it was
written for.

Example: `spark.readStream.schema(...).json("in").withWatermark("at", "10 minutes").groupBy("k").count()` becomes a
source of JSON with event time, and the step `SELECT k, count(1) AS count FROM records GROUP BY k`.

Of a join or a union, the sources are `records_1`, `records_2` and so on, and each step names what it reads. A table
with which a stream is joined is a dimension. A query of a pipeline reads rows of others by their names, and all that
it is made of has its name: `totals_records_1`, `totals_rows_1`, and `totals` for the last step.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst import analysed
from mixedmode.analysis.catalyst_aggregates import Aggregated
from mixedmode.analysis.catalyst_objects import columns_of, id_of, items_of, kind_of
from mixedmode.analysis.catalyst_texts import value_of
from mixedmode.analysis.joined_text import joined_text, union_text
from mixedmode.analysis.plan_text import PlanText, WindowCall
from mixedmode.analysis.same_plans import PASSED, TextInput
from mixedmode.analysis.sql_checks import instead_of
from mixedmode.analysis.stream_processor import TRANSFORMS, StreamProcessor
from mixedmode.analysis.stream_source import LEAVES, TABLE, StreamSource, refuse, table_source
from mixedmode.analysis.stream_windows import window_call
from mixedmode.analysis.timed_source import TimedSource, delay_ms_of
from mixedmode.config import DeduplicateStep, ProcessStep, SqlStep
from mixedmode.config.graph import PREVIOUS
from mixedmode.durations import format_duration_ms

__all__ = ["NamedRows", "StreamReader", "StreamStep"]

StreamStep = SqlStep | DeduplicateStep | ProcessStep  #: the steps that a plan becomes

_Java = Any  # an object of the JVM

_RECORDS = "records"  # the name of the only source
_TIME = "EventTimeWatermark"
_WITHIN = "DeduplicateWithinWatermark"
_MOMENT = "PreciseTimestampConversion"  # of window_time
_TAKEN = frozenset({"Aggregate", "Deduplicate", _WITHIN, "Filter", "Generate", "Project", *PASSED})
_KEEP_NAMES = frozenset({"Filter", *PASSED})
#: {what has several inputs: kinds in the text of one that need a step of their own}
_OWN_STEP = {
    "Join": frozenset({"Aggregate", "Table", "Union"}),
    "Table": frozenset({"Aggregate", "Join"}),
    "Union": frozenset({"Aggregate", "Join"}),
}
_OF_TABLES = frozenset({"Filter", "Project", *PASSED})
_NOT_FINAL = (
    "Rows that go by event time are final at the watermark, and those of a materialized view never are. Make the query "
    "a @dp.table, with spark.readStream.table, or leave out the event time."
)
_MAP = "Write a job with the source, and a step with map, whose function turns rows into rows."
#: {kind of node: what to do instead}, where it is not what sql has to do
_INSTEAD: Mapping[str, str] = {
    "GlobalLimit": "Use key-by with top for the best rows of each key, and top alone for those of all, or limit "
    "the rows where the output is read.",
    "MapInArrow": _MAP,
    "MapInPandas": _MAP,
    "WithCTE": "Make a temporary view, or a subquery after FROM, of what WITH defines.",
    "UpdateEventTimeWatermarkColumn": "Write the job as steps, with event_time of .process(...), instead of "
    "eventTimeColumnName.",
    "Window": "Write the query before it as a job, and what is over the rows of a key as .key_by(...).over(...), or in "
    "a .sql(...).",
    "View": "Begin the query with spark.readStream.",
}


@dataclass(frozen=True, slots=True)
class NamedRows:
    """Rows of another query of the job, which a plan reads.

    name: that of the query. times: the names of its columns that are event times. delays_ms: those of its watermarks.
    """

    name: str
    times: frozenset[str]
    delays_ms: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Level:
    """A node above a source; with the call of its windows, an aggregate also stands for the nodes that make them.

    processor: of transformWithState.
    """

    kind: str
    node: _Java
    window: WindowCall | None = None
    processor: StreamProcessor | None = None


@dataclass(slots=True)
class _Rows:
    """Rows of the plan, as far as it is read.

    text: of the step that returns them. top: the node with these rows. delays_ms: those of the watermarks below.
    """

    text: PlanText
    top: _Java
    delays_ms: frozenset[int]


class StreamReader:
    """Reads the plan of a DataFrame.

    sources, tables: {name: those of the job}. steps: those of the job. times: the names of columns of the result that
    are event times. delays_ms: those of the watermarks below.
    """

    def __init__(
        self,
        session: SparkSession,
        stream: DataFrame,
        *,
        name: str | None = None,
        named_rows: Callable[[_Java], NamedRows | None] = lambda _: None,
        is_view: bool = False,
    ) -> None:
        """Read the plan.  session: a copy of that of the stream, for views with any name.

        name: that of the query, if there are others in the job. named_rows: returns the rows of another query that a
        node reads, if it does. is_view: the result has to follow records that come late, too, so no part of the query
        may go by event time.

        Raise InvalidJobError for a part that a job does not have, TextLostError for one whose text says less than it.
        """
        self._session = session
        self._named_rows = named_rows
        self._is_view = is_view
        self._prefix = "" if name is None else f"{name}_"
        self.sources = dict[str, StreamSource]()
        self.tables = dict[str, StreamSource]()
        self.steps = list[StreamStep]()
        top = analysed(stream)
        self._is_chain = name is None and sum(kind_of(leaf) in LEAVES for leaf in items_of(top.collectLeaves())) == 1
        rows = self._read(top, is_result=True)
        rows.text.arrange([(column, str(column.name())) for column in items_of(top.output())])
        if not self.steps or not rows.text.is_bare:
            self._add(SqlStep(sql=rows.text.sql(top)), rows.text)
        if name is not None:
            self.steps[-1] = self.steps[-1].model_copy(update={"name": name})
        timed = {column for one, column in rows.text.named if id_of(one) in rows.text.timed}
        self.times = frozenset(column for column in timed if column.lower() in rows.text.times)
        self.delays_ms = rows.delays_ms

    def _read(self, plan: _Java, *, is_result: bool = False) -> _Rows:
        """Return the rows of a plan. Add the sources and the steps below them.  is_result: its names are kept."""
        node, levels = self._levels(plan)
        kind = kind_of(node)
        if kind in LEAVES:
            rows, levels = self._of_source(node, levels)
        else:
            rows = self._of_inputs(kind, node)
        for number, level in enumerate(levels):
            self._check_time(level, rows)
            if level.kind in ("Deduplicate", _WITHIN):
                self._deduplicate(level, rows)
                continue
            if level.processor is not None:
                self._process(level.processor, level.node, rows)
                continue
            if level.kind == "Aggregate" and "Aggregate" in rows.text.kinds:
                self._end_step(rows)
            keeps = is_result and all(above.kind in _KEEP_NAMES for above in levels[number + 1 :])
            names = [name for name, _ in columns_of(level.node.output())] if keeps else None
            rows.text.add(level.node, names=names, window=level.window)
            rows.top = level.node
        return rows

    def _levels(self, node: _Java) -> tuple[_Java, list[_Level]]:
        """Return the node of a source, or one with several inputs, and the levels above it, the lowest one first."""
        levels = list[_Level]()
        while (kind := kind_of(node)) not in LEAVES and not _has_inputs(kind, node):
            if kind in TRANSFORMS:
                processor = StreamProcessor.of(node)
                levels.insert(0, _Level(kind, node, processor=processor))
                node = processor.rows
                continue
            if kind not in _TAKEN or (kind == "View" and not node.isTempView()):
                refuse(kind, _INSTEAD.get(kind) or instead_of(kind))
            call, below = None, node.child()
            if kind == "Project" and any(kind_of(value_of(one)) == _MOMENT for one in items_of(node.projectList())):
                refuse("window_time in a select", "Select the end of the window, which is a microsecond later.")
            if kind == "Aggregate":
                aggregated = Aggregated.of(self._session, node)
                if aggregated is None or aggregated.has_sets:
                    refuse("an aggregate with several sets of keys", "Use groupBy with one set, and unite the results.")
                windows = window_call(aggregated)
                if windows is not None:
                    call, below = windows[0], windows[1].child
            levels.insert(0, _Level(kind, node, call))
            node = below
        return node, levels

    def _of_source(self, leaf: _Java, levels: list[_Level]) -> tuple[_Rows, list[_Level]]:
        """Return the rows of a source above its watermark, and the levels above them. Add the source."""
        named = self._named_rows(leaf)
        if named is not None:
            columns = [(column, str(column.name())) for column in items_of(leaf.output())]
            timed = [id_of(column) for column, own in columns if own in named.times]
            read, times = TextInput.of_columns(named.name, leaf, columns), [own.lower() for own in named.times]
            return _Rows(PlanText.over(self._session, read, timed=timed, times=times), leaf, named.delays_ms), levels
        name = _RECORDS if self._is_chain else f"{self._prefix}{_RECORDS}_{len(self.sources) + 1}"
        first = next((number for number, level in enumerate(levels) if level.kind == _TIME), None)
        time = None if first is None else levels[first].node
        below = [] if first is None else [level.node for level in levels[:first]]
        found = TimedSource.of(self._session, leaf, below, time, name)
        self.sources[name] = found.source
        delays_ms = frozenset() if found.delay_ms is None else frozenset([found.delay_ms])
        return _Rows(found.text, found.top, delays_ms), levels if first is None else levels[first + 1 :]

    def _of_inputs(self, kind: str, node: _Java) -> _Rows:
        """Return the rows of a join or a union."""
        sides = list(items_of(node.children()))
        if kind == "Join" and not all(bool(one.isStreaming()) for one in sides):
            kind = "Table"
        found = [self._read(one) if bool(one.isStreaming()) else self._of_table(one) for one in sides]
        for rows, one in zip(found, sides, strict=True):
            names = {id_of(column): name for column, name in rows.text.named}
            rows.text.arrange([(column, names[id_of(column)]) for column in items_of(one.output())])
            if rows.text.kinds & _OWN_STEP[kind]:
                rows.top = one
                self._end_step(rows)
        texts = [rows.text for rows in found]
        if kind == "Union":
            joined = union_text(self._session, texts, node)
        elif self._is_view and all(text.timed for text in texts):
            refuse("a join of event times in a materialized view", _NOT_FINAL)
        else:
            joined = joined_text(self._session, texts[0], texts[1], node, kind)
        return _Rows(joined, node, frozenset().union(*(rows.delays_ms for rows in found)))

    def _of_table(self, plan: _Java) -> _Rows:
        """Return the rows of a table, with a filter and columns of it. Add the dimension."""
        levels, node = list[_Java](), plan
        while (kind := kind_of(node)) in _OF_TABLES:
            levels.insert(0, node)
            node = node.child()
        if kind != TABLE:
            instead = "A table that a stream is joined with is one of spark.read, with select and where."
            refuse(f"{kind} in a table", f"{instead} Write what else it has into the table before.")
        name = f"{self._prefix}table_{len(self.tables) + 1}"
        self.tables[name] = table_source(self._session, node)
        columns = [(column, str(column.name())) for column in items_of(node.output())]
        text = PlanText.over(self._session, TextInput.of_columns(name, node, columns))
        for level in levels:
            text.add(level)
        return _Rows(text, plan, frozenset())

    def _check_time(self, level: _Level, rows: _Rows) -> None:
        if level.kind == _TIME:
            if not self._is_view:  # there it has no meaning, as in Spark without a stream
                self._check_watermark(level.node, rows)
            return
        if level.window is not None and level.window.is_inner:
            if id_of(level.window.time) not in rows.text.windows:
                refuse("windows of windows", "Between the two groupBy may be where and select.")
            return
        if level.window is not None:
            found, times = level.window.function, [level.window.time]
        elif level.kind == _WITHIN:
            found, times = level.kind, [column for column, _ in rows.text.named]
        else:
            return
        if self._is_view:
            refuse(f"{found} in a materialized view", _NOT_FINAL)
        if not any(id_of(one) in rows.text.timed for one in times):
            column = ", for the column that it goes by, and compute that column before" if rows.delays_ms else ""
            refuse(f"{found} without a watermark", f"Call withWatermark before it{column}.")

    def _check_watermark(self, node: _Java, rows: _Rows) -> None:
        """Refuse a watermark over rows that have one. Queries of a pipeline may say that of the table again."""
        once = "once" if self._is_chain else "once for each stream, before they are joined"
        if self._prefix:
            is_known = id_of(node.eventTime()) in rows.text.timed
            if is_known and delay_ms_of(self._session, node) in rows.delays_ms:
                return
            once = "in the function that reads the records, before filters and joins, and again only with its delay"
        refuse("a second withWatermark", f"A source has one watermark: call withWatermark {once}.")

    def _deduplicate(self, level: _Level, rows: _Rows) -> None:
        """Add the step that a node with keys is, and let the rows be its own."""
        rows.text.name_for_keys()
        self._end_step(rows)
        names = {id_of(column): name for column, name in rows.text.named}
        keys = list(dict.fromkeys(names[id_of(key)] for key in items_of(level.node.keys())))
        settings: dict[str, str] = {"keep": "any"}
        if level.kind == _WITHIN:
            if len(rows.delays_ms) > 1:
                instead = "Call it before the streams are joined, or give all of them the same delay."
                refuse(f"{_WITHIN} over watermarks with different delays", instead)
            settings["within"] = format_duration_ms(max(1, *rows.delays_ms))
        step = DeduplicateStep.model_validate({"key-by": keys, "deduplicate": settings})
        columns = sorted(rows.text.named, key=lambda one: _rank(one[1], keys))
        self._go_on(rows, self._add(step, rows.text), level.node, columns)

    def _process(self, processor: StreamProcessor, node: _Java, rows: _Rows) -> None:
        """Add the step of a node of transformWithState, and let the rows be its own. Its class knows names."""
        rows.text.arrange([(column, str(column.name())) for column in items_of(processor.rows.output())])
        rows.top = processor.rows
        self._end_step(rows)
        columns = [(column, str(column.name())) for column in items_of(node.output())]
        self._go_on(rows, self._add(processor.step(), rows.text), node, columns)

    def _end_step(self, rows: _Rows) -> None:
        """Make a step of the text of rows, unless it returns an input as it is."""
        if not rows.text.is_bare:
            name, windows = self._add(SqlStep(sql=rows.text.sql(rows.top)), rows.text), rows.text.windows
            self._go_on(rows, name, rows.top, rows.text.named)
            rows.text.windows = windows  # a step for a node with keys does not pass their time on

    def _go_on(self, rows: _Rows, name: str, top: _Java, columns: Sequence[tuple[_Java, str]]) -> None:
        read, before = TextInput.of_columns(name, top, columns), rows.text
        rows.text, rows.top = PlanText.over(self._session, read, timed=before.timed, times=before.times), top

    def _add(self, step: StreamStep, text: PlanText) -> str:
        """Add a step that reads what a text reads, and return the name of its rows."""
        if self._is_chain:
            self.steps.append(step)
            return PREVIOUS
        reads = (read.name for read in text.inputs if read.name not in self.tables)
        name = f"{self._prefix}rows_{len(self.steps) + 1}"
        self.steps.append(step.model_copy(update={"name": name, "from_": tuple(reads)}))
        return name


def _has_inputs(kind: str, node: _Java) -> bool:
    """Return whether a node is a join or a union that a job has."""
    return kind == "Join" or (kind == "Union" and all(bool(one.isStreaming()) for one in items_of(node.children())))


def _rank(name: str, keys: Sequence[str]) -> int:
    """Return the position of a column in the rows of a keyed step: its keys come first."""
    return keys.index(name) if name in keys else len(keys)
