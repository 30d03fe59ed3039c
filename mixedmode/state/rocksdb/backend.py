"""State in RocksDB: read committed runs through the replica, and write new state to the epoch's run.

Large batches of keys are first searched in the columns of the newest runs (columns.py). The remaining keys are read
from RocksDB: by point reads, or by range scans if the batch contains a large part of the stored keys (`decide_read`).
Keys with one of many prefixes are read with one iterator. It steps forward if the next prefix is near, and seeks
otherwise.
"""

import sys
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial

import numpy as np
from rocksdict import RdictIter, ReadOptions
from typing_extensions import override

from mixedmode.state.backend import KeyedStateBackend, PrefixRows, StateRange, entry_bytes
from mixedmode.state.keys import PREFIX_BYTES, after_prefix, range_of_group
from mixedmode.state.rocksdb.columns import NONE, NewestRuns
from mixedmode.state.rocksdb.replica import Replica, reading
from mixedmode.state.rocksdb.writer import TOMBSTONE, RunWriter

# A point read costs about as much as scanning this many entries; bench/micro/test_state_reads.py prints both.
ENTRIES_SCANNED_PER_POINT_READ = 2
# RocksDB holds the block of each value until a call returns: with more keys, the blocks do not fit in a CPU cache.
KEYS_PER_CALL = 256
# A seek costs about as much as stepping over this many entries, so stepping first costs at most twice the optimum.
ENTRIES_WALKED_BEFORE_SEEK = 4


class ReadPlan(Enum):
    """The strategy for reading a batch of keys."""

    POINT_READS = "point reads"
    RANGE_SCAN = "range scan"


def decide_read(*, keys_wanted: int, entries_in_range: int) -> ReadPlan:
    """Return the cheaper way to read `keys_wanted` sorted keys from a range of about `entries_in_range` entries."""
    if keys_wanted * ENTRIES_SCANNED_PER_POINT_READ >= entries_in_range:
        return ReadPlan.RANGE_SCAN
    return ReadPlan.POINT_READS


class RocksDBBackend(KeyedStateBackend):
    """KeyedStateBackend over a replica. `entries_per_group` ({state id: entries per key group}) is an estimate."""

    def __init__(self, replica: Replica, writer: RunWriter, entries_per_group: Mapping[int, float]) -> None:
        self._replica = replica
        self._columns: Mapping[int, NewestRuns] = replica.columns
        self._writer = writer
        self._entries_per_group = entries_per_group

    @override
    def read(self, state_id: int, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        if not keys:
            return []
        return self._columns.get(state_id, NONE).read(keys, partial(self._read_rest, state_id))

    @override
    def scan(self, state_id: int, start: bytes, end: bytes, bytes_max: int | None = None) -> StateRange:
        """Read a range that lies within one key group."""
        del state_id  # part of `start` and `end`
        return self._scan(start, end, bytes_max)

    @override
    def scan_ranges(
        self, state_id: int, ranges: Sequence[tuple[bytes, bytes]], entries_max: int
    ) -> tuple[StateRange, int]:
        """Read many ranges with one iterator: most are empty, and an iterator of its own takes longer than a seek."""
        del state_id  # part of the ranges
        keys, values, count = list[bytes](), list[bytes](), 0
        if not ranges:
            return StateRange(keys, values), count
        bounds = _up_to(ranges[-1][1])
        database = self._replica.database
        with reading(database):
            entries = database.iter(bounds)
            try:
                entries.seek(ranges[0][0])
                key = entries.key()  # None at the end
                for start, end in ranges:
                    count += 1
                    if key is not None and key < start:
                        entries.seek(start)
                        key = entries.key()
                    while key is not None and key < end:
                        value = entries.value()
                        if value != TOMBSTONE:
                            keys.append(key)
                            values.append(value)
                        entries.next()
                        key = entries.key()
                    if len(keys) >= entries_max:
                        break
                entries.status()  # raises if damage ended the loop
            finally:
                del entries  # see _scan
        return StateRange(keys, values), count

    @override
    def scan_prefixes(
        self,
        state_id: int,
        prefixes: Sequence[bytes],
        limits: Sequence[int] | None = None,
        bytes_max: int | None = None,
    ) -> PrefixRows:
        del state_id  # part of the prefixes
        found = PrefixRows(np.zeros(0, np.int64), [], [])
        if not prefixes:
            return found
        rows: list[int] = []
        bounds = _up_to(after_prefix(prefixes[-1]))
        database = self._replica.database
        with reading(database):
            entries = database.iter(bounds)
            try:
                entries.seek(prefixes[0])
                most = sys.maxsize if bytes_max is None else bytes_max
                is_whole = _collect(entries, prefixes, limits, most, rows, found)
                entries.status()  # raises if damage ended the loop
            finally:
                del entries  # see _scan
        return PrefixRows(np.asarray(rows, np.int64), found.keys, found.values, is_whole)

    @override
    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        self._writer.write(state_id, keys, values)

    def _read_rest(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
        groups = _key_group(keys[-1]) - _key_group(keys[0]) + 1
        in_range = int(groups * self._entries_per_group.get(state_id, 0.0))
        if decide_read(keys_wanted=len(keys), entries_in_range=in_range) is ReadPlan.POINT_READS:
            return self._read_points(keys)
        return self._read_by_scan(state_id, keys)

    def _read_points(self, keys: Sequence[bytes]) -> list[bytes | None]:
        values: list[bytes | None] = []
        database = self._replica.database
        with reading(database):
            for start in range(0, len(keys), KEYS_PER_CALL):
                values += database.get(list(keys[start : start + KEYS_PER_CALL]))  # type: ignore[arg-type]
        return [value or None for value in values]  # an empty value is a tombstone

    def _read_by_scan(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
        # Group by group: between the entries of one state lie those of the operator's other states.
        stored: dict[bytes, bytes] = {}
        at = 0
        while at < len(keys):
            _, group_end = range_of_group(_key_group(keys[at]), state_id)
            after = bisect_left(keys, group_end, at)
            found = self._scan(keys[at], keys[after - 1] + b"\x00")
            stored.update(zip(found.keys, found.values, strict=True))
            at = after
        return [stored.get(key) for key in keys]

    def _scan(self, start: bytes, end: bytes, bytes_max: int | None = None) -> StateRange:
        keys, values = list[bytes](), list[bytes]()
        left = sys.maxsize if bytes_max is None else bytes_max
        bounds = _up_to(end)
        database = self._replica.database
        with reading(database):
            entries = database.iter(bounds)
            try:
                entries.seek(start)
                while left >= 0 and entries.valid():
                    value = entries.value()
                    if value != TOMBSTONE:
                        keys.append(entries.key())
                        values.append(value)
                        left -= entry_bytes(keys[-1], value)
                    entries.next()
                entries.status()  # raises if damage ended the loop; `Rdict.items` would just stop there
            finally:
                del entries  # an iterator keeps the database open, and a traceback would keep the iterator
        return StateRange(keys, values, is_whole=left >= 0)


def _collect(
    entries: RdictIter,
    prefixes: Sequence[bytes],
    limits: Sequence[int] | None,
    bytes_max: int,
    rows: list[int],
    found: PrefixRows,
) -> bool:
    """Fill `rows` (prefix numbers) and the lists of `found` from an iterator positioned at the first prefix.

    Return whether all entries are there: reading ends with the first one after which they take more than `bytes_max`.
    """
    taken = 0
    key = entries.key()  # None at the end
    for number, prefix in enumerate(prefixes):
        walked = 0
        while key is not None and key < prefix:
            if walked < ENTRIES_WALKED_BEFORE_SEEK:
                entries.next()
                walked += 1
            else:
                entries.seek(prefix)
            key = entries.key()
        enough = None if limits is None else len(rows) + limits[number]
        while len(rows) != enough and key is not None and key.startswith(prefix):
            value = entries.value()
            if value != TOMBSTONE:
                rows.append(number)
                found.keys.append(key)
                found.values.append(value)
                taken += entry_bytes(key, value)
                if taken > bytes_max:
                    return False
            entries.next()
            key = entries.key()
        if key is None:
            break
    return True


def _up_to(end: bytes) -> ReadOptions:
    """Return the upper bound of an iterator, as options.

    The caller must keep them in a variable as long as the iterator: the iterator reads `end` through them, but holds no
    reference to either.
    """
    bounds = ReadOptions()
    bounds.set_iterate_upper_bound(end)
    return bounds


def _key_group(stored_key: bytes) -> int:
    return int.from_bytes(stored_key[: PREFIX_BYTES - 1], "big")
