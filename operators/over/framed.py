"""Functions of an `over` step over a frame of some rows: computed anew for each row, from the oldest row to the newest.

The rows of a frame are read one place at a time: first the oldest row of each frame, then the row after it, and so on.
So there are as many passes over arrays (n,) as a frame has rows, and a sum is the same wherever a table ends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.aggregate.exact import carried, exact_sums
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.over.numbers import floats_of, limbs_of
from mixedmode.operators.over.places import Places, at
from mixedmode.operators.over.ranks import Ranks

__all__ = ["Framed"]

N = TypeVar("N", np.int64, np.float64)


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
        """Return the sum of integers, floats or decimals, (n,); NULL without a value."""
        assert self.joined is not None
        if pa.types.is_floating(result_type):
            (sums,), counts = self._sums([floats_of(self.joined)])
            return pa.array(sums, mask=counts == 0)
        limbs, counts = self._sums(limbs_of(self.joined, result_type))
        return exact_sums(carried(limbs), counts == 0, result_type, where)

    def mean(self) -> pa.Array:
        """Return the mean of numbers as a double, (n,); NULL without a value."""
        assert self.joined is not None
        (sums,), counts = self._sums([floats_of(self.joined)])
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

    def _sums(self, numbers: Sequence[npt.NDArray[N]]) -> tuple[list[npt.NDArray[N]], Int64s]:
        """Return the sums (n,) of each of some columns of the joined rows, and how many values each has."""
        sums = [np.zeros(len(self.places), own.dtype) for own in numbers]
        counts = np.zeros(len(self.places), np.int64)
        for indices, counted in self._passes():
            sums = [total + np.where(counted, own[indices], 0) for total, own in zip(sums, numbers, strict=True)]
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
