"""The version in force at the time of each row of the left, a row of the right: a forward fill by key.

Example, of one key, right at times 10 and 20, left at 5, 10, 19 and 30: none, 10, 10, 20; strictly: none, none,
10, 20.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.join.layout import Rows

__all__ = ["block_numbers", "in_force", "is_last", "last_of_blocks"]


def block_numbers(codes: Int64s, times_us: Int64s) -> Int64s:
    """Return (n,) the number of each row's block, the rows of one key and time. Rows are sorted by both."""
    numbers = np.zeros(len(codes), np.int64)
    if len(codes):
        numbers[1:] = np.cumsum((codes[1:] != codes[:-1]) | (times_us[1:] != times_us[:-1]))
    return numbers


def in_force(left: Int64s, right: Int64s, *, strictly: bool) -> Int64s:
    """Return for each row of the left (m,) the last row of the right in its block or before; -1 if there is none.

    left: the blocks of its rows, ascending. right: those of its rows, strictly ascending. strictly: not in its block.
    The row that is found may be of an earlier key.
    """
    if not len(left) or not len(right):
        return np.full(len(left), -1, np.int64)
    is_version = np.zeros(max(left[-1], right[-1]) + 1, np.int64)
    is_version[right] = 1
    before = np.cumsum(is_version)[left]
    return before - is_version[left] - 1 if strictly else before - 1


def last_of_blocks(blocks: Int64s, ranks: pa.Array) -> Rows:
    """Return the row of each block with the greatest rank (bytes), ascending.  blocks: (n,) ascending."""
    order = np.empty(len(blocks), np.int64)
    order[pc.array_sort_indices(ranks).to_numpy()] = np.arange(len(blocks))
    by_rank = np.lexsort((order, blocks))
    return by_rank[is_last(blocks)]


def is_last(codes: Int64s) -> Bools:
    """Return (n,) True for the last row of each run of equal codes."""
    found = np.ones(len(codes), np.bool_)
    found[:-1] = codes[1:] != codes[:-1]
    return found
