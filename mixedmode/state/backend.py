"""The seam between operators and state backends: sorted batches of bytes.

Production code has two backends. `SingleKeyBackend` serves batch-style input, where each key comes once and has no
stored state. `rocksdb.RocksDBBackend` reads the committed runs of earlier epochs. Both write the epoch's new state as
one sorted run per state, so a backlog and a live epoch share the code that writes state. `MemoryBackend` is for tests:
a sorted dictionary that checks every rule of the protocol.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

_OBJECTS_BYTES = 2 * (33 + 8)  # the head of an object of bytes, and the place in its list


@dataclass(frozen=True, slots=True)
class StateRange:
    """Stored keys and values of a range scan, in key order; `keys[i]` goes with `values[i]`.

    `is_whole`: False if the entries take more memory than the caller wanted, so that some at the end are missing.
    """

    keys: Sequence[bytes]
    values: Sequence[bytes]
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class PrefixRows:
    """Stored keys and values by prefix, in key order; row i begins with prefix number `prefix_of_row[i]`, (n,) int64.

    `prefix_of_row` is ascending, and lacks each prefix that no stored key begins with. `is_whole`: False if the
    entries take more memory than the caller wanted, so that some are missing.
    """

    prefix_of_row: npt.NDArray[np.int64]
    keys: list[bytes]
    values: list[bytes]
    is_whole: bool = True


def entry_bytes(key: bytes, value: bytes) -> int:
    """Return about how much memory an entry takes as two objects of Python in two lists."""
    return len(key) + len(value) + _OBJECTS_BYTES


class KeyedStateBackend(Protocol):
    """State of one operator in one subtask during one epoch."""

    @property
    def drops_writes(self) -> bool:
        """Return whether nothing is stored and nothing that is written is kept: then an operator need not prepare it.

        That is so for input that comes whole in one epoch.
        """
        return False

    @property
    def starts_empty(self) -> bool:
        """Return whether no key has stored state, so that nothing has to be read."""
        return False

    @abstractmethod
    def read(self, state_id: int, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """Return the committed value of each stored key, None if it has none. `keys` are sorted and distinct."""

    @abstractmethod
    def scan(self, state_id: int, start: bytes, end: bytes, bytes_max: int | None = None) -> StateRange:
        """Return the committed entries with start <= key < end. `bytes_max`: as of scan_prefixes."""

    def scan_ranges(
        self, state_id: int, ranges: Sequence[tuple[bytes, bytes]], entries_max: int
    ) -> tuple[StateRange, int]:
        """Return the committed entries of the first of many ranges, and the number of ranges that they are of.

        ranges: (start, end) as of `scan`, each within a key group; they ascend and do not overlap. Reading ends after
        the range that makes it `entries_max` entries, or with the last one.
        """
        keys, values, count = list[bytes](), list[bytes](), 0
        for start, end in ranges:
            count += 1
            found = self.scan(state_id, start, end)
            keys += found.keys
            values += found.values
            if len(keys) >= entries_max:
                break
        return StateRange(keys, values), count

    @abstractmethod
    def scan_prefixes(
        self,
        state_id: int,
        prefixes: Sequence[bytes],
        limits: Sequence[int] | None = None,
        bytes_max: int | None = None,
    ) -> PrefixRows:
        """Return the committed entries whose stored key begins with one of `prefixes`.

        A prefix holds at least the key group and the state id. `prefixes` are sorted and distinct, and none of them
        begins with another one. They may belong to many key groups. `limits` (n,) are the most entries to return of
        each prefix, the first ones in key order; None: all. `bytes_max`: reading ends when the entries take more memory
        than that, and then the result is not whole.
        """

    @abstractmethod
    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write new values; None deletes a key. Per state, keys strictly increase over all calls of the epoch."""
