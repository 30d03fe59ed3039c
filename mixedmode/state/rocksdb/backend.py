"""State in RocksDB: reads committed runs through the replica, writes new state to the epoch's run.

Many keys are read by point reads, or by one range scan where the keys wanted are a large part of the keys stored:
`decide_read` says which.
"""

from collections.abc import Mapping, Sequence
from enum import Enum

from rocksdict import Rdict, ReadOptions

from mixedmode.state.backend import StateRange
from mixedmode.state.keys import PREFIX_BYTES, range_of_group
from mixedmode.state.rocksdb.replica import reading
from mixedmode.state.rocksdb.writer import TOMBSTONE, RunWriter

# A point read costs about as much as scanning this many entries; bench/micro/test_state_reads.py prints both.
ENTRIES_SCANNED_PER_POINT_READ = 2


class ReadPlan(Enum):
    """How to read a batch of keys."""

    POINT_READS = "point reads"
    RANGE_SCAN = "range scan"


def decide_read(*, keys_wanted: int, entries_in_range: int) -> ReadPlan:
    """The cheaper way to read `keys_wanted` sorted keys out of a range that stores about `entries_in_range`."""
    if keys_wanted * ENTRIES_SCANNED_PER_POINT_READ >= entries_in_range:
        return ReadPlan.RANGE_SCAN
    return ReadPlan.POINT_READS


class RocksDBBackend:
    """KeyedStateBackend over a replica. `entries_per_group` ({state id: entries per key group}) is an estimate."""

    def __init__(self, database: Rdict, writer: RunWriter, entries_per_group: Mapping[int, float]) -> None:
        self._database = database
        self._writer = writer
        self._entries_per_group = entries_per_group

    def read(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """See KeyedStateBackend."""
        if not keys:
            return []
        groups = _key_group(keys[-1]) - _key_group(keys[0]) + 1
        in_range = int(groups * self._entries_per_group.get(state_id, 0.0))
        if decide_read(keys_wanted=len(keys), entries_in_range=in_range) is ReadPlan.POINT_READS:
            with reading(self._database):
                values: list[bytes | None] = self._database.get(list(keys))  # type: ignore[assignment]
            return [value or None for value in values]  # an empty value is a tombstone
        return self._read_by_scan(state_id, keys)

    def scan(self, state_id: int, start: bytes, end: bytes) -> StateRange:
        """See KeyedStateBackend. The range lies within one key group."""
        del state_id  # part of `start` and `end`
        return self._scan(start, end)

    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """See KeyedStateBackend."""
        self._writer.write(state_id, keys, values)

    def _read_by_scan(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
        # Group by group: between the entries of one state lie those of the operator's other states.
        stored: dict[bytes, bytes] = {}
        first, after_last = keys[0], keys[-1] + b"\x00"
        for group in range(_key_group(first), _key_group(after_last) + 1):
            start, end = range_of_group(group, state_id)
            found = self._scan(max(start, first), min(end, after_last))
            stored.update(zip(found.keys, found.values, strict=True))
        return [stored.get(key) for key in keys]

    def _scan(self, start: bytes, end: bytes) -> StateRange:
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(end)
        found = StateRange([], [])
        with reading(self._database):
            entries = self._database.iter(bounds)
            try:
                entries.seek(start)
                while entries.valid():
                    value = entries.value()
                    if value != TOMBSTONE:
                        found.keys.append(entries.key())
                        found.values.append(value)
                    entries.next()
                entries.status()  # raises if damage ended the loop; `Rdict.items` would just stop there
            finally:
                del entries  # an iterator keeps the database open, and a traceback would keep the iterator
        return found


def _key_group(stored_key: bytes) -> int:
    return int.from_bytes(stored_key[: PREFIX_BYTES - 1], "big")
