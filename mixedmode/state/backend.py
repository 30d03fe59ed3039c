"""The seam between operators and what holds their state: bytes in sorted batches, nothing else.

Two backends stand behind it. `SingleKeyBackend` serves batch-style input, where a key comes once and has no stored
state; `rocksdb.RocksDBBackend` reads the committed runs of the earlier epochs. Both write the epoch's new state as one
sorted run per state, so migrating the backlog and committing a live epoch are one write path.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StateRange:
    """Stored keys and values of a range scan, in key order; `keys[i]` goes with `values[i]`."""

    keys: list[bytes]
    values: list[bytes]


class KeyedStateBackend(Protocol):
    """State of one operator in one subtask during one epoch."""

    def read(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """The committed value of each stored key, None where there is none. `keys` are sorted and distinct."""

    def scan(self, state_id: int, start: bytes, end: bytes) -> StateRange:
        """Committed entries with start <= key < end."""

    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """New values; None deletes. Per state, keys are strictly increasing over all calls of the epoch."""
