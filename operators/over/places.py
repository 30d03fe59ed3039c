"""The places of sorted rows within their keys, and the rows before them: those of the table, and those that are kept.

Example: the table has the rows a b | c of two keys, and of the first key the rows x y are kept. The joined rows are
x y, then a b c. Two rows before b is y, at index 1; one before c is no row.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from mixedmode.operators.aggregate.values import Bools, Int64s

__all__ = ["Places", "at"]


@dataclass(frozen=True)
class Places:
    """The places of rows (n,), sorted by key and order, of k keys.

    codes: (n,) the number of each row's key. starts: (k,) the first row of each key. before: (k,) how many rows the key
    had before the table. kept: (k,) how many of the last ones are kept.
    """

    codes: Int64s
    starts: Int64s
    before: Int64s
    kept: Int64s

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def ends(self) -> Int64s:
        """The row after the last one of each key, (k,)."""
        return np.append(self.starts[1:], len(self.codes))

    @cached_property
    def numbers(self) -> Int64s:
        """The number of each row within its key, from 0, (n,)."""
        return np.arange(len(self.codes)) + (self.before - self.starts)[self.codes]

    @cached_property
    def _in_table(self) -> Int64s:
        """The number of rows of its key that the table has before each row, (n,)."""
        return np.arange(len(self.codes)) - self.starts[self.codes]

    @cached_property
    def _kept_ends(self) -> Int64s:
        """The end of the kept rows of each key among the joined rows, (k,)."""
        return np.cumsum(self.kept)

    def rows_before(self, by: int) -> tuple[Int64s, Bools]:
        """Return the row `by` rows before each row: (n,) its index among the joined rows, and whether it exists.

        The joined rows are those that are kept, key by key, then those of the table.
        """
        if self._kept_ends[-1] > 0:
            return self.back(np.arange(len(self.codes)), by)
        exists = self._in_table >= by  # as in most tables of a backlog
        return np.where(exists, np.arange(-by, len(self.codes) - by), 0), exists

    def back(self, rows: Int64s, by: Int64s | int) -> tuple[Int64s, Bools]:
        """Return the same for some rows of the table (m,), each with a number of its own."""
        codes = self.codes[rows]
        missing = by - self._in_table[rows]  # rows that the table lacks
        exists = missing <= self.kept[codes]
        indices = np.where(missing <= 0, self._kept_ends[-1] + rows - by, self._kept_ends[codes] - missing)
        return np.where(exists, indices, 0), exists

    def last_rows(self, most: int, recent: Int64s | int = 0) -> tuple[Int64s, Int64s]:
        """Return the last rows of each key: their indices among the joined rows, and (k,) how many.

        Those are at most `most` rows, and all of the `recent` ones, (k,).
        """
        sizes = np.maximum(np.minimum(self.kept + self.ends - self.starts, most), recent)
        codes = np.repeat(np.arange(len(sizes)), sizes)
        by = np.cumsum(sizes)[codes] - 1 - np.arange(len(codes))
        indices, _ = self.back((self.ends - 1)[codes], by)
        return indices, sizes


def at(values: pa.Array, indices: Int64s, exists: Bools) -> pa.Array:
    """Return the values at indices (n,), NULL where there is none."""
    return values.take(pa.array(indices, mask=None if exists.all() else ~exists))
