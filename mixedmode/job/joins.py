"""Joins of two streams in Python. In their arguments the streams are called `left` and `right`.

priced = trades.as_of_join(quotes, on="symbol", type="left", tie_break="seq", select=["left.*", "right.bid"])
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from mixedmode.config.load import checked_section
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.steps import JoinStep
from mixedmode.connectors.calls import Duration, given_arguments
from mixedmode.job.arguments import argument, two_input_settings

__all__ = [
    "AsOfArguments",
    "IntervalArguments",
    "JoinArguments",
    "LateRowsArguments",
    "RegularArguments",
    "as_of_step",
    "interval_step",
    "regular_step",
]


class LateRowsArguments(TypedDict, total=False):
    """Arguments of steps over two streams that go by event time.

    late_left, late_right: sinks for rows of each side that come too late; by default such rows are only counted.
    """

    late_left: SinkSpec
    late_right: SinkSpec


class JoinArguments(TypedDict, total=False):
    """Arguments of all joins.

    type: `inner`, the default: only pairs. `left`, `right`, `full`: also rows of that side, or of both, without a
        match, with NULL in the columns of the other. `semi`: rows of the left with a match, once. `anti`: rows of the
        left without one. An as-of join is `inner` or `left`.
    select: columns of the result, such as `["left.*", "right.bid"]`; also SQL expressions with a name. By default, all
        columns of the left, and those of the right that are no key.
    name: the name of the step.
    parallelism: the number of subtasks.
    """

    type: Literal["inner", "left", "right", "full", "semi", "anti"]
    select: str | Sequence[str]
    name: str
    parallelism: int


class AsOfArguments(JoinArguments, LateRowsArguments, total=False):
    """Arguments of an as-of join, with those of JoinArguments and LateRowsArguments.

    tie_break: columns of the right that order its rows of one key and time; the greatest counts. By default, there is
        one such row.
    tolerance: the greatest age of the row of the right. By default, any.
    strictly: the row of the right is earlier, not of the same time.
    deleted: a boolean column of the right; a row where it is true ends the one before it.
    """

    tie_break: str | Sequence[str]
    tolerance: Duration
    strictly: bool
    deleted: str


class RegularArguments(JoinArguments, total=False):
    """Arguments of a join of all rows with one key, with those of JoinArguments.

    condition: what else must be true of two rows so that they are a pair: SQL such as `left.price > right.bid`.
    """

    condition: str


class IntervalArguments(RegularArguments, LateRowsArguments, total=False):
    """Arguments of an interval join, with those of RegularArguments and LateRowsArguments.

    event_time: a column of the result with the later time of a pair, for windows and joins in later steps. By default,
        the result has no event time; that of a semi or anti join has the one of the left.
    """

    event_time: str


def as_of_step(on: str | Sequence[str], arguments: AsOfArguments) -> JoinStep:
    """Return an as-of join of two inputs whose names are not known yet. Raise InvalidJobError for a wrong argument."""
    given = given_arguments(arguments, AsOfArguments, "as_of_join")
    return _step({"on": on, "as-of": {}, **given}, "Stream.as_of_join")


def interval_step(on: str | Sequence[str], within: tuple[Duration, Duration], arguments: IntervalArguments) -> JoinStep:
    """Return an interval join of two inputs whose names are not known yet. Raise InvalidJobError."""
    given = given_arguments(arguments, IntervalArguments, "interval_join")
    return _step({"on": on, "within": within, **given}, "Stream.interval_join")


def regular_step(on: str | Sequence[str], arguments: RegularArguments) -> JoinStep:
    """Return a join of two inputs whose names are not known yet. Raise InvalidJobError for a wrong argument."""
    return _step({"on": on, **given_arguments(arguments, RegularArguments, "join")}, "Stream.join")


def _step(arguments: Mapping[str, Any], place: str) -> JoinStep:
    return checked_section(JoinStep, two_input_settings("join", arguments), place=place, name=argument)
