"""One call of an aggregate function, as written in a job: `count(*)`, `avg(delay)`, `sum(price * qty)`.

A call is the function's canonical name and the text of its argument. The argument is an SQL expression that Spark
computes before the keyed step; nothing here looks into it beyond finding where it ends.

Invariants (tests/config/test_calls.py):
  I1  parse(str(call)) == call
  I2  every spelling in AGGREGATE_FUNCTIONS parses to its canonical name, in any case
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError

#: canonical name: other accepted spellings; the one table of what a keyed aggregate can compute
AGGREGATE_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "count": (),
    "sum": (),
    "min": (),
    "max": (),
    "avg": ("mean",),
    "stddev_samp": ("stddev", "std"),
    "stddev_pop": (),
    "var_samp": ("variance",),
    "var_pop": (),
    "first": (),
    "last": (),
    "bool_and": ("every",),
    "bool_or": ("some", "any"),
}
_CANONICAL = {spelling: name for name, others in AGGREGATE_FUNCTIONS.items() for spelling in (name, *others)}
_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.ASCII | re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LITERALS = frozenset({"true", "false", "null"})  # plain words, but never columns
_QUOTES = "'\"`"


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """`function` is a key of AGGREGATE_FUNCTIONS; `argument` is SQL text, or None for the `*` of `count(*)`."""

    function: str
    argument: str | None

    def __post_init__(self) -> None:
        assert self.function in AGGREGATE_FUNCTIONS, self.function
        assert self.argument is not None or self.function == "count", self.function

    def __str__(self) -> str:
        return f"{self.function}({'*' if self.argument is None else self.argument})"

    @property
    def is_column(self) -> bool:
        """Whether the argument is a plain identifier, so that a column can be used as it is, without computing it."""
        argument = self.argument
        return argument is not None and bool(_IDENTIFIER.fullmatch(argument)) and argument.lower() not in _LITERALS

    @classmethod
    def parse(cls, text: str) -> Self:
        """The call that `text` writes down.  Raises InvalidJobError unless it is exactly one call of a known function.

        >>> AggregateCall.parse("Mean( price * qty )")
        AggregateCall(function='avg', argument='price * qty')
        """
        match = _CALL.fullmatch(text)
        if match is None:
            raise _not_a_call(text)
        function = _CANONICAL.get(match[1].lower())
        if function is None:
            known = ", ".join(_CANONICAL)
            hint = did_you_mean(match[1], _CANONICAL)
            msg = f"there is no aggregate function {match[1]}.{hint} Known functions: {known}. found={text}"
            raise InvalidJobError(msg)
        return cls(function, _argument(function, match[2].strip(), text))


def _argument(function: str, argument: str, text: str) -> str | None:
    if not argument:
        star = ", or * to count rows" if function == "count" else ""
        msg = f"{function} has no argument. Write a column or an expression between the parentheses{star}. found={text}"
        raise InvalidJobError(msg)
    if argument == "*":
        if function == "count":
            return None
        msg = f"only count takes *. Write a column or an expression, such as {function}(delay). found={text}"
        raise InvalidJobError(msg)
    if re.match(r"distinct\b", argument, re.IGNORECASE):
        msg = f"DISTINCT is not supported in a keyed aggregate. Make the rows distinct in a step before. found={text}"
        raise InvalidJobError(msg)
    _check_one_argument(function, argument, text)
    return argument


def _check_one_argument(function: str, argument: str, text: str) -> None:
    depth = 0
    for char in _outside_quotes(argument, text):
        depth += (char == "(") - (char == ")")
        if depth < 0:  # the parenthesis that opened the call closes before the end
            raise _not_a_call(text)
        if char == "," and depth == 0:
            msg = f"{function} takes one argument. Compute what it needs in a sql step before. found={text}"
            raise InvalidJobError(msg)
    if depth:
        msg = f"a parenthesis is never closed. Close it before the end of the argument. found={text}"
        raise InvalidJobError(msg)


def _outside_quotes(argument: str, text: str) -> Iterator[str]:
    """The characters that are not in a quoted string or name; a backslash escapes in strings, as in Spark SQL."""
    quote = ""
    chars = iter(argument)
    for char in chars:
        if quote and char == "\\" and quote != "`":
            next(chars, None)
        elif quote:
            quote = "" if char == quote else quote
        elif char in _QUOTES:
            quote = char
        else:
            yield char
    if quote:
        msg = f"a quoted part is never closed. Add the closing {quote}. found={text}"
        raise InvalidJobError(msg)


def _not_a_call(text: str) -> InvalidJobError:
    return InvalidJobError(
        "this is not one call of an aggregate function. Write function(argument), such as count(*), avg(delay) or "
        f"sum(price * qty). found={text}"
    )
