"""The rows of a broadcast input as versions by time, and the answers to a function's questions about them.

The row of a key that is in force at a time is the last one that is not later. It ends with the next row of its
key, with a row that says so (`deleted`), or when it is too old (`tolerance_us`).

Example: rows of key EUR at times 10 and 20. At 5 there is none, at 10 and 19 the first, at 20 the second.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema, encode_keys
from mixedmode.keys.rows import cut
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.process.chunks import python_keys
from mixedmode.operators.process.context import Record
from mixedmode.operators.process.map_keys import one_form
from mixedmode.operators.process.records import python_records
from mixedmode.operators.row_columns import decoded_rows, encoded_rows
from mixedmode.operators.top.rows import joined_with_lengths, keys_of, parts_of
from mixedmode.time import EpochTime, shifted_us, shown_time

__all__ = ["BroadcastInput", "Versions", "VersionsInForce"]

_VIEWS_MAX = 64  # number of times whose rows in force are kept, in case that the next record asks for them again


@dataclass(frozen=True, slots=True)
class BroadcastInput:
    """An input of a function whose rows every subtask has.

    fields: the columns of its rows. key, tie_break: columns, by index. deleted: a boolean column, by index.
    history_us: how long before the time of a record the function may ask.
    """

    name: str
    fields: tuple[pa.Field, ...]
    key: tuple[int, ...]
    tie_break: tuple[int, ...] = ()
    deleted: int | None = None
    tolerance_us: int | None = None
    history_us: int = 0

    @property
    def key_schema(self) -> KeySchema:
        """The key columns."""
        return KeySchema(tuple(self.fields[index] for index in self.key))

    def packed(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return rows (n,) as bytes that sort by key, then by the whole row. They do not depend on `tie_break`."""
        keys = encode_keys([columns[index] for index in self.key], self.key_schema)
        return joined_with_lengths(keys, [], [encoded_rows(columns, self.fields)])

    def columns_of(self, packed: pa.Array) -> list[pa.Array]:
        """Return the columns of packed rows (n,)."""
        parts = parts_of(packed)
        return decoded_rows(cut(parts.data, parts.order_ends, parts.row_ends), self.fields)

    def ties_of(self, packed: pa.Array) -> dict[str, pa.Array]:
        """Return {"tie": bytes (n,) by which `tie_break` orders packed rows of one key and time}; {} without one."""
        if not self.tie_break:
            return {}
        columns, schema = self.columns_of(packed), KeySchema(tuple(self.fields[index] for index in self.tie_break))
        return {"tie": encode_keys([columns[index] for index in self.tie_break], schema)}


class Versions:
    """The versions of one input in an epoch: those that are stored, and new ones.

    Sorted by key and time; of rows with one key and time, the greatest by `tie_break` is left.
    """

    def __init__(self, given: BroadcastInput, times_us: Int64s, packed: pa.Array, time: EpochTime) -> None:
        """times_us, packed: (n,) rows without duplicates. Raise InvalidJobError if two rows contradict each other."""
        self.given = given
        self.time = time
        keys = keys_of(packed)
        by = {"key": keys, "time": pa.array(times_us), **given.ties_of(packed), "row": packed}
        order = pc.sort_indices(pa.table(by), sort_keys=[(name, "ascending") for name in by]).to_numpy()
        times_us, codes = times_us[order], np.zeros(0, np.int64)
        if len(order):
            codes = segments(keys.take(pa.array(order)))[0].codes.astype(np.int64)
        is_last = np.ones(len(order), np.bool_)
        is_last[:-1] = (codes[1:] != codes[:-1]) | (times_us[1:] != times_us[:-1])
        if not given.tie_break and not is_last.all():
            self._refuse(packed, order, int(np.flatnonzero(~is_last)[0]), times_us)
        self.rows = order[is_last]  #: the given rows that count, by key and time
        self._times_us, self._codes = times_us[is_last], codes[is_last]
        self._packed = packed.take(pa.array(self.rows))
        self._times = dict[Any, list[int]]()  #: {key: times of its versions, ascending}
        self._records = dict[Any, list[Record | None]]()  #: {key: its versions; None: a deletion}
        self._bounds = list[int]()  #: the times at which other rows come into force, ascending
        self._views = dict[int, VersionsInForce]()  #: {number of bounds that have passed: the rows in force}
        self._is_loaded = False
        self._has_floats = any(pa.types.is_floating(field.type) for field in given.key_schema.fields)  # NaN is one key

    def kept(self) -> Bools:
        """Return (versions,) True for the versions that a later epoch can ask for."""
        kept = np.ones(len(self.rows), np.bool_)
        if self.time.fires_everything or not len(kept):  # rows that come later may have any time
            return kept
        first_us = shifted_us(self.time.firing_us, -self.given.history_us)  # the first time that may be asked for
        begins_later = self._times_us > first_us
        kept[:-1] = begins_later[:-1] | (self._codes[1:] != self._codes[:-1]) | begins_later[1:]
        # a row of the time of the watermark may still come, and is compared with the deletion of its time
        ended = ~begins_later & (self._times_us < self.time.firing_us) & self._deletes()
        if self.given.tolerance_us is not None:
            ended |= ~begins_later & (self._times_us < shifted_us(first_us, -self.given.tolerance_us))
        return kept & ~ended

    def at(self, time_us: int) -> "VersionsInForce":
        """Return the rows in force at a time."""
        self._load()
        passed = bisect_right(self._bounds, time_us)
        found = self._views.get(passed)
        if found is None:
            if len(self._views) >= _VIEWS_MAX:
                self._views.clear()
            found = self._views[passed] = VersionsInForce(self, time_us)
        return found

    def in_force(self, key: Any, time_us: int) -> Record | None:
        """Return the row of a key in force at a time; None if there is none."""
        if self._has_floats:
            key = one_form(key)
        times = self._times.get(key)
        number = 0 if times is None else bisect_right(times, time_us)
        if times is None or not number:
            return None
        tolerance_us = self.given.tolerance_us
        if tolerance_us is not None and time_us - times[number - 1] > tolerance_us:
            return None
        return self._records[key][number - 1]

    @property
    def keys(self) -> Iterator[Any]:
        """All keys that have a version."""
        return iter(self._times)

    def _load(self) -> None:
        """Convert the versions to Python objects, once."""
        if self._is_loaded:
            return
        self._is_loaded = True
        given = self.given
        columns = given.columns_of(self._packed)
        records = map(MappingProxyType, python_records(columns, [field.name for field in given.fields]))
        keys = python_keys(keys_of(self._packed), given.key_schema)
        if self._has_floats:
            keys = list(map(one_form, keys))
        times = self._times_us.tolist()
        for key, time_us, record, ends in zip(keys, times, records, self._deletes().tolist(), strict=True):
            self._times.setdefault(key, []).append(time_us)
            self._records.setdefault(key, []).append(None if ends else record)
        bounds = set(times)
        if given.tolerance_us is not None:
            bounds |= {time_us + given.tolerance_us + 1 for time_us in times}
        self._bounds = sorted(bounds)

    def _deletes(self) -> Bools:
        """Return (versions,) True for rows that end the one before."""
        if self.given.deleted is None or not len(self.rows):
            return np.zeros(len(self.rows), np.bool_)
        column = self.given.columns_of(self._packed)[self.given.deleted]
        deleted: Bools = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
        return deleted

    def _refuse(self, packed: pa.Array, order: Int64s, row: int, times_us: Int64s) -> None:
        (key,) = python_keys(keys_of(packed.take(pa.array([order[row]]))), self.given.key_schema)
        msg = (
            "a broadcast input needs one row for each key and time, and two of them differ, so nothing says which one "
            "is in force. Name the columns that order them in `tie-break`, the greatest counts, or make them one in a "
            f"step before. broadcast={self.given.name}, key={key}, time={shown_time(int(times_us[row]))}"
        )
        raise InvalidJobError(msg)


class VersionsInForce(Mapping[Any, Record]):
    """The rows of a broadcast input at a time, as {key: row}; the key is a tuple if there are several key columns."""

    __slots__ = ("_found", "_time_us", "_versions")

    def __init__(self, versions: Versions, time_us: int) -> None:
        self._versions = versions
        self._time_us = time_us
        self._found: dict[Any, Record] | None = None

    def __getitem__(self, key: Any) -> Record:
        found = self._versions.in_force(key, self._time_us)
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[Any, Record]:
        if self._found is None:
            rows = ((key, self._versions.in_force(key, self._time_us)) for key in self._versions.keys)
            self._found = {key: row for key, row in rows if row is not None}
        return self._found
