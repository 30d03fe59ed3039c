"""Pairs of rows of two sides with one key: counted first, made in blocks.

The pairs of a row of the left are numbered one after the other, so the pairs [a, b) are found without those before a.
So a key with a million rows on each side never has its product in memory.
"""

from collections.abc import Iterator

import numpy as np

from mixedmode.operators.aggregate.values import Int64s

__all__ = ["BLOCK_ROWS", "blocks_of_pairs", "blocks_of_repeats", "numbered_blocks"]

BLOCK_ROWS = 1 << 16


def blocks_of_pairs(
    left: Int64s, left_codes: Int64s, right: Int64s, right_codes: Int64s, block_rows: int
) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield (rows of the left, rows of the right) of all pairs with equal codes, at most `block_rows` at a time.

    left: numbers of rows (n,). left_codes: the key of each. right, right_codes: the same (m,), keys ascending.
    """
    if not len(left) or not len(right):
        return
    of_key = np.bincount(right_codes, minlength=int(left_codes.max()) + 1)
    counts, starts = of_key[left_codes], (np.cumsum(of_key) - of_key)[left_codes]
    for nth, offsets in numbered_blocks(counts, block_rows):
        yield left[nth], right[starts[nth] + offsets]


def blocks_of_repeats(counts: Int64s, block_rows: int) -> Iterator[Int64s]:
    """Yield each number i in 0..n as often as `counts` (n,) says, at most `block_rows` numbers at a time."""
    for nth, _ in numbered_blocks(counts, block_rows):
        yield nth


def numbered_blocks(counts: Int64s, block_rows: int) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield (i, offset) for each i and each offset below counts[i], in order, at most `block_rows` at a time.

    Example: counts 2, 0, 1 and blocks of two rows: (0, 0), (0, 1); then (2, 0).
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    for first in range(0, total, block_rows):
        last = min(first + block_rows, total)
        low, high = np.searchsorted(ends, [first, last - 1], "right")
        own = np.arange(low, high + 1)
        begins = np.maximum(ends[own] - counts[own], first)
        sizes = np.minimum(ends[own], last) - begins
        nth = np.repeat(own, sizes)
        yield nth, np.arange(first, last) - np.repeat(ends[own] - counts[own], sizes)
