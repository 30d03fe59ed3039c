"""The seam between operators and what holds their state: bytes in sorted batches, nothing else.

Two backends stand behind it. `SingleKeyBackend` serves batch-style input, where a key comes once and has no stored
state; `rocksdb.RocksDBBackend` reads the committed runs of the earlier epochs. Both write the epoch's new state as one
sorted run per state, so migrating the backlog and committing a live epoch are one write path. `MemoryBackend` is the
twin for tests: a sorted dictionary, and every rule of the protocol checked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class StateRange:
    """Stored keys and values of a range scan, in key order; `keys[i]` goes with `values[i]`."""

    keys: list[bytes]
    values: list[bytes]


@dataclass(frozen=True, slots=True)
class PrefixRows:
    """Stored keys and values by prefix, in key order; row i begins with prefix number `prefix_of_row[i]`, (n,) int64.

    So `prefix_of_row` ascends, and a prefix that nothing begins with is not in it.
    """

    prefix_of_row: npt.NDArray[np.int64]
    keys: list[bytes]
    values: list[bytes]


class KeyedStateBackend(Protocol):
    """State of one operator in one subtask during one epoch."""

    def read(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """The committed value of each stored key, None where there is none. `keys` are sorted and distinct."""

    def scan(self, state_id: int, start: bytes, end: bytes) -> StateRange:
        """Committed entries with start <= key < end."""

    def scan_prefixes(self, state_id: int, prefixes: Sequence[bytes]) -> PrefixRows:
        """Committed entries that begin with one of `prefixes`: stored keys, or their beginnings from the state id on.

        `prefixes` are sorted and distinct, and none begins with another one. They may be of many key groups.
        """

    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """New values; None deletes. Per state, keys are strictly increasing over all calls of the epoch."""
