"""A call of an aggregate function, as written in a job: `count(*)`, `sum(price * qty) filter (where is_paid)`.

A call consists of the function's canonical name, the texts of its arguments and condition, and plain numbers. The texts
are SQL expressions, which Spark computes before the keyed step. This module only finds where they end.

Invariants (tests/config/test_calls.py):
  I1  parse(str(call)) == call
  I2  every spelling in AGGREGATE_FUNCTIONS parses to its canonical name, in any case
"""

import re
from dataclasses import dataclass
from typing import Self

from mixedmode.config.call_texts import closing, pieces
from mixedmode.config.missing_functions import instead_of
from mixedmode.config.spelling import did_you_mean
from mixedmode.config.within_group import WITHIN_GROUP, WithinGroup
from mixedmode.errors import InvalidJobError

#: {canonical name: other accepted spellings} of all functions of a keyed aggregate
AGGREGATE_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "count": (),
    "sum": (),
    "min": (),
    "max": (),
    "avg": ("mean",),
    "stddev_samp": ("stddev", "std"),
    "stddev_pop": (),
    "var_samp": ("variance", "var"),
    "var_pop": (),
    "first": (),
    "last": (),
    "min_by": (),
    "max_by": (),
    "bool_and": ("every",),
    "bool_or": ("some", "any"),
    "count_if": (),
    "bit_and": (),
    "bit_or": (),
    "bit_xor": (),
    "median": (),
    "percentile": ("percentile_cont",),
    "percentile_disc": (),
    "mode": (),
    "approx_count_distinct": (),
    "approx_median": (),
    "approx_percentile": ("percentile_approx",),
    "collect_list": ("array_agg",),
    "collect_set": (),
    "skewness": (),
    "kurtosis": (),
    "corr": (),
    "covar_pop": (),
    "covar_samp": (),
    "regr_count": (),
    "regr_avgx": (),
    "regr_avgy": (),
    "regr_sxx": (),
    "regr_syy": (),
    "regr_sxy": (),
    "regr_slope": (),
    "regr_intercept": (),
    "regr_r2": (),
}
_CANONICAL = {spelling: name for name, others in AGGREGATE_FUNCTIONS.items() for spelling in (name, *others)}
#: all spellings
AGGREGATE_WORDS = frozenset(_CANONICAL)
#: functions that keep the values of a key
COLLECTING = frozenset({"collect_list", "collect_set"})
_ORDERED = frozenset({"mode", "percentile_disc"})  #: functions whose result depends on a descending order
_DISTINCT_FUNCTIONS = frozenset({"count", "sum", "avg"})
#: functions whose result is the same over distinct values
_IDEMPOTENT = frozenset({"min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "collect_set"})
_HEAD = re.compile(r"\s*(\w+)\s*\(", re.ASCII)
_FILTER = re.compile(r"filter\s*\(\s*where\b", re.ASCII | re.IGNORECASE)
_DISTINCT = re.compile(r"distinct\b", re.IGNORECASE)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_QUOTED = re.compile(r"`(?:[^`]|``)+`")
_WHOLE = re.compile(r"\d{1,9}", re.ASCII)
_DECIMAL = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_LITERALS = frozenset({"true", "false", "null"})  # plain words, but never columns


@dataclass(frozen=True, slots=True)
class _Number:
    """A number after a function's argument: its meaning, its range (ends included), and an example.

    `why` is the reason why the number is required; None if it may be left out.
    """

    what: str
    low: float
    high: float
    example: str
    is_whole: bool
    why: str | None = None

    def read(self, function: str, text: str, found: str) -> float:
        """Return the number written as `text`.

        Raises InvalidJobError for anything else, and for a number out of range.
        """
        if (_WHOLE if self.is_whole else _DECIMAL).fullmatch(text):
            number = int(text) if self.is_whole else float(text)
            if self.low <= number <= self.high:
                return number
        kind = "a whole number" if self.is_whole else "a number"
        msg = (
            f"{function} takes {self.what}: {kind} from {self.low:,} to {self.high:,}, as in {self.example}. "
            f"found={found}"
        )
        raise InvalidJobError(msg)


def _bound(function: str) -> _Number:
    why = "all values of a key have no end on an input that goes on, and its state would grow until the job fails"
    return _Number("how many values to keep at most", 1, 10**6, f"{function}(x, 100)", is_whole=True, why=why)


def _share(function: str) -> _Number:
    why = "it says which percentile is meant"
    return _Number("the share of values below the one asked for", 0, 1, f"{function}(x, 0.95)", is_whole=False, why=why)


_ACCURACY = _Number("an accuracy", 10, 10_000, "approx_percentile(x, 0.95, 1000)", is_whole=True)
_ERROR = _Number("a relative error", 0.001, 0.39, "approx_count_distinct(x, 0.01)", is_whole=False)
#: {function: the numbers after its arguments}
_NUMBERS: dict[str, tuple[_Number, ...]] = {
    "approx_count_distinct": (_ERROR,),
    "approx_percentile": (_share("approx_percentile"), _ACCURACY),
    "percentile": (_share("percentile"),),
    "percentile_disc": (_share("percentile_disc"),),
    "collect_list": (_bound("collect_list"),),
    "collect_set": (_bound("collect_set"),),
}
#: {function of two columns: (the meaning of the columns, an example)}
_PAIRS = {
    **{
        name: ("the value to give, and the value to order by", f"{name}(city, delay)")
        for name in AGGREGATE_FUNCTIONS
        if name.endswith("_by")
    },
    **{
        name: ("two numbers", f"{name}(price, weight)")
        for name in AGGREGATE_FUNCTIONS
        if name.startswith(("corr", "covar_"))
    },
    **{
        name: ("the dependent number y, and the independent number x", f"{name}(price, weight)")
        for name in AGGREGATE_FUNCTIONS
        if name.startswith("regr_")
    },
}


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call. `function` is a key of AGGREGATE_FUNCTIONS; `argument` is SQL text, or None for the `*` of `count(*)`.

    `by` is the second argument of a function of two columns. `parameters` are the numbers after the arguments.
    `condition` is the text in `filter (where ...)`. `is_descending` is set if a function of _ORDERED goes by the
    descending order of the values.
    """

    function: str
    argument: str | None
    is_distinct: bool = False
    by: str | None = None
    parameters: tuple[float, ...] = ()
    condition: str | None = None
    is_descending: bool = False

    def __post_init__(self) -> None:
        assert self.function in AGGREGATE_FUNCTIONS, self.function
        assert self.argument is not None or (self.function == "count" and not self.is_distinct), self.function
        assert not self.is_distinct or self.function in _DISTINCT_FUNCTIONS, self.function
        assert not self.is_descending or self.function in _ORDERED, self.function
        assert (self.by is not None) == (self.function in _PAIRS), self.function
        numbers = _NUMBERS.get(self.function, ())
        assert sum(n.why is not None for n in numbers) <= len(self.parameters) <= len(numbers), self.parameters

    def __str__(self) -> str:
        texts = ["*" if self.argument is None else self.argument, self.by, *map(repr, self.parameters)]
        distinct = "distinct " if self.is_distinct else ""
        condition = "" if self.condition is None else f" filter (where {self.condition})"
        if self.is_descending:
            numbers = ", ".join(map(repr, self.parameters))
            return f"{self.function}({numbers}) within group (order by {self.argument} desc){condition}"
        return f"{self.function}({distinct}{', '.join(text for text in texts if text is not None)}){condition}"

    @property
    def expressions(self) -> tuple[str, ...]:
        """The SQL texts that Spark computes before the step: argument, `by` and condition, as far as they are set."""
        return tuple(text for text in (self.argument, self.by, self.condition) if text is not None)

    def sql_of(self, text: str) -> str:
        """Return the SQL that computes one of `expressions`: with a filter, an argument only for rows that pass it.

        So `sum(a / b) filter (where b <> 0)` does not divide by zero.
        """
        if self.condition in (None, text) or column_in(text) is not None:
            return text
        return f"if({self.condition}\n, {text}\n, NULL)"  # a line break ends a comment

    @classmethod
    def parse(cls, text: str, *, kept: int | None = None, is_sql: bool = False) -> Self:
        """Return the call written as `text`. Raises InvalidJobError unless it is exactly one call of a known function.

        kept: how many values a function of COLLECTING keeps, for a text of Spark's SQL, which does not say it.
        is_sql: the text is of SQL, so a message says what to write there.

        >>> str(AggregateCall.parse("Mean( price * qty ) FILTER (WHERE is_paid)"))
        'avg(price * qty) filter (where is_paid)'
        """
        head = _HEAD.match(text)
        if head is None:
            raise _not_a_call(text)
        function = _CANONICAL.get(head[1].lower())
        if function is None:
            raise _unknown(head[1], text, is_sql=is_sql)
        end = closing(text, head.end())
        texts = [piece.strip() for piece in pieces(text[head.end() : end], text)]
        within = WithinGroup.after(text, end + 1)
        if within is not None:
            texts, end = _of_group(function, texts, within, text), within.end
        is_descending = within is not None and within.is_descending and function in _ORDERED
        condition = _condition(text, end + 1)
        texts += [str(kept)] if kept is not None and function in COLLECTING else []
        return cls(function, *_arguments(function, texts, text), condition, is_descending)


def is_column(text: str) -> bool:
    """Return whether an expression is a plain identifier.

    Such a column is used unchanged, without computing anything.
    """
    return bool(_IDENTIFIER.fullmatch(text)) and text.lower() not in _LITERALS


def column_in(text: str) -> str | None:
    """Return the column name if an expression is only a column, quoted or not; else None."""
    if _QUOTED.fullmatch(text):
        return text[1:-1].replace("``", "`")
    return text if is_column(text) else None


def quoted(name: str) -> str:
    """Return a column name quoted for SQL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def named(expression: str, name: str) -> str:
    """Return an SQL expression with a name, for a SELECT. The line break ends a comment in the expression."""
    return f"{expression}\nAS {quoted(name)}"


def _arguments(function: str, texts: list[str], found: str) -> tuple[str | None, bool, str | None, tuple[float, ...]]:
    """Return (argument, is_distinct, by, parameters)."""
    first, rest = texts[0], texts[1:]
    is_distinct = bool(_DISTINCT.match(first))
    if is_distinct:
        first = _DISTINCT.sub("", first, count=1).strip()
        if function not in _DISTINCT_FUNCTIONS | _IDEMPOTENT:
            msg = f"only count, sum and avg take DISTINCT. Make the rows distinct in a step before. found={found}"
            raise InvalidJobError(msg)
    if not first:
        star = ", or * to count rows" if function == "count" and not is_distinct else ""
        msg = (
            f"{function} has no argument. Write a column or an expression between the parentheses{star}. found={found}"
        )
        raise InvalidJobError(msg)
    if first == "*" and (function != "count" or is_distinct):
        msg = f"only count takes *. Write a column or an expression, such as {function}(delay). found={found}"
        raise InvalidJobError(msg)
    by = None
    if function in _PAIRS:
        by, *rest = rest or [""]
        if not by:
            what, example = _PAIRS[function]
            msg = f"{function} takes two arguments: {what}, as in {example}. found={found}"
            raise InvalidJobError(msg)
    if function == "mode" and [text.lower() for text in rest] in (["true"], ["false"]):
        rest = []  # in Spark, it says that ties are not by chance, and here they never are
    parameters = _parameters(function, rest, found)
    return None if first == "*" else first, is_distinct and function not in _IDEMPOTENT, by, parameters


def _of_group(function: str, texts: list[str], within: WithinGroup, found: str) -> list[str]:
    """Return the arguments of a function, for those before a WITHIN GROUP."""
    if function == "percentile":
        return within.percentile(texts)
    if function in _ORDERED:
        return [within.argument, *filter(None, texts)]
    msg = f"only percentile_cont, percentile_disc and mode take WITHIN GROUP, as in {WITHIN_GROUP}. found={found}"
    raise InvalidJobError(msg)


def _parameters(function: str, texts: list[str], found: str) -> tuple[float, ...]:
    numbers = _NUMBERS.get(function, ())
    if len(texts) > len(numbers):
        _refuse_more(function, found)
    for number in numbers[len(texts) :]:
        if number.why is not None:
            msg = f"{function} needs {number.what}: {number.why}. Write it as in {number.example}. found={found}"
            raise InvalidJobError(msg)
    return tuple(number.read(function, text, found) for number, text in zip(numbers, texts, strict=False))


def _refuse_more(function: str, found: str) -> None:
    if function in _PAIRS:
        msg = f"{function} takes two arguments. Compute what it needs in a sql step before. found={found}"
    elif function in _NUMBERS:
        numbers = " and ".join(number.what for number in _NUMBERS[function])
        msg = f"{function} takes one argument, and {numbers}. found={found}"
    else:
        msg = f"{function} takes one argument. Compute what it needs in a sql step before. found={found}"
    raise InvalidJobError(msg)


def _condition(text: str, start: int) -> str | None:
    """Return the condition in `filter (where ...)` from `start` on; None if the text ends there."""
    rest = text[start:].strip()
    if not rest:
        return None
    head = _FILTER.match(rest)
    if head is None:
        if re.match(r"filter\b", rest, re.IGNORECASE):
            msg = f"a filter is written filter (where condition), as in count(*) filter (where delay > 0). found={text}"
            raise InvalidJobError(msg)
        raise _not_a_call(text)
    end = closing(rest, head.end(), text)
    condition = rest[head.end() : end].strip()
    if rest[end + 1 :].strip():
        raise _not_a_call(text)
    if not condition:
        msg = f"the filter has no condition. Write one after WHERE, as in filter (where delay > 0). found={text}"
        raise InvalidJobError(msg)
    return condition


def _unknown(name: str, text: str, *, is_sql: bool) -> InvalidJobError:
    instead = instead_of(name, is_sql=is_sql)
    if instead is not None:
        return InvalidJobError(f"there is no aggregate function {name}: {instead}. found={text}")
    return InvalidJobError(
        f"there is no aggregate function {name}.{did_you_mean(name, _CANONICAL)} docs/aggregates.md lists the "
        f"functions; a process function may compute what none of them does. found={text}"
    )


def _not_a_call(text: str) -> InvalidJobError:
    return InvalidJobError(
        "this is not one call of an aggregate function. Write function(argument), such as count(*), avg(delay) or "
        f"sum(price * qty). found={text}"
    )
