"""Reads an aggregate of Spark's analysed plan, and writes its expressions as SQL over other columns.

Each text that is written is read again by Spark, and must be the expression that it was made of. So no expression whose
text does not say all of it is taken for another one.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from py4j.java_gateway import is_instance_of
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst import analysed, rows_of
from mixedmode.analysis.catalyst_objects import columns_of, id_of, items_of, kind_of
from mixedmode.config.calls import named
from mixedmode.spark.errors import REFUSALS

__all__ = [
    "Aggregated",
    "Shown",
    "TextLostError",
    "columns_over",
    "companion",
    "is_same",
    "no_rows",
    "projected",
    "renamed",
    "replaced",
    "sequence_of",
    "shape_of",
    "text_over",
    "top_of",
    "value_of",
    "windows_of",
]

Java = Any  # an object of the JVM

_CATALYST = "org.apache.spark.sql.catalyst"
_ABOVE = frozenset({"Filter", "Project"})  # nodes of HAVING
_OPERATORS = frozenset({"DatetimeSub"})  # written with a sign; Spark also has a function for what it stands for
_SETS = "spark_grouping_id"  # the column that Spark adds for GROUPING SETS
_ID = re.compile(r"(#|CTERelation(?:Def|Ref) )(\d+)")
#: what Spark notes at the column of windows that it makes
_WINDOW_MARKS = ("spark.timeWindow", "spark.sessionWindow")


class TextLostError(Exception):
    """Spark does not read the text of an expression as the expression."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of a result: its name, and its value as an expression over the columns of a keyed step."""

    name: str
    value: Java


@dataclass(frozen=True, slots=True)
class Aggregated:
    """An aggregate, with what HAVING adds to it.

    child: the plan of its input. keys, calls: {id: the expression, over the columns of `child`}. columns: {id: the key
    or the call as a column}. shown: the columns of the whole. conditions: those of HAVING, over keys and calls.
    """

    child: Java
    keys: Mapping[int, Java]
    calls: Mapping[int, Java]
    columns: Mapping[int, Java]
    shown: tuple[Shown, ...]
    conditions: tuple[Java, ...]

    @classmethod
    def of(cls, session: SparkSession, plan: Java) -> Self | None:
        """Return the aggregate of a plan; None if there is none over an input, if other nodes are above it, and for
        GROUPING SETS, which make several rows of each record.
        """
        above = list[Java]()
        node = plan
        while (kind := kind_of(node)) != "Aggregate":
            if kind in _ABOVE:
                above.insert(0, node)
                node = node.child()
            else:
                return None
        parts = companion(session, "planning.PhysicalAggregation").unapply(node)  # what Spark executes it by
        if not node.isStreaming() or not parts.isDefined() or _SETS in str(node.groupingExpressions().toString()):
            return None
        groupings, calls, results = (list(items_of(getattr(parts.get(), f"_{number}")())) for number in (1, 2, 3))
        values = {id_of(one): value_of(one) for one in results}
        conditions = []
        for upper in above:
            if kind_of(upper) == "Filter":
                conditions.append(replaced(session, upper.condition(), values))
            elif kind_of(upper) == "Project":
                values = projected(session, upper, values)
        return cls(
            node.child(),
            {id_of(one): value_of(one) for one in groupings},
            {id_of(one.resultAttribute()): one for one in calls},
            {
                id_of(one): one
                for one in (*(key.toAttribute() for key in groupings), *(c.resultAttribute() for c in calls))
            },
            tuple(Shown(name, values[number]) for name, number in columns_of(plan.output())),
            tuple(conditions),
        )

    def root_of(self, value: Java) -> int | None:
        """Return the id of the key or the call that a value is; None if it is computed from them."""
        number = id_of(value) if kind_of(value) == "AttributeReference" else None
        return number if number in self.keys or number in self.calls else None


@dataclass(frozen=True, slots=True)
class Windowed:
    """The windows of an aggregate.  key: the id of the key that they are. time: the column that they go by. child: the
    input of the aggregate without them.
    """

    key: int
    time: Java
    child: Java


def top_of(plan: Java) -> Java:
    """Return the top node of a plan, below what defines the names of WITH."""
    return plan.plan() if kind_of(plan) == "WithCTE" else plan


def windows_of(aggregated: Aggregated) -> Windowed | None:
    """Return the windows of an aggregate; None if it has none. Raise TextLostError if their time is no plain column.

    Spark makes a column of the windows of each row, and leaves out rows without a time.
    """
    found = [number for number, key in aggregated.keys.items() if _is_window(key)]
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
    return Windowed(found[0], time, node)


def _time_in(condition: Java) -> Java | None:
    """Return the time in a condition that Spark adds to windows: it is not NULL, or between the bounds of the window.

    None for the condition of a session whose gap depends on the row.
    """
    if kind_of(condition) == "IsNotNull":
        return condition.child()
    return condition.left().left() if kind_of(condition.left()) == "GreaterThanOrEqual" else None


def columns_over(
    session: SparkSession,
    columns: Sequence[tuple[Java, str | None]],
    expressions: Sequence[Java],
    *,
    made_of: Mapping[int, Java] | None = None,
) -> list[str]:
    """Return expressions as SQL. Raise TextLostError if Spark would read one of the texts as something else.

    columns: those that the expressions read, and the names to give them; None: the column keeps its name and its table.
    made_of: {id of a column: the key or call that it is}, which arguments may still have in its place.
    """
    if not expressions:
        return []
    given = {id_of(one): one if name is None else renamed(session, one, name) for one, name in columns}
    frame = no_rows(session, [*given.values()])
    wanted = [replaced(session, one, given) for one in expressions]
    known = [(one, given[number]) for number, one in (made_of or {}).items()]
    texts = [str(_as_called(session, one, given, known).sql()) for one in expressions]
    try:
        plan = analysed(frame.selectExpr(*(named(text, f"c{number}") for number, text in enumerate(texts))))
    except REFUSALS as error:
        raise TextLostError(", ".join(texts)) from error
    items = plan.aggregateExpressions() if kind_of(plan) == "Aggregate" else plan.projectList()
    read = [value_of(one) for one in items_of(items)]
    for text, one, expression in zip(texts, read, wanted, strict=True):
        if not is_same(session, one, expression):
            raise TextLostError(text)
    return texts


def no_rows(session: SparkSession, columns: list[Java]) -> DataFrame:
    """Return a frame of these columns, without rows."""
    relation = companion(session, "plans.logical.LocalRelation").apply(sequence_of(session, columns))
    return DataFrame(rows_of(session)(session._jsparkSession, relation), session)


def text_over(session: SparkSession, expression: Java, values: Mapping[int, Java]) -> str:
    """Return an expression as SQL, with values in place of its columns. The text may say less than the expression."""
    return str(_as_called(session, expression, values, ()).sql())


def is_same(session: SparkSession, one: Java, other: Java) -> bool:
    """Return whether two expressions over the same columns always have the same value."""
    return bool(one.semanticEquals(other) or _cast_once(session, one).semanticEquals(_cast_once(session, other)))


def shape_of(plan: Java) -> str:
    """Return the text of a plan, with ids that only say which of its columns are the same."""
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return f"{found[1]}{numbers.setdefault(found[0], len(numbers))}"

    return _ID.sub(number, str(plan.toString()))


@lru_cache(maxsize=16)
def companion(session: SparkSession, name: str) -> Java:
    """Return an object of Catalyst. To look it up takes several calls."""
    jvm: Java = session.sparkContext._jvm
    return getattr(getattr(jvm, f"{_CATALYST}.{name}$"), "MODULE$")


def value_of(column: Java) -> Java:
    """Return the expression that a column of a SELECT is."""
    return column.child() if kind_of(column) == "Alias" else column


def _is_window(key: Java) -> bool:
    return kind_of(key) == "AttributeReference" and any(key.metadata().contains(mark) for mark in _WINDOW_MARKS)


def renamed(session: SparkSession, column: Java, name: str) -> Java:
    """Return a column under another name, without its table."""
    return column.withName(name).withQualifier(sequence_of(session, []))


def replaced(session: SparkSession, expression: Java, values: Mapping[int, Java]) -> Java:
    """Return an expression with values in place of its columns."""
    if kind_of(expression) == "AttributeReference":
        return values.get(id_of(expression), expression)
    return _with_children(session, expression, lambda one: replaced(session, one, values))


def projected(session: SparkSession, project: Java, values: Mapping[int, Java]) -> dict[int, Java]:
    """Return {id: value} of the columns of a Project.  values: those of the columns of its input."""
    return {id_of(one): replaced(session, value_of(one), values) for one in items_of(project.projectList())}


def _as_called(
    session: SparkSession, expression: Java, values: Mapping[int, Java], known: Sequence[tuple[Java, Java]]
) -> Java:
    """Return the same for its text: functions such as nvl, which stand for another expression, by their arguments.

    known: (expression, value) of what an argument may be besides columns.
    """
    if kind_of(expression) == "AttributeReference":
        return values.get(id_of(expression), expression)
    if kind_of(expression) not in _OPERATORS and _is_called(session, expression):
        arguments = [_argument(session, one, values, known) for one in items_of(expression.parameters())]
        function = companion(session, "analysis.UnresolvedFunction")
        return function.apply(str(expression.prettyName()), sequence_of(session, arguments), False)
    return _with_children(session, expression, lambda one: _as_called(session, one, values, known))


def _argument(
    session: SparkSession, expression: Java, values: Mapping[int, Java], known: Sequence[tuple[Java, Java]]
) -> Java:
    value = next((value for one, value in known if expression.semanticEquals(one)), None)
    if value is not None:
        return value
    if kind_of(expression) == "AttributeReference" or _is_called(session, expression):
        return _as_called(session, expression, values, known)
    return _with_children(session, expression, lambda one: _argument(session, one, values, known))


def _is_called(session: SparkSession, expression: Java) -> bool:
    """Return whether an expression is a call that stands for its only child, and keeps its arguments besides."""
    called = f"{_CATALYST}.expressions.InheritAnalysisRules"
    return bool(is_instance_of(session.sparkContext._gateway, expression, called))


def _cast_once(session: SparkSession, expression: Java) -> Java:
    """Return an expression without casts to the type that a value has."""
    if kind_of(expression) == "Cast" and expression.child().dataType().equals(expression.dataType()):
        return _cast_once(session, expression.child())
    return _with_children(session, expression, lambda one: _cast_once(session, one))


def _with_children(session: SparkSession, expression: Java, change: Callable[[Java], Java]) -> Java:
    children = [change(one) for one in items_of(expression.children())]
    return expression.withNewChildren(sequence_of(session, children)) if children else expression


def sequence_of(session: SparkSession, items: list[Java]) -> Java:
    """Return a sequence of Scala."""
    jvm: Java = session.sparkContext._jvm
    return jvm.PythonUtils.toSeq(items)
