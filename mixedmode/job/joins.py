"""Joins of two streams in Python. In their arguments the streams are called `left` and `right`.

priced = trades.as_of_join(quotes, on="symbol", type="left", tie_break="seq", select=["left.*", "right.bid"])
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from mixedmode.config.load import checked_section
from mixedmode.config.steps import JoinStep
from mixedmode.connectors.calls import Duration
from mixedmode.job.arguments import argument

__all__ = ["AsOfArguments", "JoinArguments", "as_of_step", "regular_step"]


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


class AsOfArguments(JoinArguments, total=False):
    """Arguments of an as-of join, besides those of all joins.

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


_OF_STEP = ("name", "parallelism")
_OF_JOIN = ("type", "select")


def as_of_step(on: str | Sequence[str], arguments: AsOfArguments) -> JoinStep:
    """Return an as-of join of two inputs whose names are not known yet. Raise InvalidJobError for a wrong argument."""
    given: Mapping[str, Any] = {name: value for name, value in arguments.items() if value is not None}
    unknown = next((name for name in given if name not in AsOfArguments.__annotations__), None)
    if unknown is not None:
        msg = f"as_of_join() got an unexpected keyword argument {unknown!r}"
        raise TypeError(msg)  # as Python does where the signature lists the arguments
    as_of = {name.replace("_", "-"): value for name, value in given.items() if name not in (*_OF_STEP, *_OF_JOIN)}
    join = {"left": "input AS left", "right": "input AS right", "on": on, "as-of": as_of}
    values = {
        "join": join | {name: given[name] for name in _OF_JOIN if name in given},
        **{name: given[name] for name in _OF_STEP if name in given},
    }
    return checked_section(JoinStep, values, place="Stream.as_of_join", name=argument)


def regular_step(on: str | Sequence[str], arguments: JoinArguments) -> JoinStep:
    """Return a join of two inputs whose names are not known yet. Raise InvalidJobError for a wrong argument."""
    given: Mapping[str, Any] = {name: value for name, value in arguments.items() if value is not None}
    unknown = next((name for name in given if name not in JoinArguments.__annotations__), None)
    if unknown is not None:
        msg = f"join() got an unexpected keyword argument {unknown!r}"
        raise TypeError(msg)  # as Python does where the signature lists the arguments
    join = {"left": "input AS left", "right": "input AS right", "on": on}
    values = {
        "join": join | {name: given[name] for name in _OF_JOIN if name in given},
        **{name: given[name] for name in _OF_STEP if name in given},
    }
    return checked_section(JoinStep, values, place="Stream.join", name=argument)
