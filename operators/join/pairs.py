"""The pairs of an interval join: rows of one key whose times are near each other, and for which its condition holds."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.join.conditions import Condition
from mixedmode.operators.join.products import BLOCK_ROWS
from mixedmode.operators.join.ranges import Ranges, ranges_within
from mixedmode.operators.join.stored import SideRows

__all__ = ["Pairs"]

#: rows of the left, rows of the right, ranges among these rows
_Part: TypeAlias = tuple[Int64s, Int64s, Ranges]


class Pairs:
    """The pairs that have a row of a table.

    `left`, `right`: (n,) the number of partners that each row has found in this table. With a condition, it is known
    once `blocks` has ended.
    """

    def __init__(self, left: SideRows, right: SideRows, parts: Sequence[_Part], condition: Condition | None) -> None:
        self._columns = (left.columns, right.columns)
        self._parts = parts
        self._condition = condition
        self.left, self.right = np.zeros(len(left.codes), np.int64), np.zeros(len(right.codes), np.int64)
        for own_left, own_right, ranges in parts if condition is None else ():
            self.left[own_left] += ranges.partners
            self.right[own_right] += ranges.partners_of(len(own_right))

    @classmethod
    def of(
        cls, left: SideRows, right: SideRows, bounds_us: tuple[int, int], matches: Bools, condition: Condition | None
    ) -> "Pairs":
        """Return the pairs of fresh rows of the left with all of the right, and of others with fresh of the right."""
        new, stored = np.flatnonzero(left.is_fresh), np.flatnonzero(~left.is_fresh)
        every, new_right = np.arange(len(right.codes)), np.flatnonzero(right.is_fresh)
        parts = []
        for own_left, own_right in ((new, every), (stored, new_right)):
            if not len(own_left) or not len(own_right):
                continue
            ranges = ranges_within(
                (left.codes[own_left], left.times_us[own_left]),
                (right.codes[own_right], right.times_us[own_right]),
                bounds_us,
                matches,
            )
            parts.append((own_left, own_right, ranges))
        return cls(left, right, parts, condition)

    def blocks(self) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield (rows of the left, rows of the right) of all pairs, at most BLOCK_ROWS at a time."""
        for own_left, own_right, ranges in self._parts:
            for of_left, of_right in ranges.pairs(BLOCK_ROWS):
                left, right = own_left[of_left], own_right[of_right]
                if self._condition is not None:
                    holds = self._condition.holds(self._columns, left, right)
                    left, right = left[holds], right[holds]
                    np.add.at(self.left, left, 1)
                    np.add.at(self.right, right, 1)
                if len(left):
                    yield left, right

    def find_partners(self) -> None:
        """Find which rows have a partner, where the pairs themselves are not emitted."""
        if self._condition is not None:
            for _ in self.blocks():
                pass
