"""The last version of each key while an as-of join goes through sorted tables, which may end within a key."""

from collections.abc import Sequence
from dataclasses import dataclass

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
    """Versions (v,): the key's number, the time, and the columns of the right of each."""

    codes: Int64s
    times_us: Int64s
    columns: Sequence[pa.Array]

    def taken(self, rows: Rows) -> "Versions":
        """Return some of the versions."""
        taken = pa.array(rows)
        return Versions(self.codes[rows], self.times_us[rows], [column.take(taken) for column in self.columns])

    def joined(self, other: "Versions") -> "Versions":
        """Return these versions, and then those of `other`."""
        return Versions(
            np.concatenate([self.codes, other.codes]),
            np.concatenate([self.times_us, other.times_us]),
            [pa.concat_arrays(columns) for columns in zip(self.columns, other.columns, strict=True)],
        )

    def merged(self, other: "Versions") -> "Versions":
        """Return the versions of both, in the order of their keys."""
        both = self.joined(other)
        return both.taken(np.argsort(both.codes, kind="stable")) if len(other.codes) else self


@dataclass(frozen=True, slots=True)
class Latest:
    """The last version of each of some keys, at most one of each.

    `is_stored`: (keys,) there is one in the state. `is_new`: (keys,) the last one is of this epoch. `is_due`: (keys,)
    an entry of the expiries is due.
    """

    keys: Keys
    versions: Versions
    is_stored: Bools
    is_new: Bools
    is_due: Bools

    def taken(self, keys: Rows) -> "Latest":
        """Return some of the keys, ascending."""
        number = np.full(len(self.keys), -1, np.int64)
        number[keys] = np.arange(len(keys))
        own = self.versions.taken(np.flatnonzero(number[self.versions.codes] >= 0))
        own = Versions(number[own.codes], own.times_us, own.columns)
        return Latest(self.keys.taken(keys), own, self.is_stored[keys], self.is_new[keys], self.is_due[keys])


def latest_after(before: Latest, new: Versions, is_due: Bools) -> Latest:
    """Return the last versions after a table with these new ones.  is_due: (keys,) as in Latest, in this table."""
    is_new = np.isin(np.arange(len(before.keys)), new.codes)
    unchanged = before.versions.taken(np.flatnonzero(~is_new[before.versions.codes]))
    latest = new.taken(np.flatnonzero(is_last(new.codes))).merged(unchanged)
    return Latest(before.keys, latest, before.is_stored, before.is_new | is_new, before.is_due | is_due)
