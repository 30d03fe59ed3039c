"""Reads a streaming DataFrame of plain PySpark as the source and the steps of a job.

A plan is taken whole, or refused. Each text that is written is read back by Spark, and must be the plan that it was
written for.

Example: `spark.readStream.schema(...).json("in").withWatermark("at", "10 minutes").groupBy("k").count()` becomes a
source of JSON with event time, and the step `SELECT k, count(1) AS count FROM records GROUP BY k`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst import analysed
from mixedmode.analysis.catalyst_aggregates import Aggregated
from mixedmode.analysis.catalyst_objects import columns_of, id_of, items_of, kind_of
from mixedmode.analysis.catalyst_texts import columns_over, companion, projected
from mixedmode.analysis.plan_text import PlanText, WindowCall
from mixedmode.analysis.same_plans import PASSED
from mixedmode.analysis.sql_checks import instead_of
from mixedmode.analysis.stream_source import LEAVES, StreamSource, stream_source
from mixedmode.analysis.stream_windows import window_call
from mixedmode.analysis.written_sql import free_name
from mixedmode.config import DeduplicateStep, SqlStep
from mixedmode.config.calls import is_column
from mixedmode.config.graph import PREVIOUS
from mixedmode.durations import format_duration_ms
from mixedmode.errors import InvalidJobError

__all__ = ["RECORDS", "StreamReader"]

_Java = Any  # an object of the JVM

RECORDS = "records"  # the name of the source
_WITHIN = "DeduplicateWithinWatermark"
_TAKEN = frozenset({"Aggregate", "Deduplicate", _WITHIN, "Filter", "Generate", "Project", *PASSED})
_KEEP_NAMES = frozenset({"Filter", *PASSED})
_MAP = "Write a job with the source, and a step with map, whose function turns rows into rows."
#: {kind of node: what to do instead}, where it is not what sql has to do
_INSTEAD: Mapping[str, str] = {
    "MapInArrow": _MAP,
    "MapInPandas": _MAP,
    "Join": "Write a job with a source for each side, and use a step with join, or a dimension for a static table.",
    "Union": "Write a job with two sources, and a step with UNION ALL.",
    "WithCTE": "Make a temporary view, or a subquery after FROM, of what WITH defines.",
    "View": "Begin the query with spark.readStream.",
}


def _refuse(what: str, instead: str) -> NoReturn:
    msg = f"Job.from_stream: a job cannot take over this part of the query. {instead} found={what}"
    raise InvalidJobError(msg)


@dataclass(frozen=True, slots=True)
class _Level:
    """A node above the source; with the call of its windows, an aggregate also stands for the nodes that make them."""

    kind: str
    node: _Java
    window: WindowCall | None = None


class StreamReader:
    """Reads the plan of a DataFrame, which is a chain of nodes from its source.

    source: that of the job.
    """

    def __init__(self, session: SparkSession, stream: DataFrame) -> None:
        """Read the plan down to its source.  session: a copy of that of the stream, for views with any name.

        Raise InvalidJobError for a part that a job does not have, TextLostError for a window that has no text.
        """
        self._session = session
        self._top = analysed(stream)
        self._leaf, levels = self._chain()
        self._columns = [(column, str(column.name())) for column in items_of(self._leaf.output())]
        self._values = [column for column, _ in self._columns]
        times = [number for number, level in enumerate(levels) if level.kind == "EventTimeWatermark"]
        if len(times) > 1:
            _refuse("a second withWatermark", "A source has one watermark: call withWatermark once.")
        self._time: _Java = levels[times[0]].node if times else None
        self._below, self._levels = (levels[: times[0]], levels[times[0] + 1 :]) if times else ([], levels)
        self._check_time()
        arguments = {} if self._time is None else self._event_time(self._time)
        found = stream_source(session, self._leaf)
        self.source = StreamSource(found.format, {**found.arguments, **arguments})

    def _chain(self) -> tuple[_Java, list[_Level]]:
        """Return the node of the source, and the levels above it, the lowest one first."""
        levels, node = list[_Level](), self._top
        while (kind := kind_of(node)) not in LEAVES:
            if kind not in _TAKEN or (kind == "View" and not node.isTempView()):
                _refuse(kind, _INSTEAD.get(kind) or instead_of(kind))
            call, below = None, node.child()
            if kind == "Aggregate":
                aggregated = Aggregated.of(self._session, node)
                if aggregated is None or not aggregated.keys:
                    _refuse("an aggregate without keys, or with several sets of them", "Use groupBy with keys.")
                windows = window_call(aggregated)
                if windows is not None:
                    call, below = windows[0], windows[1].child
            levels.insert(0, _Level(kind, node, call))
            node = below
        return node, levels

    def _check_time(self) -> None:
        by_time = next((level for level in self._levels if level.window or level.kind == _WITHIN), None)
        if by_time is not None and self._time is None:
            found = by_time.kind if by_time.window is None else by_time.window.function
            _refuse(f"{found} without a watermark", "Call withWatermark before it.")
        not_only_columns = next((one for one in self._below if one.kind not in {"Project", *PASSED}), None)
        if not_only_columns is not None:
            instead = "The watermark follows all records of the source here: call withWatermark before this part."
            _refuse(not_only_columns.kind, instead)

    def _event_time(self, watermark: _Java) -> dict[str, Any]:
        """Return the arguments of the source for a watermark. Add the column of its time, if it is computed."""
        delay_ms = int(companion(self._session, "plans.logical.EventTimeWatermark").getDelayMs(watermark.delay()))
        arguments: dict[str, Any] = {"out_of_orderness": format_duration_ms(delay_ms)}
        column = watermark.eventTime()
        value = self._values_at_watermark().get(id_of(column), column)
        known = {id_of(one): name for one, name in self._columns}
        if kind_of(value) == "AttributeReference":
            return {**arguments, "event_time": known[id_of(value)]}
        taken = {name.lower() for name in known.values()}
        name = str(column.name())
        name = free_name(name, taken) if name.lower() in taken or not is_column(name) else name
        (text,) = columns_over(self._session, self._columns, [value])
        self._columns.append((column, name))
        self._values.append(value)
        return {**arguments, "event_time": name, "computed_columns": {name: text}}

    def _values_at_watermark(self) -> dict[int, _Java]:
        """Return {id: value over the source} of the columns that are computed before the watermark."""
        values = dict[int, _Java]()
        for level in self._below:
            if level.kind == "Project":
                values = projected(self._session, level.node, values)
        return values

    def steps(self) -> Iterator[SqlStep | DeduplicateStep]:
        """Yield the steps. Raise TextLostError for a part whose text says less than the part."""
        text = PlanText(self._session, self._leaf, RECORDS, self._columns, self._values)
        top = self._leaf
        values = self._values_at_watermark()
        if values:
            top, computed = self._time, {id_of(column): column for column, _ in self._columns}
            text.select([(one, computed.get(id_of(one), values[id_of(one)])) for one in items_of(top.output())])
        is_first = True
        for number, level in enumerate(self._levels):
            is_keyed = level.kind in ("Deduplicate", _WITHIN)
            if is_keyed or (level.kind == "Aggregate" and text.has_group):
                if is_keyed:
                    text.name_for_keys()
                if not text.is_bare:
                    yield SqlStep(sql=text.sql(top))
                columns = text.named
                if is_keyed:
                    step = self._deduplicate(level, text)
                    yield step
                    top = level.node
                    columns = sorted(columns, key=lambda one: _rank(one[1], step.key_by))
                text = PlanText(self._session, top, PREVIOUS, columns, [column for column, _ in columns])
                is_first = False
            if not is_keyed:
                keeps = all(above.kind in _KEEP_NAMES for above in self._levels[number + 1 :])
                names = [name for name, _ in columns_of(level.node.output())] if keeps else None
                text.add(level.node, names=names, window=level.window)
                top = level.node
        text.arrange([(column, str(column.name())) for column in items_of(self._top.output())])
        if is_first or not text.is_bare:
            yield SqlStep(sql=text.sql(self._top))

    def _deduplicate(self, level: _Level, text: PlanText) -> DeduplicateStep:
        names = {id_of(column): name for column, name in text.named}
        keys = list(dict.fromkeys(names[id_of(key)] for key in items_of(level.node.keys())))
        settings: dict[str, str] = {"keep": "any"}
        if level.kind == _WITHIN:
            delay = companion(self._session, "plans.logical.EventTimeWatermark").getDelayMs(self._time.delay())
            settings["within"] = format_duration_ms(max(1, int(delay)))
        return DeduplicateStep.model_validate({"key-by": keys, "deduplicate": settings})


def _rank(name: str, keys: Sequence[str]) -> int:
    """Return the position of a column in the rows of a keyed step: its keys come first."""
    return keys.index(name) if name in keys else len(keys)
