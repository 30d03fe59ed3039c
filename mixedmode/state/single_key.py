"""The batch-style backend: keys arrive in sorted order, so no state has to be read again.

When a key is complete, its pair (key, state) is written out: to the run writer in mixed mode, where RocksDB state
follows; in batch mode it is dropped. Source: FLIP-140 (single-key backend) and FLIP-327 (the migration).
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from mixedmode.errors import InternalError
from mixedmode.state.arrow_bytes import ArrowBytes
from mixedmode.state.backend import PrefixRows, StateRange


class RunSink(Protocol):
    """The receiver of (key, state) pairs, in key order."""

    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write one value per key; None deletes it. Keys are strictly increasing per state."""


class SingleKeyBackend:
    """Reads find nothing, because every key is new in sorted input; the backend verifies that keys only grow."""

    def __init__(self, migration: RunSink | None) -> None:
        self._migration = migration
        self._last_key: dict[int, bytes] = {}  #: {state id: last key written}; keys only grow

    @property
    def drops_writes(self) -> bool:
        """Return whether no epoch follows that reads the state."""
        return self._migration is None

    @property
    def starts_empty(self) -> bool:
        """Return True: no state precedes the backlog."""
        return True

    def read(self, state_id: int, keys: Sequence[bytes]) -> ArrowBytes[bytes | None]:
        """Return None for each key. Raises InternalError if a key does not sort after the keys written before."""
        self._check_new(state_id, keys)
        return ArrowBytes(pa.nulls(len(keys), pa.large_binary()))

    def scan(self, state_id: int, start: bytes, end: bytes, bytes_max: int | None = None) -> StateRange:
        """Return no entries: no state precedes the backlog."""
        del end, bytes_max
        self._check_new(state_id, [start])
        return StateRange([], [])

    def scan_ranges(
        self, state_id: int, ranges: Sequence[tuple[bytes, bytes]], entries_max: int
    ) -> tuple[StateRange, int]:
        """Return no entries, as `scan` does."""
        del entries_max
        self._check_new(state_id, [start for start, _ in ranges])
        return StateRange([], []), len(ranges)

    def scan_prefixes(
        self,
        state_id: int,
        prefixes: Sequence[bytes],
        limits: Sequence[int] | None = None,
        bytes_max: int | None = None,
    ) -> PrefixRows:
        """Return no entries, as `scan` does."""
        del limits, bytes_max
        self._check_new(state_id, prefixes)
        return PrefixRows(np.zeros(0, np.int64), [], [])

    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Pass the pairs to the migration, or drop them if no state is kept."""
        if not keys:
            return
        self._check_new(state_id, keys)
        self._last_key[state_id] = keys[-1]
        if self._migration is not None:
            self._migration.write(state_id, keys, values)

    def _check_new(self, state_id: int, keys: Sequence[bytes]) -> None:
        last = self._last_key.get(state_id)
        if keys and last is not None and keys[0] <= last:
            msg = (
                "a key came back after the next key had begun, so the backlog is not sorted and its state would be "
                f"wrong. This is a defect; report it. state_id={state_id}, key={keys[0].hex()}, last_key={last.hex()}"
            )
            raise InternalError(msg)
