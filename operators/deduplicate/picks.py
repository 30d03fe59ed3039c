"""Pick rows of each key that are not duplicates of an earlier pick.

A row is a duplicate if its key has a picked row and its time is less than `within_us` after the time of that row; with
None, every later row is. Rows are sorted by (key, time); `codes` (n,) is the index of each row's key.

    Example: with within_us = 10 the times 0, 4, 9, 10, 15, 21 of one key are: pick, -, -, pick, -, pick.
"""

import numpy as np
import numpy.typing as npt

from mixedmode.operators.aggregate.values import Bools, Int64s


def picked(
    codes: Int64s, times_us: Int64s, size: int, known: npt.NDArray[np.intp], known_us: Int64s, within_us: int | None
) -> Bools:
    """Return (n,) True for each picked row of `size` keys. The times are those of windows (time.checked_times).

    `known` (m,) are the keys that have had a pick before, ascending, and `known_us` (m,) the times of their last picks.
    """
    n = len(codes)
    starts = np.searchsorted(codes, np.arange(size))  # of a key without rows: a row of another key
    has_rows = np.bincount(codes, minlength=size) > 0
    starts[~has_rows] = n
    following = np.full(n + 1, n)  # the next pick after each row, if that row is picked; n for none
    if within_us is None:
        starts[known] = n
    else:
        starts[known] = _first_from(codes, times_us, known, known_us + within_us)
        following[:n] = _first_from(codes, times_us, codes, times_us + within_us)
    return _on_paths(starts, following)[:n]


def _first_from(codes: Int64s, times_us: Int64s, of_codes: npt.NDArray[np.intp], from_us: Int64s) -> Int64s:
    """Return the first row of key of_codes[i] with a time of at least from_us[i], (m,); the number of rows if none."""
    n = len(codes)
    distinct, ranks = np.unique(np.concatenate([times_us, from_us]), return_inverse=True)
    rows = codes * len(distinct) + ranks[:n]  # sorted, as rows are
    found = np.searchsorted(rows, of_codes * len(distinct) + ranks[n:])
    is_other_key = np.append(codes, -1)[found] != of_codes
    return np.where(is_other_key, n, found)


def _on_paths(starts: Int64s, following: Int64s) -> Bools:
    """Return which rows are reached from `starts` by `following`. The last index means none, and follows itself.

    After round i, the rows within 2**i steps are marked, and `following` jumps 2**i steps.
    """
    marked = np.zeros(len(following), np.bool_)
    marked[starts] = True
    while True:
        more = marked.copy()
        more[following[marked]] = True
        if (more[:-1] == marked[:-1]).all():
            return marked
        marked, following = more, following[following]
