"""The rows that a join without a bound emits: pairs in blocks, rows of one side by themselves, each with a weight."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.interface import AppendedRows, Changes
from mixedmode.operators.join.bags import Bag
from mixedmode.operators.join.conditions import Condition
from mixedmode.operators.join.joined_rows import JoinedRows
from mixedmode.operators.join.layout import LEFT, JoinLayout
from mixedmode.operators.join.products import blocks_of_pairs, blocks_of_repeats

__all__ = ["Emission"]

#: all columns of a side, and which of their rows each row of the result has; None: NULL
_Side = tuple[Sequence[pa.Array], Int64s] | None


@dataclass(frozen=True, slots=True)
class Emission:
    """Emits at most `block_rows` rows at once. `only_adds`: no row is ever retracted. `condition`: of a pair."""

    layout: JoinLayout
    condition: Condition | None
    block_rows: int
    only_adds: bool

    def pairs(self, bags: tuple[Bag, Bag], of_left: Bools, of_right: Bools) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield the pairs that the rows with `of_left` and `of_right` form, by their numbers, in blocks."""
        left, right = bags
        lefts, rights = np.flatnonzero(of_left), np.flatnonzero(of_right)
        for a, b in blocks_of_pairs(lefts, left.codes[lefts], rights, right.codes[rights], self.block_rows):
            if self.condition is None:
                yield a, b
                continue
            holds = self.condition.holds((left.columns, right.columns), left.rows[a], right.rows[b])
            if holds.any():
                yield a[holds], b[holds]

    def changed_pairs(self, bags: tuple[Bag, Bag], a: Int64s, b: Int64s) -> Iterator[Changes]:
        """Yield the changes of pairs of rows, by their numbers."""
        left, right = bags
        weights = left.after[a] * right.after[b] - left.before[a] * right.before[b]
        yield from self._rows(weights, (left.columns, left.rows[a]), (right.columns, right.rows[b]))

    def alone(self, bag: Bag, side: int, before: Bools, after: Bools) -> Iterator[Changes]:
        """Yield the changes of rows of one side that are in the result by themselves.

        before, after: (n,) True for the rows for which that holds, before and after the epoch.
        """
        weights = bag.after * after - bag.before * before
        rows = np.flatnonzero(weights)
        for start in range(0, len(rows), self.block_rows):
            own = rows[start : start + self.block_rows]
            given = (bag.columns, bag.rows[own])
            yield from self._rows(weights[own], *((given, None) if side == LEFT else (None, given)))

    def _rows(self, weights: Int64s, left: _Side, right: _Side) -> Iterator[Changes]:
        """Yield rows of the result (n,), each as often as the size of its weight."""
        if (weights == 1).all():
            yield from self._block(weights, left, right)
            return
        for nth in blocks_of_repeats(np.abs(weights), self.block_rows):
            repeated = [None if one is None else (one[0], one[1][nth]) for one in (left, right)]
            yield from self._block(np.sign(weights[nth]), *repeated)

    def _block(self, weights: Int64s, left: _Side, right: _Side) -> Iterator[Changes]:
        """Yield rows of the result (n,)."""
        for piece in self.layout.pieces(left, right):
            own, columns = weights[piece], []
            taken = [None if one is None else pa.array(one[1][piece]) for one in (left, right)]
            for column in self.layout.output:
                given, rows = (left, right)[column.side], taken[column.side]
                if given is None or rows is None:
                    columns.append(pa.nulls(len(own), self.layout.sides[column.side][column.index].type))
                else:
                    columns.append(given[0][column.index].take(rows))
            table = pa.table(columns, names=[column.name for column in self.layout.output])
            yield AppendedRows(table) if self.only_adds else JoinedRows(table, own)
