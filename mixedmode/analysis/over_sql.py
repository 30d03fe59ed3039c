"""A sql step with functions OVER the rows before as what it means: a sql step, a step with `over`, and a sql step.

Example: `SELECT k, x - lag(x) OVER (PARTITION BY k ORDER BY at) AS more FROM t` becomes

    before   SELECT k, x, at FROM t
    step     key-by: [k], over: {columns: {lag_x: lag(x, 1)}}
    after    SELECT k, x - lag_x AS more FROM previous

ORDER BY begins with the event time, which of results of windows is the end of the window. Of rows that are equal in it,
Spark puts any one first; the step orders them by their other columns.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst import AnalysedQuery
from mixedmode.analysis.catalyst_aggregates import has_windows, top_of
from mixedmode.analysis.catalyst_objects import id_of, items_of, kind_of
from mixedmode.analysis.catalyst_over import OverQuery, functions_of, is_column
from mixedmode.analysis.catalyst_ranks import whole_number
from mixedmode.analysis.catalyst_texts import TextLostError
from mixedmode.analysis.grouped_sql import NUMBERED, GroupedSql
from mixedmode.analysis.over_columns import after_text, column_names, read_columns
from mixedmode.analysis.query_text import before_qualify
from mixedmode.analysis.window_columns import LAST_OF_WINDOW, WINDOW_TIME, bounds_of, window_values
from mixedmode.analysis.written_sql import free_name, is_free, selected, types_of, with_text
from mixedmode.config import OverStep, SqlStep
from mixedmode.config.calls import quoted
from mixedmode.config.over_calls import RANKS, OverCall
from mixedmode.durations import format_duration_ms
from mixedmode.errors import InvalidJobError

__all__ = ["over_sql"]

_Java = Any  # an object of the JVM
_WRITE = "Write a sql step with its FROM and WHERE, then a step with key-by and over."
#: {class of Spark: function of an `over` step}
_FUNCTIONS = {
    "RowNumber": "row_number",
    "Rank": "rank",
    "DenseRank": "dense_rank",
    "Lag": "lag",
    "Count": "count",
    "Sum": "sum",
    "Average": "avg",
    "Min": "min",
    "Max": "max",
    "First": "first_value",
    "Last": "last_value",
}
#: {bound of a frame in Spark: its words}
_BOUNDS = {"UnboundedPreceding$": "unbounded preceding", "CurrentRow$": "current row"}


def over_sql(session: SparkSession, query: AnalysedQuery, step: SqlStep, *, name: str, where: str) -> GroupedSql | None:
    """Return the steps for a query whose top has functions with OVER of an input; None for another one.

    name: that of the keyed step. Raise InvalidJobError for functions, frames and orders that an `over` step does not
    have, and for expressions whose text Spark does not read as they are.
    """
    plan = top_of(query.plan)
    functions = functions_of(plan)
    parts = before_qualify(step.sql) if functions else None
    if parts is None:
        return None
    over = OverQuery.of(session, plan, {id_of(one): one.toAttribute() for one in functions})
    _check_query(over, functions, where)
    end_of = _window_of_order(over)
    names = column_names(over, () if end_of is None else (WINDOW_TIME,))
    results = _result_names(over, functions, [*names.values()])
    windows = over.windows
    is_key = any(number in over.keys for number in windows)
    bounds = bounds_of({number: names[number] for number in windows}, names.values(), is_key=is_key)
    made_of = {number: bounds.get(number, (own,)) for number, own in names.items()}
    try:
        read = read_columns(session, over, made_of)
        time, *ties = [column for number, *_ in over.order for column in made_of[number]]
        if end_of is not None:
            (value,) = window_values(session, end_of, [LAST_OF_WINDOW])
            read, time = [*read, (value, WINDOW_TIME)], WINDOW_TIME
        before = selected(session, step, parts, read, over.source)
        calls = {results[id_of(one)]: _call(one.child(), names, where) for one in functions}
        keys = list(dict.fromkeys(column for number in over.keys for column in made_of[number]))
        settings = {"over": {"columns": calls, "tie-break": ties}} | ({"key-by": keys} if keys else {})
        keyed = OverStep.model_validate(settings)
        added = [(one.toAttribute(), results[id_of(one)]) for one in functions]
        after = with_text(step, after_text(session, over, names, added, bounds))
    except (TextLostError, ValidationError) as error:
        msg = f"{where}: the step with over for this query cannot be written out. {_WRITE} found={error}"
        raise InvalidJobError(msg) from error
    types = types_of(query.frame(session))
    return GroupedSql(before, keyed.model_copy(update={"name": name}), after, types, time)


def _check_query(over: OverQuery, functions: Sequence[_Java], where: str) -> None:
    """Raise InvalidJobError for an order by which no `over` step goes, and for more than one keyed step in a query."""
    if kind_of(over.source) == "Window":
        msg = (
            f"{where}: the functions with OVER in one query have one PARTITION BY and ORDER BY here. Put those with "
            "another one into a query of their own in parentheses, and read its rows."
        )
        raise InvalidJobError(msg)
    if kind_of(over.source) == "Aggregate":
        msg = f"{where}: put the GROUP BY into parentheses, and write OVER in the query around it."
        raise InvalidJobError(msg)
    kinds = {kind_of(one.child().windowFunction()) for one in functions}
    only_numbers = kinds == {"RowNumber"}
    if not over.order:
        msg = (
            f"{where}: a function with OVER goes by the rows before a row here, so it needs ORDER BY with the event "
            "time. For one value of all rows of a key, join with a query that has a GROUP BY."
        )
        raise InvalidJobError(f"{where}: {NUMBERED}" if only_numbers else msg)
    if any(descending or not nulls_first for _, descending, nulls_first in over.order):
        msg = (
            f"{where}: OVER goes by the event time, from the oldest row to the newest, and here every column of its "
            "ORDER BY is ascending: in another order, a row would change whenever a later one comes."
        )
        raise InvalidJobError(f"{where}: {NUMBERED}" if only_numbers else msg)


def _window_of_order(over: OverQuery) -> _Java | None:
    """Return the column of windows by whose end ORDER BY begins; None if it begins with another column."""
    _, value = over.columns[over.order[0][0]]
    is_end = kind_of(value) == "GetStructField" and value.ordinal() == 1
    return value.child() if is_end and has_windows(over.source, value.child()) else None


def _result_names(over: OverQuery, functions: Sequence[_Java], taken: Sequence[str]) -> dict[int, str]:
    """Return {id: name} of the results: that of the SELECT, if it is free, or one made of the function's text."""
    used = {name.lower() for name in taken}
    numbers = {id_of(one) for one in functions}
    names = {}
    for shown in over.shown:
        number = id_of(shown.value) if is_column(shown.value) else None
        if number in numbers and number not in names and is_free(shown.name, used):
            names[number] = shown.name
            used.add(shown.name.lower())
    for one in functions:
        if id_of(one) not in names:
            names[id_of(one)] = free_name(str(one.child().windowFunction().sql()), used)
    return names


def _call(expression: _Java, names: Mapping[int, str], where: str) -> OverCall:
    """Return a function with OVER as a call of an `over` step.  names: {id: name} of the columns that it may read."""
    function = expression.windowFunction()
    is_aggregate = kind_of(function) == "AggregateExpression"
    found = f"found={expression.windowFunction().sql()}"
    if is_aggregate and (function.isDistinct() or function.filter().isDefined()):
        msg = (
            f"{where}: a function with OVER takes no DISTINCT and no FILTER here. In place of a filter, write "
            f"if(condition, x, NULL) as its argument. {found}"
        )
        raise InvalidJobError(msg)
    function = function.aggregateFunction() if is_aggregate else function
    name = _FUNCTIONS.get(kind_of(function), str(function.prettyName()))
    try:
        arguments, words = _arguments(name, function, names)
        if name == "lag" and words and len(arguments) == 2 and arguments[1] == "1":
            return OverCall.parse(f"last_value({arguments[0]}){words} rows between unbounded preceding and 1 preceding")
        has_frame = name not in RANKS and name != "lag"
        frame = _frame(expression.windowSpec().frameSpecification()) if has_frame else ""
        return OverCall.parse(f"{name}({', '.join(arguments)}){words} {frame}")
    except InvalidJobError as error:
        msg = f"{where}: OVER runs as a step with over: {error}"
        raise InvalidJobError(msg) from error


def _arguments(name: str, function: _Java, names: Mapping[int, str]) -> tuple[list[str], str]:
    """Return the arguments of a function, and the words about NULL after it."""
    if name in RANKS or name not in _FUNCTIONS.values():
        return [], ""
    given = [*items_of(function.children())]
    if name == "count" and whole_number(given[0]) == 1 and len(given) == 1:
        return ["*"], ""
    values = [function.input()] if name == "lag" else given
    texts = [quoted(names[id_of(one)]) if is_column(one) else str(one.sql()) for one in values]
    if name == "lag":
        texts.append(str(function.inputOffset().sql()))
        texts += _default(function.default())
    has_words = name in ("lag", "first_value", "last_value") and function.ignoreNulls()
    return texts, " ignore nulls" if has_words else ""


def _default(default: _Java) -> list[str]:
    """Return the default of a `lag`, as a call has it; [] for NULL."""
    literal = default
    while kind_of(literal) == "Cast":
        literal = literal.child()
    if kind_of(literal) != "Literal":
        return [str(default.sql())]
    value = literal.value()
    if value is None:
        return []
    is_text = kind_of(literal.dataType()) == "StringType"
    return [f"'{value}'" if is_text else str(value).lower() if isinstance(value, bool) else str(value)]


def _frame(frame: _Java) -> str:
    """Return the words of a frame."""
    kind = str(frame.frameType().sql()).lower()
    return f"{kind} between {_bound(frame.lower())} and {_bound(frame.upper())}"


def _bound(bound: _Java) -> str:
    kind = kind_of(bound)
    if kind in _BOUNDS:
        return _BOUNDS[kind]
    literal = bound.child() if kind == "UnaryMinus" else bound
    if kind_of(literal.dataType()) == "DayTimeIntervalType":
        return _span(literal, is_before=kind == "UnaryMinus")
    number = whole_number(literal)
    if number is None:
        return str(bound.sql())
    number = -number if kind == "UnaryMinus" else number
    return "current row" if number == 0 else f"{abs(number)} {'preceding' if number < 0 else 'following'}"


def _span(interval: _Java, *, is_before: bool) -> str:
    """Return the words of a bound at an interval before or after the row's time."""
    micros = interval.value() if kind_of(interval) == "Literal" else None
    if micros is None or micros % 1000:
        return str(interval.sql())
    side = "preceding" if is_before == (micros > 0) else "following"
    return f"{format_duration_ms(abs(int(micros)) // 1000)} {side}"
