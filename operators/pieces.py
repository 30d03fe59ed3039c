"""Pieces of rows that are emitted together, where a stored value may be that of many rows.

A join and an async map make rows of values that they hold once. A long value of a key with many rows would so take
gigabytes, and a column of Arrow holds 2 GB.

Invariant (tests/operators/test_pieces.py): the pieces are all rows in order, none is empty, and one of several rows has
at most `bytes_max` bytes.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from mixedmode.keys.arrow import bytes_of_values
from mixedmode.operators.aggregate.values import Int64s

__all__ = ["pieces_of"]

_EMIT_BYTES = 2**26


def pieces_of(
    count: int, taken: Sequence[tuple[pa.Array | pa.ChunkedArray, Int64s]], bytes_max: int = _EMIT_BYTES
) -> Iterator[slice]:
    """Yield pieces of rows (count,).

    taken: of each column, its values (n,), and which of them is that of each row, -1 for NULL.

    >>> values, rows = pa.array(["aaa", "bbbbbbbbb"]), np.array([0, 0, 1, 0])
    >>> list(pieces_of(4, [(values, rows)], 6))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    used = [pair for values, rows in taken if (pair := _used(values, rows)) is not None]
    if count * sum(int(own.max()) for own, _ in used) <= bytes_max:
        used = []
    sizes = np.zeros(count, np.int64)
    for own, rows in used:
        sizes += np.where(rows < 0, 0, own[rows])
    ends, start = np.cumsum(sizes), 0
    while start < count:
        before = ends[start] - sizes[start]
        end = max(start + 1, int(np.searchsorted(ends, before + bytes_max, side="right")))
        yield slice(start, end)
        start = end


def _used(values: pa.Array | pa.ChunkedArray, rows: Int64s) -> tuple[Int64s, Int64s] | None:
    """Return the bytes of the values from the first to the last that rows take, and which is that of each row.

    None: no row takes a value. A block of pairs mostly takes few of the values of a side.
    """
    last = int(rows.max(initial=-1))
    if last < 0:
        return None
    first = max(0, int(rows.min()))
    return bytes_of_values(values.slice(first, last - first + 1)), np.where(rows < 0, -1, rows - first)
