"""The versions of rows that the records of their changes make.

The records of a key are in the order of their sequence. A record that deletes ends the version before it. Another one
begins a version, unless the version before it goes on and is equal in all tracked columns: then it only replaces the
columns that are not tracked. A version ends where the next one begins, or at a record that deletes.

    Example, of one key, with `city` tracked and `visits` not:

    sequence  record              versions: from, until, row
    1         Rome, 1             1, 5     Rome, 2
    2         Rome, 2
    5         Oslo, 3             5, 7     Oslo, 3
    7         delete
    9         Oslo, 4             9, none  Oslo, 4
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.aggregate.values import Bools, Int64s

__all__ = ["Versions", "newest", "versions"]


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of rows (m,), in the order of key and sequence.

    begins: the record with which each begins. rows: the record whose columns it has. ends: the record with which it
    ends; -1 for one that goes on.
    """

    begins: Int64s
    rows: Int64s
    ends: Int64s


def versions(codes: Int64s, deletes: Bools, differs: Bools) -> Versions:
    """Return the versions that records (n,) make.

    codes: the key of each, ascending. deletes: whether it deletes. differs: whether it is another one than the record
    before it in a tracked column; the value of a key's first record does not count.
    """
    count = len(codes)
    is_first = np.ones(count, np.bool_)
    is_first[1:] = codes[1:] != codes[:-1]
    was_deleted = np.zeros(count, np.bool_)
    was_deleted[1:] = deletes[:-1]
    is_begin = ~deletes & (is_first | was_deleted | differs)
    begins = np.flatnonzero(is_begin)
    bounds = np.append(np.flatnonzero(is_begin | deletes), count)  # each key's first record is one of them
    ends = bounds[np.searchsorted(bounds, begins, side="right")]
    goes_on = np.append(codes, -1)[ends] != codes[begins]
    return Versions(begins, ends - 1, np.where(goes_on, -1, ends))


def newest(codes: Int64s, deletes: Bools) -> Versions:
    """Return the version of each key's last record, unless that deletes. It begins and ends with no other record."""
    is_last = np.ones(len(codes), np.bool_)
    is_last[:-1] = codes[1:] != codes[:-1]
    rows = np.flatnonzero(is_last & ~deletes)
    return Versions(rows, rows, np.full(len(rows), -1))


def differs_from_before(values: pa.Array) -> Bools:
    """Return whether each value (n,) is another one than the one before it; True for the first. None is NULL."""
    found = np.ones(len(values), np.bool_)
    if len(values) > 1:
        found[1:] = pc.not_equal(values.slice(1), values.slice(0, len(values) - 1)).to_numpy(zero_copy_only=False)
    return found
