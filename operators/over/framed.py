"""Functions of an `over` step over a frame of some rows: computed anew for each row, from the oldest row to the newest.

The rows of a frame are read one place at a time: first the oldest row of each frame, then the row after it, and so on.
So there are as many passes over arrays (n,) as a frame has rows, and a sum is the same wherever a table ends.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.over.numbers import added, as_numbers
from mixedmode.operators.over.places import Places, at
from mixedmode.operators.over.ranks import Ranks

__all__ = ["Framed"]


@dataclass(frozen=True, slots=True)
class Framed:
    """The rows from `first` to `last` rows before each row, of a column `joined` (None: no column); see Places."""

    joined: pa.Array | None
    places: Places
    first: int
    last: int

    def count(self) -> pa.Array:
        """Return the number of rows, or of values that are not NULL, (n,)."""
        counts = np.zeros(len(self.places), np.int64)
        for _, counted in self._passes():
            counts += counted
        return pa.array(counts)

    def sum(self, result_type: pa.DataType, where: str) -> pa.Array:
        """Return the sum of integers as an int64, or of floats as a double, (n,); NULL without a value."""
        sums, counts = self._sums(result_type, where)
        return pa.array(sums, mask=counts == 0)

    def mean(self, where: str) -> pa.Array:
        """Return the mean of numbers as a double, (n,); NULL without a value."""
        sums, counts = self._sums(pa.float64(), where)
        return pa.array(sums / np.maximum(counts, 1), mask=counts == 0)

    def extreme(self, *, largest: bool) -> pa.Array:
        """Return the least or the greatest value, (n,); NULL without a value."""
        assert self.joined is not None
        ranks = Ranks.of([self.joined], largest=largest)
        found = np.zeros(len(self.places), np.int64)
        for indices, counted in self._passes():
            np.maximum(found, ranks.numbers[indices], out=found, where=counted)
        return ranks.values_of(found)

    def edge(self, *, last: bool, ignores_nulls: bool) -> pa.Array:
        """Return the value of the first or the last row, (n,), or the first or the last one that is not NULL."""
        assert self.joined is not None
        found, exists = np.zeros(len(self.places), np.int64), np.zeros(len(self.places), np.bool_)
        for indices, counted in self._passes(nulls_count=not ignores_nulls):
            wanted = counted if last else counted & ~exists
            found[wanted] = indices[wanted]
            exists |= counted
        return at(self.joined, found, exists)

    def _sums(self, result_type: pa.DataType, where: str) -> tuple[np.ndarray, Int64s]:
        """Return the sums (n,), and how many values each has."""
        assert self.joined is not None
        numbers = as_numbers(self.joined, result_type)
        sums, counts = np.zeros(len(self.places), numbers.dtype), np.zeros(len(self.places), np.int64)
        for indices, counted in self._passes():
            values = np.where(counted, numbers[indices], 0)
            sums = sums + values if pa.types.is_floating(result_type) else added(sums, values, where)
            counts += counted
        return sums, counts

    def _passes(self, *, nulls_count: bool = False) -> Iterator[tuple[Int64s, Bools]]:
        """Yield a row of each frame, the oldest ones first: (n,) its index, and whether it counts.

        nulls_count: a row counts, too, if it has NULL.
        """
        is_valid = None
        if self.joined is not None and self.joined.null_count and not nulls_count:
            is_valid = pc.is_valid(self.joined).to_numpy(zero_copy_only=False)
        most = int(self.places.numbers.max(initial=0))  # no row has more rows before it
        for by in range(min(self.first, most), self.last - 1, -1):
            indices, exists = self.places.rows_before(by)
            yield indices, exists if is_valid is None or not len(is_valid) else exists & is_valid[indices]
