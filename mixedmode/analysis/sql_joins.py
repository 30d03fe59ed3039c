"""The joins of two inputs in a sql step: what is read of them in the text, and the steps that they are.

The event times of the sides are known when their rows are. Then conditions such as `p.at BETWEEN o.at AND o.at +
INTERVAL 4 HOURS` become `within`, if they compare these times.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mixedmode.analysis.join_times import Bound, within
from mixedmode.analysis.written_sql import item
from mixedmode.config import JoinStep
from mixedmode.config.graph import PREVIOUS
from mixedmode.operators.join import LEFT, RIGHT

__all__ = ["Condition", "JoinedRows", "SqlJoin", "TimedJoin"]


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """Rows of an input, of a join or of a UNION ALL, and the sql over them.

    source: the name of the input in the text, or the join, or the parts of the UNION ALL by name. sql: reads `source`
    as PREVIOUS, parts by their names, and dimensions by theirs; None: the rows of `source` as they are.
    """

    source: "str | SqlJoin | Mapping[str, JoinedRows]"
    sql: str | None


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a join, as SQL over `left` and `right`.

    reads: the columns of each side that it compares, if it does. bound: what it says of the times of the two rows.
    """

    text: str
    reads: tuple[str, str] | None = None
    bound: Bound | None = None

    @property
    def is_bound(self) -> bool:
        """True if it says no more than its bound."""
        return self.bound is not None and self.bound.is_exact


@dataclass(frozen=True, slots=True)
class SqlJoin:
    """A join of two inputs, before the event times of its sides are known.

    sides: the left and the right. computed: {name: text} of the columns that each side has besides. settings: those of
    the join, without times and conditions. columns: (side, its column, the name in the result) of each column. shown:
    the names in the result of those that the text returns.
    """

    sides: tuple[JoinedRows, JoinedRows]
    computed: tuple[Mapping[str, str], Mapping[str, str]]
    settings: Mapping[str, Any]
    columns: Sequence[tuple[int, str, str]]
    shown: Collection[str]
    keys: Sequence[tuple[str, str]]
    conditions: Sequence[Condition]

    def of_times(self, times: tuple[str | None, str | None], wanted: str | None) -> "TimedJoin":
        """Return the join, for sides with these event-time columns.

        If conditions bound the distance of the two times, it is `within` these bounds. A condition that says no more
        than the bounds is left out. wanted: the name in the result of the time by which windows go.
        """
        bounds = [one.bound for one in self.conditions if one.bound is not None and one.bound.columns == times]
        near = within(bounds)
        rest = [one for one in self.conditions if near is None or one.bound not in bounds or not one.is_bound]
        pairs = [*self.keys, *(one.reads for one in rest if one.reads is not None)]
        read = [{pair[side] for pair in pairs} for side in (LEFT, RIGHT)]
        settings = {**self.settings, "condition": " AND ".join(one.text for one in rest) or None}
        step = JoinStep.model_validate({"join": settings})
        if near is not None:
            changes = {"within": near, "event_time": self._event_time(step, times, wanted)}
            step = step.model_copy(update={"join": step.join.model_copy(update=changes)})
        left, right = (self._over(side, read[side]) for side in (LEFT, RIGHT))
        return TimedJoin(step, (left, right))

    def _over(self, side: int, read: Collection[str]) -> str | None:
        items = [item(text, name) for name, text in self.computed[side].items() if name in read]
        return f"SELECT *, {', '.join(items)} FROM {PREVIOUS}" if items else None  # noqa: S608 - the job's own SQL

    def _event_time(self, step: JoinStep, times: tuple[str | None, str | None], wanted: str | None) -> str | None:
        """Return the event time of the pairs: that of a side of which each pair has a row; the left comes first."""
        found = [
            name
            for side in (LEFT, RIGHT)
            for own, column, name in self.columns
            if own == side and column == times[side] and name in self.shown and step.join.is_in_each_row[side]
        ]
        return wanted if wanted in found else next(iter(found), None)


@dataclass(frozen=True, slots=True)
class TimedJoin:
    """A join of two inputs.  computed: the sql that adds columns to each side, which it reads as PREVIOUS, if any."""

    step: JoinStep
    computed: tuple[str | None, str | None]
