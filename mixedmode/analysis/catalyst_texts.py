"""Writes expressions of Spark's analysed plans as SQL over other columns, and compares plans and expressions.

Each text that `columns_over` writes is read again by Spark, and must be the expression that it was made of. So no
expression whose text does not say all of it is taken for another one.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst import analysed
from mixedmode.analysis.catalyst_objects import companion, id_of, items_of, kind_of, sequence_of
from mixedmode.analysis.catalyst_plans import no_rows, without_with
from mixedmode.config.calls import named
from mixedmode.spark.errors import REFUSALS
from mixedmode.spark.java_classes import is_instance, java_class

__all__ = [
    "TextLostError",
    "cast_once",
    "columns_over",
    "have_same_rows",
    "is_same",
    "projected",
    "renamed",
    "replaced",
    "shape_of",
    "text_over",
    "value_of",
    "within_query",
]

_Java = Any  # an object of the JVM

_CATALYST = "org.apache.spark.sql.catalyst"
_OUTER = "OuterReference"  # in arguments, also where the subquery has become a join
_MODE = "Mode"
_DIFFERENCE = "DatetimeSub"  # written with a sign, and stands for another expression
#: {kind: the function}, of functions whose text lacks the schema and the options
_PARSERS = {"CsvToStructs": "from_csv", "JsonToStructs": "from_json"}
_ID = re.compile(r"(#|CTERelation(?:Def|Ref) )(\d+)")


class TextLostError(Exception):
    """Spark does not read the text of an expression as the expression."""


def columns_over(
    session: SparkSession,
    columns: Sequence[tuple[_Java, str | None]],
    expressions: Sequence[_Java],
    *,
    made_of: Mapping[int, _Java] | None = None,
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


def text_over(session: SparkSession, expression: _Java, values: Mapping[int, _Java]) -> str:
    """Return an expression as SQL, with values in place of its columns. The text may say less than the expression."""
    return str(_as_called(session, expression, values, ()).sql())


def is_same(session: SparkSession, one: _Java, other: _Java) -> bool:
    """Return whether two expressions over the same columns always have the same value."""
    return bool(one.semanticEquals(other) or cast_once(session, one).semanticEquals(cast_once(session, other)))


def shape_of(plan: _Java) -> str:
    """Return the text of a plan, with ids that only say which of its columns are the same."""
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return f"{found[1]}{numbers.setdefault(found[0], len(numbers))}"

    return _ID.sub(number, str(plan.toString()))


def have_same_rows(session: SparkSession, first: _Java, second: _Java) -> bool:
    """Return whether two plans differ at most in the names of queries, and in what these pass on unchanged."""
    plans = [first, second]
    for name in ("analysis.EliminateView", "analysis.EliminateSubqueryAliases"):
        plans = [companion(session, name).apply(plan) for plan in plans]
    plans = [companion(session, "optimizer.RemoveNoopOperators").apply(without_with(session, plan)) for plan in plans]
    return bool(plans[0].sameResult(plans[1]))


def value_of(column: _Java) -> _Java:
    """Return the expression that a column of a SELECT is."""
    return column.child() if kind_of(column) == "Alias" else column


def renamed(session: SparkSession, column: _Java, name: str) -> _Java:
    """Return a column under another name, without its table."""
    return column.withName(name).withQualifier(sequence_of(session, []))


def replaced(session: SparkSession, expression: _Java, values: Mapping[int, _Java]) -> _Java:
    """Return an expression with values in place of its columns."""
    if not values:
        return expression
    if kind_of(expression) == "AttributeReference":
        return values.get(id_of(expression), expression)
    return _with_children(session, expression, lambda one: replaced(session, one, values))


def projected(session: SparkSession, project: _Java, values: Mapping[int, _Java]) -> dict[int, _Java]:
    """Return {id: value} of the columns of a Project.  values: those of the columns of its input."""
    return {id_of(one): replaced(session, value_of(one), values) for one in items_of(project.projectList())}


def _as_called(
    session: SparkSession, expression: _Java, values: Mapping[int, _Java], known: Sequence[tuple[_Java, _Java]]
) -> _Java:
    """Return the same for its text: functions such as nvl, which stand for another expression, by their arguments.

    known: (expression, value) of what an argument may be besides columns.
    """
    if kind_of(expression) == "AttributeReference":
        return values.get(id_of(expression), expression)
    if kind_of(expression) == _DIFFERENCE:
        sides = (*items_of(expression.parameters()), expression.replacement())
        parts = [_as_called(session, one, values, known) for one in sides]
        return companion(session, f"expressions.{_DIFFERENCE}").apply(*parts)
    if kind_of(expression) == _MODE and expression.reverseOpt().isDefined():
        return _mode(session, expression, _as_called(session, expression.child(), values, known))
    if kind_of(expression) in _PARSERS:
        return _parsing(session, expression, _as_called(session, expression.child(), values, known))
    if _is_called(session, expression):
        arguments = [_argument(session, one, values, known) for one in items_of(expression.parameters())]
        return _call(session, str(expression.prettyName()), arguments)
    return _with_children(session, expression, lambda one: _as_called(session, one, values, known))


def _mode(session: SparkSession, expression: _Java, value: _Java) -> _Java:
    """Return mode() WITHIN GROUP of a value for its text. Spark writes DESC for the order without it, and reads it."""
    is_reverse = java_class(session.sparkContext, "scala.Some")(not expression.reverseOpt().get())
    return companion(session, f"expressions.aggregate.{_MODE}").apply(value, 0, 0, is_reverse)


def _parsing(session: SparkSession, expression: _Java, text: _Java) -> _Java:
    """Return the call of from_json or from_csv that an expression is, with its schema and its options.

    text: what it parses.
    """
    literal = companion(session, "expressions.Literal")
    pairs = [(str(one._1()), str(one._2())) for one in items_of(expression.options().toSeq())]
    options = [literal.apply(one) for pair in sorted(pairs) for one in pair]
    arguments = [text, literal.apply(str(expression.schema().sql()))]
    arguments += [_call(session, "map", options)] if options else []
    return _call(session, _PARSERS[kind_of(expression)], arguments)


def _call(session: SparkSession, name: str, arguments: list[_Java]) -> _Java:
    """Return the call of a function, for its text."""
    return companion(session, "analysis.UnresolvedFunction").apply(name, sequence_of(session, arguments), False)


def _argument(
    session: SparkSession, expression: _Java, values: Mapping[int, _Java], known: Sequence[tuple[_Java, _Java]]
) -> _Java:
    value = next((value for one, value in known if expression.semanticEquals(one)), None)
    if value is not None:
        return value
    if kind_of(expression) == _OUTER:
        return _argument(session, expression.e(), values, known)
    if kind_of(expression) == "AttributeReference" or _is_called(session, expression):
        return _as_called(session, expression, values, known)
    return _with_children(session, expression, lambda one: _argument(session, one, values, known))


def _is_called(session: SparkSession, expression: _Java) -> bool:
    """Return whether an expression is a call that stands for its only child, and keeps its arguments besides."""
    called = f"{_CATALYST}.expressions.InheritAnalysisRules"
    return is_instance(session.sparkContext, expression, called)


def within_query(session: SparkSession, expression: _Java) -> _Java:
    """Return an expression in which columns of the query around a subquery are columns like others."""
    if kind_of(expression) == _OUTER:
        return expression.e()
    return _with_children(session, expression, lambda one: within_query(session, one))


def cast_once(session: SparkSession, expression: _Java) -> _Java:
    """Return an expression without casts to the type that a value has, and of NULL, which is one of each type."""
    if kind_of(expression) == "Cast" and expression.child().dataType().equals(expression.dataType()):
        return cast_once(session, expression.child())
    if kind_of(expression) == "Cast" and kind_of(expression.child().dataType()) == "NullType$":
        return companion(session, "expressions.Literal").create(None, expression.dataType())
    return _with_children(session, expression, lambda one: cast_once(session, one))


def _with_children(session: SparkSession, expression: _Java, change: Callable[[_Java], _Java]) -> _Java:
    children = [change(one) for one in items_of(expression.children())]
    return expression.withNewChildren(sequence_of(session, children)) if children else expression
