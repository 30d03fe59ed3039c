"""Read the entries of runs as arrays, without a Python object per entry: for scans of whole ranges.

RocksDB's iterator passes each key and each value as an object of Python, which takes most of the time of a scan. Runs
are written by sst_file.py: no key is shortened, so entries whose keys and values have one length each are the rows of a
matrix. Blocks with other entries, deleted keys among them, are left to RocksDB.

A range is read piece by piece. The bounds of the pieces are last keys of blocks. In each piece, the entries of all runs
are sorted together, and of those of a key, the one of the newest run counts.

Invariant (tests/state/test_run_arrays.py): the entries of a range are those that RocksDB reads.
"""

import mmap
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mixedmode.keys.arrow import U8
from mixedmode.state.backend import StateRange
from mixedmode.state.fixed_bytes import FixedBytes
from mixedmode.state.rocksdb.sst_blocks import KEY_TRAILER, XXH3_CHECKSUM, block_at, entry_bytes, read_varint

__all__ = ["RunArrays", "newest_of", "piece_bounds"]

Positions = npt.NDArray[np.intp]
Ordered = npt.NDArray[np.bytes_]

_FOOTER_BYTES = 53
_WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class Rows:
    """Entries with keys of one length and values of one length: (n, key bytes) and (n, value bytes)."""

    keys: U8
    values: U8

    @property
    def ordered(self) -> Ordered:
        """Return the keys (n,), for comparisons."""
        return FixedBytes(self.keys).comparable()


class RunArrays:
    """A run, whose blocks are read from its file as they are needed.

    Raises ValueError or IndexError if the file is damaged, or if another writer has written it.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        footer = self._data[-_FOOTER_BYTES:]
        if footer[0] != XXH3_CHECKSUM:
            msg = f"the file does not end as a run does. file={path}"
            raise ValueError(msg)
        _, at = read_varint(footer, 1)
        _, at = read_varint(footer, at)
        index_start, at = read_varint(footer, at)
        self._last_keys, self._handles = _index(block_at(self._data, index_start, read_varint(footer, at)[0]))
        self._newest: tuple[int, bytes] | None = None  #: the block that was read last, which the next piece needs, too

    def last_keys_between(self, start: bytes, end: bytes) -> list[bytes]:
        """Return the last keys of blocks with start < key < end."""
        return self._last_keys[bisect_right(self._last_keys, start) : bisect_left(self._last_keys, end)]

    @cached_property
    def _ordered(self) -> Ordered | None:
        """The last keys of the blocks, for comparisons; None if their lengths differ."""
        lengths = {*map(len, self._last_keys)}
        return np.array(self._last_keys, f"S{lengths.pop()}") if len(lengths) == 1 else None

    def rows(self, low: bytes, high: bytes) -> Rows | None:
        """Return the entries with low <= key < high; None if keys or values in their blocks differ in length."""
        if self._ordered is None or max(len(low), len(high)) > self._ordered.itemsize:
            return None
        first, last = (int(at) for at in np.searchsorted(self._ordered, np.array([low, high], self._ordered.dtype)))
        blocks = [self._entries(number) for number in range(first, min(last + 1, len(self._last_keys)))]
        found = _matrix(blocks, self._ordered.itemsize)
        if found is None:
            return None
        ordered = found.ordered
        start, end = np.searchsorted(ordered, np.array([low, high], ordered.dtype))
        return Rows(found.keys[start:end], found.values[start:end])

    def _entries(self, number: int) -> bytes:
        newest = self._newest
        if newest is not None and newest[0] == number:
            return newest[1]
        block = block_at(self._data, *self._handles[number])
        found = bytes(block[: entry_bytes(block)])
        self._newest = number, found
        return found


def piece_bounds(runs: Sequence[RunArrays], start: bytes, end: bytes, *, blocks: int) -> list[bytes]:
    """Return the bounds of pieces of a range that have about so many blocks, of all runs together."""
    keys = sorted(chain.from_iterable(run.last_keys_between(start, end) for run in runs))
    return [start, *dict.fromkeys(keys[blocks - 1 :: blocks]), end]


def newest_of(runs: Sequence[RunArrays], low: bytes, high: bytes) -> StateRange | None:
    """Return the newest entry of each key in a range, in key order; None if RocksDB has to read them.

    runs: oldest first.
    """
    parts = list[Rows]()
    for run in reversed(runs):
        rows = run.rows(low, high)
        if rows is None:
            return None
        if len(rows.keys):
            parts.append(rows)
    if not parts:
        return StateRange([], [])
    if len({(part.keys.shape[1], part.values.shape[1]) for part in parts}) > 1:
        return None
    if len(parts) == 1:
        return StateRange(FixedBytes(parts[0].keys), FixedBytes(parts[0].values))
    keys = np.concatenate([part.keys for part in parts])
    values = np.concatenate([part.values for part in parts])
    newest = _newest(keys)
    return StateRange(_taken(keys, newest), _taken(values, newest))


def _taken(rows: U8, positions: Positions) -> FixedBytes:
    """Return the rows at some positions (m,), each as one item, which numpy copies faster than its bytes."""
    width = rows.shape[1]
    return FixedBytes(rows.view(f"V{width}").ravel()[positions].view(np.uint8).reshape(-1, width))


def _newest(keys: U8) -> Positions:
    """Return the positions of the first of equal keys, in key order."""
    words = _words(keys)
    order = np.argsort(words, kind="stable")
    ordered, is_first = words[order], np.ones(len(keys), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return order[is_first]


def _words(keys: U8) -> Ordered | npt.NDArray[np.uint64]:
    """Return values in the order of the keys: numbers if the keys differ in their last eight bytes only."""
    shared, width = keys.shape[1] - _WORD_BYTES, keys.shape[1]
    if shared > 0 and (keys[:, :shared] != keys[0, :shared]).any():
        return FixedBytes(keys).comparable()
    packed = np.zeros((len(keys), _WORD_BYTES), np.uint8)
    packed[:, -min(width, _WORD_BYTES) :] = keys[:, max(0, shared) :]
    return packed.view(">u8").ravel().astype(np.uint64)


def _matrix(blocks: Sequence[bytes], key_bytes: int) -> Rows | None:
    """Return the entries of blocks; None unless their keys have this length, and their values one length."""
    data = b"".join(blocks)
    if not data:
        return Rows(np.empty((0, key_bytes), np.uint8), np.empty((0, 1), np.uint8))
    stored, at = read_varint(data, 1)
    value_bytes, head_bytes = read_varint(data, at)
    width = head_bytes + stored + value_bytes
    if stored != key_bytes + len(KEY_TRAILER) or value_bytes == 0 or any(len(block) % width for block in blocks):
        return None
    rows = np.frombuffer(data, np.uint8).reshape(-1, width)
    if (rows[:, :head_bytes] != rows[0, :head_bytes]).any():
        return None
    key_end = head_bytes + key_bytes
    return Rows(np.ascontiguousarray(rows[:, head_bytes:key_end]), rows[:, head_bytes + stored :])


def _index(block: memoryview) -> tuple[list[bytes], list[tuple[int, int]]]:
    """Return the last key of each data block, and its offset and size."""
    keys, handles = list[bytes](), list[tuple[int, int]]()
    at, end = 0, entry_bytes(block)
    while at < end:
        key_bytes, at = read_varint(block, at + 1)
        value_bytes, at = read_varint(block, at)
        keys.append(bytes(block[at : at + key_bytes]))
        offset, after = read_varint(block, at + key_bytes)
        handles.append((offset, read_varint(block, after)[0]))
        at += key_bytes + value_bytes
    return keys, handles
