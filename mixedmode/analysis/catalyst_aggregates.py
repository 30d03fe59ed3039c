"""Reads an aggregate of Spark's analysed plan, and its windows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.analysis.catalyst_objects import columns_of, companion, id_of, ids_of, items_of, kind_of
from mixedmode.analysis.catalyst_texts import TextLostError, projected, replaced, value_of
from mixedmode.config.calls import quoted

__all__ = [
    "GROUPING_ID",
    "Aggregated",
    "Shown",
    "Windowed",
    "has_aggregate",
    "has_windows",
    "makes_windows",
    "marked",
    "top_of",
    "windows_of",
]

_Java = Any  # an object of the JVM

_ABOVE = frozenset({"Filter", "Project"})  # nodes of HAVING
#: nodes that pass the columns of their input on
_PASSING = frozenset({"Filter", "Generate", "PipeOperator", "SubqueryAlias"})
GROUPING_ID = "spark_grouping_id"  # the column that Spark adds for GROUPING SETS
#: what Spark notes at the column of windows that it makes
_WINDOW_MARKS = ("spark.timeWindow", "spark.sessionWindow")


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of a result: its name, and its value as an expression over the columns of a keyed step."""

    name: str
    value: _Java


@dataclass(frozen=True, slots=True)
class Aggregated:
    """An aggregate, with what HAVING adds to it.

    child: the plan of its input; an Expand if `has_sets`, that is, for ROLLUP, CUBE and GROUPING SETS. keys, calls:
    {id: the expression, over the columns of `child`}. columns: {id: the key or the call as a column}. shown: the
    columns of the whole. conditions: those of HAVING, over keys and calls.
    """

    child: _Java
    keys: Mapping[int, _Java]
    calls: Mapping[int, _Java]
    columns: Mapping[int, _Java]
    shown: tuple[Shown, ...]
    conditions: tuple[_Java, ...]
    has_sets: bool

    @classmethod
    def of(cls, session: SparkSession, plan: _Java) -> Self | None:
        """Return the aggregate of a plan; None if there is none over an input, and if other nodes are above it."""
        above = list[_Java]()
        node = plan
        while (kind := kind_of(node)) != "Aggregate":
            if kind in _ABOVE:
                above.insert(0, node)
                node = node.child()
            else:
                return None
        parts = companion(session, "planning.PhysicalAggregation").unapply(node)  # what Spark executes it by
        if not node.isStreaming() or not parts.isDefined():
            return None
        groupings, calls, results = (list(items_of(getattr(parts.get(), f"_{number}")())) for number in (1, 2, 3))
        values = {id_of(one): value_of(one) for one in results}
        conditions = []
        for upper in above:
            if kind_of(upper) == "Filter":
                conditions.append(replaced(session, upper.condition(), values))
            elif kind_of(upper) == "Project":
                values = projected(session, upper, values)
        keys = {id_of(one): value_of(one) for one in groupings}
        windows = _windows_of_fields(node.child(), keys)
        columns = [*(key.toAttribute() for key in groupings if id_of(key) not in windows), *windows.values()]
        fields = {number: keys[number] for number in windows}
        shown = (Shown(name, replaced(session, values[n], fields)) for name, n in columns_of(plan.output()))
        return cls(
            node.child(),
            {id_of(one): keys.get(id_of(one), one) for one in columns},
            {id_of(one.resultAttribute()): one for one in calls},
            {id_of(one): one for one in (*columns, *(c.resultAttribute() for c in calls))},
            tuple(shown),
            tuple(replaced(session, one, fields) for one in conditions),
            kind_of(node.child()) == "Expand" and GROUPING_ID in str(node.groupingExpressions().toString()),
        )

    def root_of(self, value: _Java) -> int | None:
        """Return the id of the key or the call that a value is; None if it is computed from them."""
        number = id_of(value) if kind_of(value) == "AttributeReference" else None
        return number if number in self.keys or number in self.calls else None


@dataclass(frozen=True, slots=True)
class Windowed:
    """The windows of an aggregate.

    key: the id of the key that they are. time: the column that they go by. child: the input of the aggregate without
    them. inner: the column of windows whose window_time the time is, if it is one.
    """

    key: int
    time: _Java
    child: _Java
    inner: _Java | None = None


def top_of(plan: _Java) -> _Java:
    """Return the top node of a plan, below what defines the names of WITH."""
    return plan.plan() if kind_of(plan) == "WithCTE" else plan


def windows_of(aggregated: Aggregated) -> Windowed | None:
    """Return the windows of an aggregate; None if it has none. Raise TextLostError if their time is no plain column.

    Spark makes a column of the windows of each row, and leaves out rows without a time.
    """
    made = ((number, key) for number, key in aggregated.keys.items() if _is_window(key))
    found = [number for number, key in made if not has_windows(aggregated.child, key)]
    if not found:
        return None
    node, time = aggregated.child, None
    for _ in range(2):
        kind = kind_of(node)
        if kind == "Filter":
            time = time or _time_in(node.condition())
        if kind in ("Expand", "Filter", "Project"):
            node = node.child()
    if time is None or kind_of(time) != "AttributeReference":
        raise TextLostError(str(aggregated.keys[found[0]].sql()))
    inner = _inner_windows(node, time)
    return Windowed(found[0], time, node) if inner is None else Windowed(found[0], time, node.child(), inner)


def _windows_of_fields(plan: _Java, keys: Mapping[int, _Java]) -> dict[int, _Java]:
    """Return {id: the windows} of keys that are the start or the end of windows of a plan.

    All windows have one length, so a key of one of the two is a key of the windows. Sessions have any, and in Spark
    their start is the time of the row there.
    """
    found = dict[int, _Java]()
    for number, key in keys.items():
        window = key.child() if kind_of(key) == "GetStructField" else None
        if window is not None and _is_window(window) and window.metadata().contains(_WINDOW_MARKS[0]):
            found |= {} if has_windows(plan, window) else {number: window}
    return found


def marked(frame: DataFrame, column: str) -> DataFrame:
    """Return the same rows, in which Spark knows that a column has windows."""
    of_windows = F.col(quoted(column)).alias(column, metadata={_WINDOW_MARKS[0]: True})
    return frame.select(*(of_windows if name == column else quoted(name) for name in frame.columns))


def has_aggregate(plan: _Java) -> bool:
    """Return whether there is an aggregate in a plan."""
    return kind_of(plan) == "Aggregate" or any(map(has_aggregate, items_of(plan.children())))


def _inner_windows(plan: _Java, time: _Java) -> _Java | None:
    """Return the column of windows whose window_time Spark adds as `time` in a plan; None if that is another column."""
    added = items_of(plan.projectList()) if kind_of(plan) == "Project" else ()
    value = next((value_of(one) for one in added if id_of(one) == id_of(time)), None)
    if value is None or kind_of(value) != "PreciseTimestampConversion":
        return None
    window = value.child().left().child().child()  # of the microseconds of its end, minus 1
    return window if has_windows(plan.child(), window) else None


def makes_windows(plan: _Java, value: _Java) -> bool:
    """Return whether a value reads windows that Spark makes of the rows of a plan."""
    return any(_is_window(one) and not has_windows(plan, one) for one in items_of(value.references().toSeq()))


def has_windows(plan: _Java, column: _Java) -> bool:
    """Return whether all values in a column of a plan are windows of an aggregate below it.

    Spark itself looks at the first part of a union only.
    """
    if not _is_window(column):
        return False
    kind = kind_of(plan)
    if kind == "Expand":
        return id_of(column) in ids_of(plan.child().output()) and has_windows(plan.child(), column)
    if kind == "Union":
        place = ids_of(plan.output()).index(id_of(column))
        return all(has_windows(one, one.output().apply(place)) for one in items_of(plan.children()))
    if kind == "Project":
        made = next((value_of(one) for one in items_of(plan.projectList()) if id_of(one) == id_of(column)), None)
        return made is not None and has_windows(plan.child(), made)
    if kind == "Join":  # an outer one may have no window where the other side has a row
        return not next(one.nullable() for one in items_of(plan.output()) if id_of(one) == id_of(column))
    return kind not in _PASSING or has_windows(plan.child(), column)


def _time_in(condition: _Java) -> _Java | None:
    """Return the time in a condition that Spark adds to windows: it is not NULL, or between the bounds of the window.

    None for the condition of a session whose gap depends on the row.
    """
    if kind_of(condition) == "IsNotNull":
        return condition.child()
    return condition.left().left() if kind_of(condition.left()) == "GreaterThanOrEqual" else None


def _is_window(key: _Java) -> bool:
    return kind_of(key) == "AttributeReference" and any(key.metadata().contains(mark) for mark in _WINDOW_MARKS)
