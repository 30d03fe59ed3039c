"""Ranks of weighted rows within their keys. A row with weight 3 occupies three ranks.

Rows are in the order of (key, rank); `codes` (n,) is the index of each row's key, ascending.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixedmode.operators.aggregate.values import Int64s


def best_of(codes: Int64s, weights: Int64s, n: int) -> Int64s:
    """Return (rows,) how many of the first `n` ranks of its key each row occupies. `weights` are not negative.

    Example with n = 3: the weights 2, 5, 1 of one key become 2, 1, 0.
    """
    if len(codes) == 0:
        return weights
    before = np.cumsum(weights) - weights
    is_first = np.ones(len(codes), np.bool_)
    is_first[1:] = codes[1:] != codes[:-1]
    first = np.flatnonzero(is_first)
    seen = before - np.repeat(before[first], np.diff(first, append=len(codes)))
    taken: Int64s = np.clip(n - seen, 0, weights)
    return taken


@dataclass(frozen=True, slots=True)
class Places:
    """The ranks of some keys before and after an epoch, (m,) each.

    `codes` and `ranks`: the key and the rank from 1. `old` and `new`: the row at that rank, -1 for none.
    """

    codes: Int64s
    ranks: Int64s
    old: Int64s
    new: Int64s

    def where(self, places: npt.NDArray[np.bool_]) -> "Places":
        """Return the places where `places` is True."""
        return Places(self.codes[places], self.ranks[places], self.old[places], self.new[places])


def places_of(codes: Int64s, size: int, before: Int64s, after: Int64s) -> Places:
    """Return every rank of `size` keys that a row has before or after: `before`, `after` are ranks per row (n,)."""
    old_rows, new_rows = (np.repeat(np.arange(len(codes)), counts) for counts in (before, after))
    old_counts, new_counts = (np.bincount(codes[rows], minlength=size) for rows in (old_rows, new_rows))
    counts = np.maximum(old_counts, new_counts)
    starts = np.cumsum(counts) - counts
    total = int(counts.sum())
    of_key = np.repeat(np.arange(size), counts)
    found = []
    for rows, own in ((old_rows, old_counts), (new_rows, new_counts)):
        at = np.full(total, -1)
        nth = np.arange(len(rows)) - np.repeat(np.cumsum(own) - own, own)
        at[starts[codes[rows]] + nth] = rows
        found.append(at)
    return Places(of_key, np.arange(total) - starts[of_key] + 1, found[0], found[1])
