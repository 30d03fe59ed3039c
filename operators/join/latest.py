"""The last version of each key while an as-of join goes through sorted tables, which may end within a key."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.join.layout import Rows
from mixedmode.operators.join.versions import is_last

__all__ = ["Keys", "Latest", "Versions", "latest_after"]


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a table: the key's number of each row (n,); key group and encoded key of each key (keys,)."""

    codes: Int64s
    groups: npt.NDArray[np.uint16]
    encoded: pa.Array

    def __len__(self) -> int:
        return len(self.groups)

    def taken(self, keys: Rows) -> "Keys":
        """Return some of the keys, without rows."""
        return Keys(np.zeros(0, np.int64), self.groups[keys], self.encoded.take(pa.array(keys)))

    def begin_with(self, key: "Keys") -> bool:
        """Return whether the first key is `key`."""
        return bool(self.groups[0] == key.groups[0]) and self.encoded[0] == key.encoded[0]


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions (v,): the key's number, the time, and the columns of the right of each; whether it is of this epoch."""

    codes: Int64s
    times_us: Int64s
    columns: Sequence[pa.Array]
    is_new: Bools

    def taken(self, rows: Rows) -> "Versions":
        """Return some of the versions."""
        taken = pa.array(rows)
        columns = [column.take(taken) for column in self.columns]
        return Versions(self.codes[rows], self.times_us[rows], columns, self.is_new[rows])

    def joined(self, other: "Versions") -> "Versions":
        """Return these versions, and then those of `other`."""
        return Versions(
            np.concatenate([self.codes, other.codes]),
            np.concatenate([self.times_us, other.times_us]),
            [pa.concat_arrays(columns) for columns in zip(self.columns, other.columns, strict=True)],
            np.concatenate([self.is_new, other.is_new]),
        )

    def numbers_of(self, codes: Int64s, *, is_new: bool) -> Int64s:
        """Return for each row (m,) the number of the version of its key that is, or is not, of this epoch; -1: none.

        No key has two of them.
        """
        of_key = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
        own = np.flatnonzero((self.codes < len(of_key)) & (self.is_new == is_new))
        of_key[self.codes[own]] = own
        return of_key[codes]

    def later_of(self, one: Int64s, other: Int64s) -> Int64s:
        """Return of two versions of each row (m,), by their numbers, the later one; of one time, `one`. -1 is none."""
        if not len(self.codes):
            return one
        is_later = self.times_us[np.maximum(other, 0)] > self.times_us[np.maximum(one, 0)]
        return np.where((other >= 0) & ((one < 0) | is_later), other, one)

    def last(self) -> "Versions":
        """Return the last version of each key, by key: the latest one, and of two of one time the new one.

        The new ones are ordered by key.
        """
        if self.is_new.all():
            return self
        order = np.lexsort((self.is_new, self.times_us, self.codes))
        return self.taken(order[is_last(self.codes[order])])


@dataclass(frozen=True, slots=True)
class Latest:
    """The versions of each of some keys that a later row may meet: the stored one, and the last one of the epoch.

    The stored one is the earlier one, unless an epoch has fired everything: then rows of later epochs may be before it.
    `is_stored`: (keys,) there is one in the state. `is_due`: (keys,) an entry of the expiries is due.
    """

    keys: Keys
    versions: Versions
    is_stored: Bools
    is_due: Bools

    def taken(self, keys: Rows) -> "Latest":
        """Return some of the keys, ascending."""
        number = np.full(len(self.keys), -1, np.int64)
        number[keys] = np.arange(len(keys))
        own = self.versions.taken(np.flatnonzero(number[self.versions.codes] >= 0))
        own = replace(own, codes=number[own.codes])
        return Latest(self.keys.taken(keys), own, self.is_stored[keys], self.is_due[keys])


def latest_after(before: Latest, new: Versions, is_due: Bools) -> Latest:
    """Return the last versions after a table with these new ones.  is_due: (keys,) as in Latest, in this table."""
    has_new = np.isin(np.arange(len(before.keys)), new.codes)
    others = np.flatnonzero(~before.versions.is_new | ~has_new[before.versions.codes])
    versions = before.versions.taken(others).joined(new.taken(np.flatnonzero(is_last(new.codes))))
    return Latest(before.keys, versions, before.is_stored, before.is_due | is_due)
