"""Reads Spark's analysed logical plan into frozen values, for checks. catalyst_queries.py reads plans to compute them.

Only modules that import catalyst_objects.py touch Catalyst's objects. A kind is the simple name of Catalyst's class, so
plans of Spark 4.1, 4.2 and 4.3 read alike. Spark only analyses the SQL text, and runs nothing. Each access to an object
of the JVM is a round trip, so only those expressions are read that a check needs.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType

from mixedmode.analysis.catalyst_objects import (
    BETWEEN,
    columns_of,
    companion,
    id_of,
    ids_of,
    items_of,
    kind_of,
    rows_of,
    sequence_of,
    view_name,
)
from mixedmode.analysis.catalyst_plans import SCRIPT, analysed_plan
from mixedmode.analysis.plan import CLOCK_TEXT, DIMENSION, INPUT, Expression, Node
from mixedmode.analysis.sql_checks import check_literals
from mixedmode.config.calls import named
from mixedmode.spark.errors import REFUSALS, refused_expression
from mixedmode.spark.java_classes import is_instance, java_class

_Java = Any  # an object of the JVM

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
#: patterns of expressions that are read; the replacement of a RUNTIME_REPLACEABLE may contain the others
_MARKS = ("CURRENT_LIKE", "PLAN_EXPRESSION", "OUTER_REFERENCE", "RUNTIME_REPLACEABLE")
#: words that Spark reads as times of the clock, where a constant text is cast to a date or a timestamp
_CLOCK_WORD = re.compile(r"\b(now|today|tomorrow|yesterday)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AnalysedQuery:
    """A query that Spark has analysed.

    node: its plan as far as checks read it; None for a command or a script, which has no frame. plan: Spark's own.
    """

    node: Node | None
    plan: _Java

    def frame(self, session: SparkSession) -> DataFrame:
        """Return the rows of the query. Spark does not analyse it again."""
        return DataFrame(rows_of(session)(session._jsparkSession, self.plan), session)


def read_query(
    session: SparkSession, sql: str, *, inputs: Collection[str], dimensions: Collection[str] = ()
) -> AnalysedQuery:
    """Return a query whose plan is read down to the temporary views named `inputs` and `dimensions`.

    Raise the exceptions of Spark, with positions in `sql`.
    """
    plan = analysed_plan(session, sql)
    if kind_of(plan) == SCRIPT:
        return AnalysedQuery(None, plan)
    reader = _Reader(session, inputs, dimensions=dimensions)
    return AnalysedQuery(None if reader.is_a(plan, _COMMAND) else reader.node(plan), plan)


def read_frame(frame: DataFrame, *, until: DataFrame) -> Node:
    """Return the analysed plan of a frame, down to the plan of the frame `until` that it was made from."""
    return _Reader(frame.sparkSession, (), until=analysed(until)).node(analysed(frame))


def read_expression(frame: DataFrame, text: str, name: str, where: str) -> tuple[DataFrame, Node]:
    """Return the frame of one expression over the rows of another frame, and its analysed plan down to that frame.

    name: that of its column. Raise InvalidJobError, beginning with `where`, for an expression that Spark refuses.
    """
    try:
        projected = frame.selectExpr(named(text, name))
        check_literals(text, where=where)
        return projected, read_frame(projected, until=frame)
    except REFUSALS as error:
        raise refused_expression(where, text, error) from error


def compared_type(session: SparkSession, left: str, right: str) -> DataType:
    """Return the type in which Spark compares values of two types (DDL). Raise Spark's exception if it does not.

    It depends on the settings of the session: without ANSI, Spark compares text with numbers as numbers.
    """
    compared = session.range(0).selectExpr(f"CAST(NULL AS {left}) = CAST(NULL AS {right}) AS compared")
    equal = analysed(compared).projectList().head().child()
    return DataType.fromDDL(str(equal.left().dataType().sql()))


def column_ids(frame: DataFrame) -> dict[str, int]:
    """Return {name of a column in lower case: its id}. A column that is passed on keeps its id, also if it is renamed.

    Spark assigns a new id to a renamed column; then the id here is that of the column before. A field of a struct that
    the plan itself makes of columns is the column.
    """
    plan = analysed(frame)
    passed = _Passed()
    passed.read(plan)
    return {name.lower(): passed.first(own) for name, own in columns_of(plan.output())}


@dataclass(slots=True)
class _Passed:
    """The columns that projections and names of queries in a plan pass on.

    before: {id: id of the column that it is}. made: {id of a struct: ids of its fields; None for other values}.
    fields: {id: (id of a struct, number of the field)}. defined: {id of a query of WITH: ids of its columns}.
    """

    before: dict[int, int] = field(default_factory=dict)
    made: dict[int, list[int | None]] = field(default_factory=dict)
    fields: dict[int, tuple[int, int]] = field(default_factory=dict)
    defined: dict[int, list[int]] = field(default_factory=dict)

    def read(self, plan: _Java) -> None:
        """Read a plan and all plans below it."""
        kind = kind_of(plan)
        if kind == "CTERelationDef":
            self.defined[plan.id()] = ids_of(plan.output())
        elif kind == "CTERelationRef":
            columns = zip(ids_of(plan.output()), self.defined.get(plan.cteId(), ()), strict=False)
            self.before |= {own: before for own, before in columns if own != before}  # Spark may keep the id, too
        elif kind == "Project":
            for expression in items_of(plan.projectList()):
                if kind_of(expression) == "Alias":
                    self._read_alias(id_of(expression), expression.child())
        for child in items_of(plan.children()):
            self.read(child)

    def _read_alias(self, own: int, value: _Java) -> None:
        kind = kind_of(value)
        if kind == "AttributeReference":
            self.before[own] = id_of(value)
        elif kind == "CreateNamedStruct":
            self.made[own] = [
                id_of(one) if kind_of(one) == "AttributeReference" else None for one in items_of(value.valExprs())
            ]
        elif kind == "GetStructField" and kind_of(value.child()) == "AttributeReference":
            self.fields[own] = (id_of(value.child()), int(value.ordinal()))

    def first(self, number: int) -> int:
        """Return the id of the column that one is."""
        while True:
            while number in self.before:
                number = self.before[number]
            if number not in self.fields:
                return number
            struct, place = self.fields[number]
            before = self.made.get(self.first(struct), [])
            column = before[place] if place < len(before) else None
            if column is None:
                return number
            number = column


def analysed(frame: DataFrame) -> _Java:
    """Return the analysed plan of a frame."""
    return frame._jdf.queryExecution().analyzed()


class _Reader:
    """Reads plans of one session. Temporary views named in `inputs`, and the plan `until`, are read as inputs."""

    def __init__(
        self,
        session: SparkSession,
        inputs: Collection[str],
        *,
        dimensions: Collection[str] = (),
        until: _Java | None = None,
    ) -> None:
        context = session.sparkContext
        self._context = context
        self._views = {name.lower(): INPUT for name in inputs} | {name.lower(): DIMENSION for name in dimensions}
        self._until = until
        self._marks = tree_patterns(session, _MARKS)
        self._clock_rules = _clock_rules(session)
        self._families: dict[tuple[str, str], bool] = {}  # {(kind, class): whether the kind extends the class}

    def node(self, plan: _Java) -> Node:
        """Read a plan and all plans below it."""
        replace, read_texts = self._clock_rules
        before = replace.apply(plan)  # to_date('today') is a cast
        after = read_texts.apply(before)
        return self._node(plan, None if after.fastEquals(before) else (before, after))

    def _node(self, plan: _Java, with_times: tuple[_Java, _Java] | None) -> Node:
        """Read a plan.  with_times: the plan before and after texts such as 'today' became times, if any do."""
        kind = kind_of(plan)
        name = str(_NAMES[kind](plan)) if kind in _NAMES else ""
        view = self._views.get(name.lower()) if kind == "View" and plan.isTempView() else None
        if view is not None or (self._until is not None and plan.equals(self._until)):
            return Node(view or INPUT, name=name, is_streaming=plan.isStreaming())
        return Node(
            kind,
            name=name,
            is_streaming=plan.isStreaming(),
            expressions=(*map(self._expression, self._read_of(kind, plan)), *_clock_texts(with_times)),
            children=tuple(map(self._node, items_of(plan.children()), _below(with_times))),
        )

    def is_a(self, found: _Java, name: str) -> bool:
        """Return whether an object is an instance of a class."""
        return is_instance(self._context, found, name)

    def _read_of(self, kind: str, plan: _Java) -> Iterator[_Java]:
        """Return the expressions of a node that have to be read."""
        if kind == "Generate":
            return iter([plan.generator()])
        return items_of(plan.expressions()) if self._is_worth_reading(plan) else iter(())

    def _expression(self, found: _Java) -> Expression:
        kind, name = kind_of(found), str(found.prettyName()).lower()
        if not self._is_worth_reading(found):
            return Expression(kind, name)
        parts = list(items_of(found.children()))
        if self._extends(kind, found, f"{_EXPRESSIONS}.RuntimeReplaceable"):
            parts.append(found.replacement())  # not every kind has its replacement among its children
        is_subquery = self._extends(kind, found, f"{_EXPRESSIONS}.PlanExpression")
        return Expression(
            kind,
            name,
            is_deterministic=found.deterministic() and not _draws_a_vector(kind, found),
            children=tuple(map(self._expression, parts)),
            plan=self.node(found.plan()) if is_subquery else None,
        )

    def _is_worth_reading(self, found: _Java) -> bool:
        return not found.deterministic() or found.containsAnyPattern(self._marks)

    def _extends(self, kind: str, found: _Java, name: str) -> bool:
        if (kind, name) not in self._families:
            self._families[kind, name] = self.is_a(found, name)
        return self._families[kind, name]


@lru_cache(maxsize=4)
def tree_patterns(session: SparkSession, names: tuple[str, ...]) -> _Java:
    """Return Catalyst's patterns of these names as a sequence, for `containsAnyPattern`. A session is asked once."""
    patterns = java_class(session.sparkContext, "org.apache.spark.sql.catalyst.trees.TreePattern")
    return sequence_of(session, [getattr(patterns, name)() for name in names])


@lru_cache(maxsize=4)
def _clock_rules(session: SparkSession) -> tuple[_Java, _Java]:
    """Return two rules of Spark's optimiser: what functions stand for, and constant texts as times of the clock."""
    names = ("ReplaceExpressions", "SpecialDatetimeValues")
    return tuple(companion(session, f"optimizer.{name}") for name in names)


def _below(with_times: tuple[_Java, _Java] | None) -> Iterator[tuple[_Java, _Java] | None]:
    return repeat(None) if with_times is None else zip(*(items_of(one.children()) for one in with_times), strict=True)


def _clock_texts(with_times: tuple[_Java, _Java] | None) -> Iterator[Expression]:
    """Yield an expression for a text in a node that is a time of the clock; 'epoch' is none."""
    if with_times is None:
        return
    before, after = (str(one.expressions().mkString(BETWEEN)) for one in with_times)
    word = _CLOCK_WORD.search(before)
    if before != after and (word is not None or "epoch" not in before.lower()):
        yield Expression(CLOCK_TEXT, "a text that is now or a day" if word is None else f"'{word[1]}'")


def _relation_name(node: _Java) -> str:
    """Return the name of the table, or the paths of the files."""
    if node.catalogTable().isDefined():
        return str(node.catalogTable().get().identifier().unquotedString())
    relation = node.relation()
    return str(relation.location().rootPaths().mkString(", ") if kind_of(relation) == "HadoopFsRelation" else relation)


def _lateral_name(node: _Java) -> str:
    """Return the type of the join, with ON if it has a condition."""
    return f"{node.joinType().toString()}{' ON' if node.condition().isDefined() else ''}"


def _draws_a_vector(kind: str, found: _Java) -> bool:
    """Return whether an encryption draws a random initial vector, although Spark calls it deterministic."""
    return kind == "AesEncrypt" and found.mode().sql() != "'ECB'" and found.iv().sql() == "CAST('' AS BINARY)"


#: {kind: function that returns the name of a node}
_NAMES: Mapping[str, Callable[[_Java], str]] = {
    "Join": lambda node: node.joinType().toString(),
    "LateralJoin": _lateral_name,
    "View": view_name,
    "LogicalRelation": _relation_name,
    "HiveTableRelation": lambda node: node.tableMeta().identifier().unquotedString(),
    "DataSourceV2Relation": lambda node: node.name(),
    "StreamingRelation": lambda node: node.sourceName(),
    "StreamingRelationV2": lambda node: node.sourceName(),
}
