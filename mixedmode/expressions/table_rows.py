"""The rows of a table that a query joins, found by their keys. No two rows have equal keys, so a row has one match.

Keys are equal as in SQL: NULL equals nothing, NaN equals NaN, and -0.0 equals 0.0. Integers, dates and times that lie
close together are found by their distance from the least one, others by a binary search, and all other keys by a hash.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InvalidJobError, LeftToSparkError
from mixedmode.keys.arrow import I64, AnyNumpy, bytes_of_values
from mixedmode.keys.encode import KeySchema, encode_keys
from mixedmode.keys.values import integers_of

__all__ = ["TableRows", "is_key_type"]

_SLOTS_PER_ROW = 16  # of 8 bytes: with more gaps, a search takes less memory and about as long


def is_key_type(data_type: pa.DataType) -> bool:
    """Return whether rows can be found by a key of this type."""
    try:
        KeySchema((pa.field("key", data_type),))
    except InvalidJobError:
        return False
    return True


class _Index(Protocol):
    def find(self, keys: Sequence[pa.Array]) -> I64:
        """Return (n,) the number of the row with the keys of each row, -1 if there is none. Keys are not NULL."""


@dataclass(frozen=True, slots=True)
class _Slots(_Index):
    """rows: (range of the keys,) the number of the row of each value, from `least` on; -1 for a gap."""

    least: int
    rows: I64

    def find(self, keys: Sequence[pa.Array]) -> I64:
        slots = _integers(keys).astype(np.int64) - self.least  # a difference may wrap; then it is out of range as well
        is_inside = (slots >= 0) & (slots < len(self.rows))
        return np.where(is_inside, self.rows[np.where(is_inside, slots, 0)], -1)


@dataclass(frozen=True, slots=True)
class _Sorted(_Index):
    """values: (n,) keys, ascending. rows: (n,) the number of the row of each."""

    values: I64
    rows: I64

    def find(self, keys: Sequence[pa.Array]) -> I64:
        wanted = _integers(keys).astype(np.int64)
        at = np.minimum(np.searchsorted(self.values, wanted), len(self.values) - 1)
        return np.where(self.values[at] == wanted, self.rows[at], -1)


@dataclass(frozen=True, slots=True)
class _Hashed(_Index):
    """values: (n,) keys as one column."""

    values: pa.Array

    def find(self, keys: Sequence[pa.Array]) -> I64:
        found: I64 = pc.index_in(_as_one(keys), value_set=self.values).fill_null(-1).to_numpy().astype(np.int64)
        return found


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows with keys of which none is NULL, and no two are equal.  columns: (n,) each, without the keys."""

    index: _Index
    columns: Mapping[str, pa.Array]

    @staticmethod
    def of(table: pa.Table, keys: int, *, is_set: bool = False) -> "TableRows":
        """Return the rows of a table, whose first columns are the keys. Rows with a NULL among them have no match.

        is_set: of rows with equal keys, any is the match. Otherwise raise LeftToSparkError if two rows have equal keys:
        then a row may have several matches, which Spark joins.
        """
        whole = table.combine_chunks()
        valid = _all_valid([_array(column) for column in whole.columns[:keys]])
        arrays = [_array(column) if valid is None else _array(column).filter(valid) for column in whole.columns]
        columns = dict(zip(whole.column_names[keys:], arrays[keys:], strict=True))
        return TableRows(_index_of(arrays[:keys], is_set=is_set), columns)

    @property
    def row_bytes_max(self) -> int:
        """The bytes of a row that has the longest value of each column."""
        return sum(int(bytes_of_values(column).max()) for column in self.columns.values() if len(column))

    def matches(self, keys: Sequence[pa.Array]) -> pa.Array:
        """Return (n,) int64: the number of the row with the keys of each row; NULL if a key is, or if there is none."""
        valid = _all_valid(keys)
        whole = keys if valid is None else [key.filter(valid) for key in keys]
        found = self.index.find(whole)
        if valid is not None:
            every = np.full(len(valid), -1, np.int64)
            every[valid.to_numpy(zero_copy_only=False)] = found
            found = every
        return pa.array(found, mask=found < 0)


def _index_of(keys: Sequence[pa.Array], *, is_set: bool) -> _Index:
    values = integers_of(keys[0]) if len(keys) == 1 else None
    if values is None or not len(values):
        one = _as_one(keys)
        if not is_set and pc.count_distinct(one).as_py() < len(one):
            raise _several_matches()
        return _Hashed(one)
    numbers = values.astype(np.int64)
    rows = np.argsort(numbers, kind="stable").astype(np.int64)
    in_order = numbers[rows]
    if not is_set and (in_order[1:] == in_order[:-1]).any():
        raise _several_matches()
    least, greatest = int(in_order[0]), int(in_order[-1])
    if greatest - least >= _SLOTS_PER_ROW * len(numbers):
        return _Sorted(in_order, rows)
    slots = np.full(greatest - least + 1, -1, np.int64)
    slots[in_order - least] = rows
    return _Slots(least, slots)


def _several_matches() -> LeftToSparkError:
    return LeftToSparkError("two rows of a table have equal keys")


def _integers(keys: Sequence[pa.Array]) -> AnyNumpy:
    values = integers_of(keys[0])
    assert values is not None, keys[0].type
    return values


def _as_one(keys: Sequence[pa.Array]) -> pa.Array:
    """Return keys as one column whose values are equal where the keys are."""
    if len(keys) == 1 and (pa.types.is_string(keys[0].type) or pa.types.is_binary(keys[0].type)):
        return keys[0]
    return encode_keys(keys, KeySchema(tuple(pa.field(f"{n}", key.type) for n, key in enumerate(keys))))


def _all_valid(keys: Sequence[pa.Array]) -> pa.Array | None:
    """Return (n,) whether no key of a row is NULL; None if no key is NULL."""
    valid = None
    for key in keys:
        if key.null_count:
            valid = pc.is_valid(key) if valid is None else pc.and_(valid, pc.is_valid(key))
    return valid


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
