"""The section `join` of a step: two inputs, the columns in which their rows are equal, and the columns of the result.

Its two inputs and `on` are those of TwoInputs. An entry of `select` is a column, all columns of an input, or an SQL
expression with a name:

    left: trades
    right: quotes AS q
    on: [market, trades.symbol = q.ticker]
    condition: trades.price > q.bid
    select: [trades.*, q.bid, q.ask AS asked, q.ask - q.bid AS spread]
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from mixedmode.config.broadcasts import VersionSettings
from mixedmode.config.document import Path
from mixedmode.config.fields import SPAN_MS_MAX, Columns, Flag, Lines, SpanMs, Text, refusal
from mixedmode.config.spelling import did_you_mean
from mixedmode.config.two_inputs import NAME, TwoInputs, plain_name
from mixedmode.durations import format_duration_ms, parse_duration_ms
from mixedmode.errors import InvalidJobError

__all__ = ["AsOfSpec", "JoinSpec", "Selected"]

_SELECTED = re.compile(  # a number, a truth or NULL is an expression
    rf"(?!(?:\d+|true|false|null)\b)(?:(?P<input>{NAME})\s*\.\s*)?(?P<column>{NAME}|\*)(?:\s+as\s+(?P<name>{NAME}))?",
    re.IGNORECASE,
)
_COMPUTED = re.compile(rf"(?P<expression>\S(?:.*\S)?)\s+as\s+(?P<name>{NAME})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Selected:
    """An entry of `select`.

    A column: `input` is the name of its input, None if the entry does not say it; `column` is the column, or `*`.
    Otherwise `expression` is set. `name`: that of the result, if the entry has one.
    """

    text: str
    input: str | None = None
    column: str | None = None
    expression: str | None = None
    name: str | None = None


def _bounds(value: Any) -> Any:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise refusal(((), f": write two durations, the least and the greatest, such as [-1h, 4h]. found={value}"))
    return tuple(_bound_ms(one) for one in value)


def _bound_ms(value: Any) -> int:
    is_before = isinstance(value, str) and value.startswith("-")
    try:
        span_ms = parse_duration_ms(value[1:] if is_before else value)
    except InvalidJobError as error:
        raise refusal(((), f": {error}")) from error
    if span_ms > SPAN_MS_MAX:
        raise refusal(((), f" is longer than event times can be moved. found={value}"))
    return -span_ms if is_before else span_ms


def _bound(bound_ms: int) -> str:
    return f"{'-' * (bound_ms < 0)}{format_duration_ms(abs(bound_ms))}"


#: the least and the greatest distance in time, in milliseconds
Bounds = Annotated[
    tuple[int, int],
    BeforeValidator(_bounds),
    PlainSerializer(lambda bounds: [_bound(one) for one in bounds]),
]


class AsOfSpec(VersionSettings):
    """A join by time: each row of the left meets the last row of the right that is not later."""

    tie_break: Columns = Field(
        default=(),
        description="columns of the right that order its rows of one key and time, the greatest counts; not given: "
        "there is one such row",
    )
    tolerance_ms: SpanMs | None = Field(
        default=None, description="the greatest age of the row of the right; not given: any"
    )
    strictly: Flag = Field(default=False, description="true: the row of the right is earlier, not of the same time")
    deleted: Text | None = Field(
        default=None, description="a boolean column of the right; a row where it is true ends the one before it"
    )


class JoinSpec(TwoInputs):
    """Two inputs, and which of their rows belong together: all with equal keys, if there is no as-of and no within."""

    other_comparisons: ClassVar[str] = " Write any other comparison in `condition`."

    on: Columns = Field(
        description=f"{TwoInputs.model_fields['on'].description}; NULL is equal to nothing", min_length=1
    )
    type: Literal["inner", "left", "right", "full", "semi", "anti"] = Field(
        default="inner",
        description="inner: only pairs; left, right, full: also rows of that side, or of both, without a match; semi: "
        "rows of the left with a match, once; anti: rows of the left without one. An as-of join is inner or left",
    )
    condition: Lines | None = Field(
        default=None,
        description="what else must be true of two rows so that they are a pair, SQL over both inputs, such as "
        "trades.price > quotes.bid; not for as-of",
    )
    as_of: AsOfSpec | None = Field(
        default=None,
        description="each row of the left meets the last row of the right that is not later, in event time",
    )
    within: Bounds | None = Field(
        default=None,
        description="pairs whose event times are near each other: the least and the greatest time of the right minus "
        "that of the left, both included, such as [-1h, 4h]",
    )
    select: Columns = Field(
        default=(),
        description="columns of the result, such as trades.*, quotes.bid, quotes.ask - quotes.bid AS spread; not "
        "given: all columns of the left, and those of the right that are no key",
    )
    event_time: Text | None = Field(
        default=None,
        description="with within: the event time of the result, for windows and joins in later steps. A new name: a "
        "column with the later time of a pair. The event time of a side of which each row of the result has one, as "
        "`select` names it: that time. Not given: the result has no event time",
    )

    @property
    def is_regular(self) -> bool:
        """Return whether all rows with equal keys belong together, regardless of their times."""
        return self.as_of is None and self.within is None

    @property
    def is_in_each_row(self) -> tuple[bool, bool]:
        """Return whether each row of the result has one of the left, and one of the right."""
        return self.type in ("inner", "left"), self.type in ("inner", "right")

    @property
    def lacks_event_time(self) -> bool:
        """Return whether it emits pairs by time, and no column says when a pair happened."""
        return self.within is not None and self.type not in ("semi", "anti") and self.event_time is None

    @property
    def selected(self) -> tuple[Selected, ...]:
        """The entries of `select`."""
        return tuple(_selected(text) for text in self.select)

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from self._kind_findings()
        yield from self._input_findings()
        if self._has_two_names:
            yield from self._select_findings({one.alias.lower() for one in self.inputs})

    def _kind_findings(self) -> Iterator[tuple[Path, str]]:
        if self.as_of is not None and self.within is not None:
            text = " has as-of and within, which say in two ways which rows belong together in time. Remove one."
            yield (), text
        if self.as_of is not None and self.type not in ("inner", "left"):
            text = f" is inner or left with as-of, which looks for a match for each row of the left. found={self.type}"
            yield ("type",), text
        if self.as_of is not None and self.condition is not None:
            text = (
                ": with as-of, it could mean the last row of the right that meets it, or none if the last one does "
                "not. Filter the rows of the right in a sql step before, or the result in one behind."
            )
            yield ("condition",), text
        if self.is_regular and self.late_sinks:
            yield ("late",), ": no row is late for a join without as-of and within. Remove it."
        if self.event_time is not None and (self.within is None or self.type in ("semi", "anti")):
            text = (
                " is for the pairs of a join with within. Remove it: rows of other joins have the event time of the "
                "left, in the column of the left."
            )
            yield ("event-time",), text
        if self.within is not None and self.within[0] > self.within[1]:
            text = f" begins after its end. Write the lesser one first. found={', '.join(map(_bound, self.within))}"
            yield ("within",), text

    def _select_findings(self, aliases: set[str]) -> Iterator[tuple[Path, str]]:
        known = [one.alias for one in self.inputs]
        for item in self.selected:
            if item.input is not None and item.input.lower() not in aliases:
                hint = f"{did_you_mean(item.input, known)} Known here: {', '.join(known)}."
                yield ("select",), f": there is no input of this name.{hint} found={item.text}"
            elif item.column == "*" and item.name is not None:
                yield ("select",), f": all columns cannot have one name. Remove `AS`. found={item.text}"
            elif item.expression is not None and item.name is None:
                yield ("select",), f": an expression needs a name. Add `AS name`. found={item.text}"


def _selected(text: str) -> Selected:
    found = _SELECTED.fullmatch(text)
    if found is not None:
        names = [None if found[group] is None else plain_name(found[group]) for group in ("input", "column", "name")]
        return Selected(text, input=names[0], column=names[1], name=names[2])
    computed = _COMPUTED.fullmatch(text)
    if computed is None:
        return Selected(text, expression=text)
    return Selected(text, expression=computed["expression"], name=plain_name(computed["name"]))
