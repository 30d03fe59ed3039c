"""State in a sorted dictionary: an in-memory backend for tests of operators without a disk.

It is strict. Every call checks the protocol's rules for the caller: the order of keys, whole batches, and
keys of the named state. So an operator that works with this backend works with any backend.

Invariants (tests/state/test_memory.py):
  I1  reads return committed values, and never values written since the last commit
  I2  every call returns what RocksDBBackend returns
"""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

import numpy as np
from sortedcontainers import SortedDict
from typing_extensions import override

from mixedmode.errors import InternalError
from mixedmode.state.backend import KeyedStateBackend, PrefixRows, StateRange, entry_bytes
from mixedmode.state.keys import PREFIX_BYTES, after_prefix, range_of_group


class MemoryBackend(KeyedStateBackend):
    """KeyedStateBackend over `entries` ({stored key: value}), which only `commit` changes."""

    def __init__(self, entries: SortedDict) -> None:
        self._entries = entries
        self._written: dict[bytes, bytes | None] = {}  #: of this epoch; None deletes
        self._last_key: dict[int, bytes] = {}  #: {state id: last key written in this epoch}

    @override
    def read(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
        _check(state_id, keys)
        return [self._entries.get(key) for key in keys]

    @override
    def scan(self, state_id: int, start: bytes, end: bytes, bytes_max: int | None = None) -> StateRange:
        """Read a range that lies within one key group."""
        _check(state_id, [start])
        assert end <= range_of_group(int.from_bytes(start[: PREFIX_BYTES - 1], "big"), state_id)[1], (start, end)
        keys = list(self._keys(start, end))
        values = [self._entries[key] for key in keys]
        count = len(keys) if bytes_max is None else _number_within(keys, values, bytes_max)
        return StateRange(keys[:count], values[:count], is_whole=count == len(keys))

    @override
    def scan_prefixes(
        self,
        state_id: int,
        prefixes: Sequence[bytes],
        limits: Sequence[int] | None = None,
        bytes_max: int | None = None,
    ) -> PrefixRows:
        _check(state_id, prefixes)
        assert not any(after.startswith(before) for before, after in pairwise(prefixes)), "a prefix of a prefix"
        rows: list[int] = []
        keys: list[bytes] = []
        for number, prefix in enumerate(prefixes):
            limit = None if limits is None else limits[number]
            found = list(islice(self._keys(prefix, after_prefix(prefix)), limit))
            keys += found
            rows += [number] * len(found)
        values = [self._entries[key] for key in keys]
        if bytes_max is None:
            return PrefixRows(np.asarray(rows, np.int64), keys, values)
        end = _number_within(keys, values, bytes_max)
        is_whole = end == len(keys) and sum(map(entry_bytes, keys, values)) <= bytes_max
        return PrefixRows(np.asarray(rows[:end], np.int64), keys[:end], values[:end], is_whole)

    @override
    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Keep the entries for the commit. Raises InternalError unless keys are strictly increasing per state."""
        last = self._last_key.get(state_id)
        for before, key in pairwise([*([] if last is None else [last]), *keys]):
            if key <= before:
                msg = (
                    "keys of a sorted run must be strictly increasing, and these are not, so state would be lost. This "
                    f"is a defect; report it. state_id={state_id}, key={key.hex()}, key_before={before.hex()}"
                )
                raise InternalError(msg)
        _check(state_id, keys)
        assert b"" not in values, "an empty value is a tombstone; None deletes"
        self._written.update(zip(keys, values, strict=True))
        if keys:
            self._last_key[state_id] = keys[-1]

    def commit(self) -> int:
        """End the epoch: its writes become readable. Return the number of pairs written."""
        pairs = len(self._written)
        for key, value in self._written.items():
            if value is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = value
        self._written.clear()
        self._last_key.clear()
        return pairs

    def _keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        return self._entries.irange(start, end, inclusive=(True, False))  # type: ignore[no-any-return]


def _number_within(keys: Sequence[bytes], values: Sequence[bytes], bytes_max: int) -> int:
    """Return how many entries are read until they take more than `bytes_max`; that entry is one of them."""
    taken = np.cumsum(list(map(entry_bytes, keys, values)))
    return min(len(keys), int(np.searchsorted(taken, bytes_max, "right")) + 1)


def _check(state_id: int, keys: Sequence[bytes]) -> None:
    assert all(len(key) >= PREFIX_BYTES and key[PREFIX_BYTES - 1] == state_id for key in keys), (state_id, keys[:1])
    assert all(before < key for before, key in pairwise(keys)), "keys are sorted and distinct"
