"""RocksDB's Bloom filter of a file, made from the hashes of all keys at once.

A filter is an array of lines of 64 bytes, the unit that a CPU's cache loads. The low half of a key's hash chooses its
line; the high half, multiplied again and again, chooses its bits in this line:

    lines | 255 u8 | 0 u8 | number of bits per key u8 | 0 u16

Sources: https://github.com/facebook/rocksdb/blob/main/util/bloom_impl.h (FastLocalBloomImpl),
https://github.com/facebook/rocksdb/blob/main/table/block_based/filter_policy.cc (the last five bytes).

Invariant (tests/state/test_bloom_filter.py): the filter equals RocksDB's, bit by bit.
"""

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

#: thousandths of a filter's bits per key, up to which a key sets 1, 2, 3, ... of them: RocksDB's choice
_PROBES_UP_TO = (2080, 3580, 5100, 6640, 8300, 10070, 11720, 14001, 16050, 18300, 22001, 25501)
_PROBES_MAX = 24
_LINE_BYTES = 64
_LINE_BITS = 8 * _LINE_BYTES
_LINES_MAX = 0xFFFFFFC0 // _LINE_BYTES  # a filter of 4 GiB
_LINES_AT_A_TIME = 4096  # 2 MiB, with one byte per bit
_CHUNK_KEYS = 16 * 1024
_MULTIPLIER = np.uint32(0x9E3779B9)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


class BloomFilter:
    """The filter of a file, from the hashes (XXPH3) of its keys. Memory: 8 bytes per key."""

    def __init__(self, *, bits_per_key: int) -> None:
        self._bits_per_key = bits_per_key
        self._pieces: list[npt.NDArray[np.uint64]] = []  #: the hashes, turned by half a word; each piece is sorted
        self._keys = 0

    def add(self, hashes: npt.NDArray[np.uint64]) -> None:
        """Add the hashes of some keys, in any order."""
        turned = hashes << _HALF | hashes >> _HALF  # now the sorted hashes have sorted lines
        turned.sort()
        self._pieces.append(turned)
        self._keys += len(turned)

    def parts(self) -> Iterator[bytes]:
        """Yield the filter block in parts. There is at least one key."""
        lines = min(-(-self._keys * self._bits_per_key // _LINE_BITS), _LINES_MAX)
        probes = _probes(1000 * lines * _LINE_BITS // self._keys)
        starts = np.arange(0, lines, _LINES_AT_A_TIME, dtype=np.uint64)
        # The first hash of a line is the least whose product with the number of lines reaches the line.
        first = ((starts << _HALF) + np.uint64(lines - 1)) // np.uint64(lines) << _HALF
        bounds = [[*np.searchsorted(piece, first).tolist(), len(piece)] for piece in self._pieces]
        bits = np.empty(min(lines, _LINES_AT_A_TIME) * _LINE_BITS, np.bool_)
        for number, start in enumerate(starts.tolist()):
            some = bits[: (lines - start) * _LINE_BITS]
            of_lines = [piece[at[number] : at[number + 1]] for piece, at in zip(self._pieces, bounds, strict=True)]
            _set(some, np.concatenate(of_lines), lines, start, probes)
            yield np.packbits(some, bitorder="little").tobytes()
        yield bytes([255, 0, probes, 0, 0])


def _probes(millibits_per_key: int) -> int:
    if millibits_per_key <= _PROBES_UP_TO[-1]:
        return bisect_left(_PROBES_UP_TO, millibits_per_key) + 1
    return min((millibits_per_key - 1) // 2000 - 1, _PROBES_MAX)


def _set(bits: npt.NDArray[np.bool_], turned: npt.NDArray[np.uint64], lines: int, start: int, probes: int) -> None:
    """Set the bits of some lines, of which the first is number `start`. `turned` (n,): the hashes that choose them."""
    bits[:] = False
    for at in range(0, len(turned), _CHUNK_KEYS):
        chunk = turned[at : at + _CHUNK_KEYS]
        line = ((chunk >> _HALF) * np.uint64(lines) >> _HALF).astype(np.int64) - start
        first_bit = line * _LINE_BITS
        remains = (chunk & _LOW).astype(np.uint32)
        for _ in range(probes):
            bits[first_bit + (remains >> np.uint32(23))] = True
            remains *= _MULTIPLIER
