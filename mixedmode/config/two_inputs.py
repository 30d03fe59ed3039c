"""Two inputs of a step that tells them apart, and the columns in which rows of the two are equal.

A step reads its inputs by name, `trades` or `trades AS t`. An entry of `on` is a column of both, or one of each:

    left: trades
    right: quotes AS q
    on: [market, trades.symbol = q.ticker]
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from mixedmode.config.connectors import AnySink
from mixedmode.config.document import Path
from mixedmode.config.fields import Columns, Count, Section, TableName, Text
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.spelling import did_you_mean

__all__ = ["NAME", "LateRowsSpec", "NamedInput", "TwoInputStep", "TwoInputs", "plain_name"]

#: a name in SQL, as a pattern
NAME = r"(?:\w+|`(?:[^`]|``)+`)"
_INPUT = re.compile(rf"(?P<name>{NAME})(?:\s+as\s+(?P<alias>\w+))?", re.IGNORECASE)
_COLUMN = rf"(?:(?P<{{0}}input>{NAME})\s*\.\s*)?(?P<{{0}}column>{NAME})"
_EQUAL = re.compile(rf"{_COLUMN.format('a')}(?:\s*=\s*{_COLUMN.format('b')})?")


@dataclass(frozen=True, slots=True)
class NamedInput:
    """An input of a step: the source or step, and the name by which the step knows it."""

    name: str
    alias: str


class LateRowsSpec(Section):
    """The outputs of late rows, with the columns of their input."""

    left: AnySink | None = Field(default=None, description="where late rows of the left go; not given: nowhere")
    right: AnySink | None = Field(default=None, description="where late rows of the right go; not given: nowhere")


class TwoInputs(Section):
    """The left and the right input of a step, and the columns in which rows of the two are equal.

    `other_comparisons`: a sentence on what takes other comparisons than those of `on`.
    """

    other_comparisons: ClassVar[str] = ""

    left: Text = Field(description="a source or step, such as trades, or trades AS t")
    right: Text = Field(description="a source or step, such as quotes, or quotes AS q")
    on: Columns = Field(
        description="one or several: a column that both inputs have, or one of each, such as trades.symbol = "
        "quotes.ticker",
        min_length=1,
    )
    late: LateRowsSpec = Field(default_factory=LateRowsSpec, description="where rows go that come too late")

    @property
    def late_sinks(self) -> dict[str, SinkSpec]:
        """{"left" or "right": where late rows of this side go}."""
        found = {"left": self.late.left, "right": self.late.right}
        return {side: sink for side, sink in found.items() if sink is not None}

    @property
    def inputs(self) -> tuple[NamedInput, NamedInput]:
        """The left and the right."""
        found = [_INPUT.fullmatch(text) for text in (self.left, self.right)]
        names = [(plain_name(one["name"]), one["alias"]) for one in found if one is not None]
        left, right = (NamedInput(name, alias or name) for name, alias in names)
        return left, right

    @property
    def equal_columns(self) -> tuple[tuple[str, str], ...]:
        """(column of the left, column of the right) of each entry of `on`."""
        found = [self._equal(text) for text in self.on]
        return tuple(one for one in found if one is not None)

    def _equal(self, text: str) -> tuple[str, str] | None:
        """Return (column of the left, column of the right) of an entry of `on`; None if it says something else."""
        found = _EQUAL.fullmatch(text)
        if found is None:
            return None
        first = plain_name(found["acolumn"])
        if found["bcolumn"] is None:
            return None if found["ainput"] is not None else (first, first)
        pair, names = (first, plain_name(found["bcolumn"])), (found["ainput"], found["binput"])
        left, right = (one.alias.lower() for one in self.inputs)
        sides = tuple(None if name is None else plain_name(name).lower() for name in names)
        if sides in {(None, None), (left, right), (left, None), (None, right)}:
            return pair
        return pair[::-1] if sides in {(right, left), (right, None), (None, left)} else None

    @property
    def _has_two_names(self) -> bool:
        """Return whether `left` and `right` name two inputs, as `_input_findings` requires."""
        if any(_INPUT.fullmatch(text) is None for text in (self.left, self.right)):
            return False
        left, right = self.inputs
        return left.alias.lower() != right.alias.lower()

    def _input_findings(self) -> Iterator[tuple[Path, str]]:
        """Yield the mistakes in `left`, `right` and `on`."""
        wrong = [key for key in ("left", "right") if _INPUT.fullmatch(getattr(self, key)) is None]
        for key in wrong:
            text = (
                " names no input. Write the name of a source or step, with another name for it if needed, such as "
                f"trades or trades AS t. found={getattr(self, key)}"
            )
            yield (key,), text
        if wrong:
            return
        left, right = self.inputs
        if not self._has_two_names:
            text = (
                ": both inputs have this name, so nothing says which of them a column is of. Give one of them another "
                f"name, such as {right.name} AS other. found={right.alias}"
            )
            yield ("right",), text
            return
        known = {one.alias.lower(): one.alias for one in self.inputs}
        for text in self.on:
            unknown = [name for name in _inputs_in(text) if name.lower() not in known]
            if unknown:
                hint = f"{did_you_mean(unknown[0], known.values())} Known here: {', '.join(known.values())}."
                yield ("on",), f": there is no input of this name.{hint} found={text}"
            elif self._equal(text) is None:
                said = (
                    " compares columns of the two inputs. Write a column that both have, or one of each, such as "
                    f"{left.alias}.a = {right.alias}.b.{self.other_comparisons} Compute an expression in a sql step "
                    f"before. found={text}"
                )
                yield ("on",), said


class TwoInputStep(Section):
    """A keyed step that tells two inputs apart. `section`: the key of its TwoInputs."""

    section: ClassVar[str]

    name: TableName | None = Field(default=None, description="a name for the step")
    parallelism: Count | None = Field(
        default=None, description="subtasks of this step; not given: as many as the job has"
    )

    @property
    def pair(self) -> TwoInputs:
        """The section with the two inputs."""
        found: TwoInputs = getattr(self, self.section.replace("-", "_"))
        return found

    @property
    def from_(self) -> tuple[str, ...]:
        """The sources and steps that it reads: the left and the right."""
        return tuple(one.name for one in self.pair.inputs)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The key columns of the left."""
        return tuple(left for left, _ in self.pair.equal_columns)

    @property
    def has_window_key(self) -> bool:
        """False: the rows have an event time of their own."""
        return False


def _inputs_in(text: str) -> list[str]:
    """Return the names of inputs in an entry of `on`."""
    found = _EQUAL.fullmatch(text)
    names = () if found is None else (found["ainput"], found["binput"])
    return [plain_name(name) for name in names if name is not None]


def plain_name(text: str) -> str:
    """Return a name without the quotes of SQL."""
    return text[1:-1].replace("``", "`") if text.startswith("`") else text
