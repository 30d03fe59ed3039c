"""Reductions of a column by group code: one vectorised pass each, no Python loop per record.

A `Grouping` says for every row which group it belongs to, and how often it counts (`weights`: +1 and -1 for the rows
of a changelog, the multiplicity for rows kept as a multiset).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.aggregate.values import Bools, Int64s, Values

INT64_MAX = np.int64(2**63 - 1)
INT64_MIN = np.int64(-(2**63))


@dataclass(frozen=True)
class Grouping:
    """`codes` (n,) int32 or int64 in [0, size): the group of each row. `weights` (n,) int64, or None for all ones."""

    codes: npt.NDArray[np.int32] | npt.NDArray[np.int64]
    size: int
    weights: Int64s | None = None

    @cached_property
    def rows(self) -> Int64s:
        """(size,) how many rows each group has, whatever their weights. Counted once, so read-only for all who ask."""
        counts = np.bincount(self.codes, minlength=self.size).astype(np.int64, copy=False)
        counts.setflags(write=False)
        return counts

    def where(self, rows: Bools | None) -> "Grouping":
        """The grouping of the rows that are True; all of them for None."""
        if rows is None:
            return self
        return Grouping(self.codes[rows], self.size, None if self.weights is None else self.weights[rows])

    def weighted(self, weights: Int64s) -> "Grouping":
        """The same groups, where row i counts `weights[i]` times."""
        return Grouping(self.codes, self.size, weights)

    def repeated(self, counts: Int64s) -> "Grouping":
        """Each row `counts` (n,) times: the grouping of what rows hold several of. Weights are not taken over."""
        codes: Int64s = np.repeat(self.codes.astype(np.int64, copy=False), counts)
        return Grouping(codes, self.size)


def count_by(grouping: Grouping) -> Int64s:
    """(size,) int64: the weight of each group's rows."""
    if grouping.weights is not None:
        return sum_by(grouping, np.ones(len(grouping.codes), np.int64))
    return grouping.rows


def sum_by(grouping: Grouping, column: Int64s) -> Int64s:
    """(size,) int64 sums; the caller makes sure that they fit."""
    total = np.zeros(grouping.size, np.int64)
    np.add.at(total, grouping.codes, column if grouping.weights is None else column * grouping.weights)
    return total


def sum_floats_by(grouping: Grouping, column: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(size,) float64 sums, added in row order."""
    weighted = column if grouping.weights is None else column * grouping.weights
    totals = np.bincount(grouping.codes, weights=weighted, minlength=grouping.size)
    return totals.astype(np.float64, copy=False)  # bincount of no rows counts in integers


def centred_by(
    grouping: Grouping, column: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(size,) mean of each group, 0 without a row, and the deviation (n,) of each row from the mean of its group.

    Deviations are taken from one value of the group first. So they are exactly 0 where all values of a group are equal.
    """
    pivots = np.zeros(grouping.size)
    usable = np.isfinite(column)
    if grouping.weights is not None:
        usable &= grouping.weights != 0
    pivots[grouping.codes[usable]] = column[usable]
    shifted = column - pivots[grouping.codes]
    means = sum_floats_by(grouping, shifted) / np.maximum(count_by(grouping), 1)
    return pivots + means, shifted - means[grouping.codes]


def extreme_by(grouping: Grouping, values: Values, *, largest: bool) -> Values:
    """(size,) smallest or largest value of each group, NULLs passed over; NULL for a group without a value."""
    if isinstance(values.data, pa.Array):
        ranks, dictionary = rank_bytes(values.data)
        best = extreme_by(grouping, Values(ranks, values.valid), largest=largest)
        return bytes_of_ranks(best, dictionary)
    grouping = grouping.where(values.valid)
    data = values.data.astype(np.int64, copy=False) if values.valid is None else values.data[values.valid]
    best_so_far = np.full(grouping.size, INT64_MIN if largest else INT64_MAX)
    (np.maximum if largest else np.minimum).at(best_so_far, grouping.codes, data)
    seen = grouping.rows > 0
    return Values(best_so_far, None if seen.all() else seen)


def rank_bytes(column: pa.LargeBinaryArray) -> tuple[Int64s, pa.LargeBinaryArray]:
    """Rank of each value among the distinct ones in byte order: (n,) int64, and the distinct values in that order."""
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank_of_code = np.empty(len(order), np.int64)
    rank_of_code[order] = np.arange(len(order))
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    return rank_of_code[codes], encoded.dictionary.take(pa.array(order))


def bytes_of_ranks(ranks: Values, dictionary: pa.LargeBinaryArray) -> Values:
    """Inverse of `rank_bytes`; a NULL rank gives a NULL value."""
    column = dictionary.take(Values(ranks.data, ranks.valid).to_arrow())
    return Values.from_arrow(column)
