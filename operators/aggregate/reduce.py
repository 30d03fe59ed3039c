"""Reductions of a column by group code: each is one vectorised pass, without a Python loop per record.

A `Grouping` assigns a group and a weight to every row. The weights are +1 and -1 for the rows of a changelog, and the
multiplicity for the rows of a multiset.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys.rows import binary_rows, first_words
from mixedmode.operators.aggregate.values import Bools, Int64s, Values

INT64_MAX = np.int64(2**63 - 1)
INT64_MIN = np.int64(-(2**63))
_SIGN = np.uint64(2**63)


@dataclass(frozen=True)
class Grouping:
    """`codes` (n,) int32 or int64 in [0, size): the group of each row. `weights` (n,) int64, or None for all ones."""

    codes: npt.NDArray[np.int32] | npt.NDArray[np.int64]
    size: int
    weights: Int64s | None = None

    @cached_property
    def rows(self) -> Int64s:
        """The number of rows (size,) of each group, regardless of weights. Computed once; the array is read-only."""
        counts = np.bincount(self.codes, minlength=self.size).astype(np.int64, copy=False)
        counts.setflags(write=False)
        return counts

    def where(self, rows: Bools | None) -> "Grouping":
        """Return the grouping of the rows where `rows` is True; of all rows for None."""
        if rows is None:
            return self
        return Grouping(self.codes[rows], self.size, None if self.weights is None else self.weights[rows])

    def weighted(self, weights: Int64s) -> "Grouping":
        """Return the same groups, where row i counts `weights[i]` times."""
        return Grouping(self.codes, self.size, weights)

    def repeated(self, counts: Int64s) -> "Grouping":
        """Return a grouping in which row i occurs `counts[i]` times, for rows that hold lists. Weights are dropped.

        Codes [0, 1] repeated by counts [2, 1] are [0, 0, 1].
        """
        codes: Int64s = np.repeat(self.codes.astype(np.int64, copy=False), counts)
        return Grouping(codes, self.size)


def count_by(grouping: Grouping) -> Int64s:
    """Return the total weight of each group's rows: (size,) int64."""
    if grouping.weights is not None:
        return sum_by(grouping, np.ones(len(grouping.codes), np.int64))
    return grouping.rows


def sum_by(grouping: Grouping, column: Int64s) -> Int64s:
    """Return the sum of each group: (size,) int64. The caller ensures that the sums fit."""
    total = np.zeros(grouping.size, np.int64)
    np.add.at(total, grouping.codes, column if grouping.weights is None else column * grouping.weights)
    return total


def sum_floats_by(grouping: Grouping, column: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the sum of each group: (size,) float64, added in row order."""
    weighted = column if grouping.weights is None else column * grouping.weights
    totals = np.bincount(grouping.codes, weights=weighted, minlength=grouping.size)
    return totals.astype(np.float64, copy=False)  # without rows, bincount returns integers


def centred_by(
    grouping: Grouping, column: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the mean (size,) of each group, and the deviation (n,) of each row from the mean of its group.

    A group without rows has the mean 0. The code first subtracts one value of the group (the pivot) from every row. So
    deviations are exactly 0 if all values of a group are equal.
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
    """Return the smallest or largest value (size,) of each group. NULLs are ignored; a group without values is NULL."""
    if isinstance(values.data, pa.Array):
        rows = _extreme_rows(grouping, values.data, values.valid, largest=largest)
        return Values.from_arrow(values.data.take(pa.array(rows, mask=rows < 0)))
    grouping = grouping.where(values.valid)
    data = values.integers if values.valid is None else values.data[values.valid]
    best_so_far = np.full(grouping.size, INT64_MIN if largest else INT64_MAX)
    (np.maximum if largest else np.minimum).at(best_so_far, grouping.codes, data)
    seen = grouping.rows > 0
    return Values(best_so_far, None if seen.all() else seen)


def _extreme_rows(
    grouping: Grouping, column: pa.LargeBinaryArray, valid: Bools | None, *, largest: bool
) -> npt.NDArray[np.intp]:
    """Return the row (size,) of the smallest or largest value of each group; -1 for a group without values.

    Mostly the first 8 bytes decide, which numpy compares as integers. Only rows whose first bytes are those of another
    row of their group, and the extreme ones, are ranked by all of their bytes.
    """
    rows = np.arange(len(column)) if valid is None else np.flatnonzero(valid)
    extreme = np.full(grouping.size, -1)
    if len(rows) == 0:
        return extreme
    codes, leading = grouping.codes[rows], _leading(column)[rows]
    best = extreme_by(Grouping(codes, grouping.size), Values(leading), largest=largest)
    is_best = leading == best.data[codes]
    rows, codes = rows[is_best], codes[is_best]
    extreme[codes] = rows
    contested = np.bincount(codes, minlength=grouping.size)[codes] > 1
    if contested.any():
        rows, codes = rows[contested], codes[contested]
        ranks, _ = rank_bytes(column.take(pa.array(rows)))
        best = extreme_by(Grouping(codes, grouping.size), Values(ranks), largest=largest)
        is_best = ranks == best.data[codes]
        extreme[codes[is_best]] = rows[is_best]
    return extreme


def _leading(column: pa.LargeBinaryArray) -> Int64s:
    """Return the first 8 bytes of each value, padded with zeros, as integers (n,) of the same order. Requires n > 0."""
    ordered: Int64s = (first_words(binary_rows(column)).byteswap() ^ _SIGN).view(np.int64)
    return ordered


def rank_bytes(column: pa.LargeBinaryArray) -> tuple[Int64s, pa.LargeBinaryArray]:
    """Return the rank (n,) of each value, and the distinct values in byte order.

    For [b, a, b] the ranks are [1, 0, 1], and the distinct values are [a, b].
    """
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank_of_code = np.empty(len(order), np.int64)
    rank_of_code[order] = np.arange(len(order))
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    return rank_of_code[codes], encoded.dictionary.take(pa.array(order))


def bytes_of_ranks(ranks: Values, dictionary: pa.LargeBinaryArray) -> Values:
    """Return the values of `ranks`: the inverse of `rank_bytes`. A NULL rank becomes a NULL value."""
    column = dictionary.take(Values(ranks.data, ranks.valid).to_arrow())
    return Values.from_arrow(column)
