"""The hash of RocksDB's filters, XXPH3, over many keys at once.

XXPH3 is the 64-bit form of a preview of XXH3, without a seed. It differs from the XXH3 that was released, so no package
computes it. Keys of different lengths are hashed in different ways. Here, all keys of one way are hashed together, by
numpy; their lengths within it may differ, as a key's last bytes are read from its end.

Sources: https://github.com/facebook/rocksdb/blob/main/util/xxph3.h (the definition),
https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md (XXH3, with most of its constants and its secret).

Invariant (tests/state/test_bloom_filter.py): filters of keys of any length equal RocksDB's, bit by bit.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from mixedmode.keys.arrow import I64, U8, U64
from mixedmode.keys.rows import BinaryRows, read_at

_CHUNK_KEYS = 8192  # arrays of so many words stay in a CPU's cache
_STRIPE_BYTES = 64
_STRIPES_PER_BLOCK = 16
_PRIMES_32 = [np.uint64(prime) for prime in (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)]
_PRIMES_64 = [
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
]
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
#: the way of each length up to 240
_WAYS = np.searchsorted([1, 4, 9, 17, 33, 65, 97, 129, *range(144, 241, 16)], np.arange(241), "right")
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def xxph3(keys: BinaryRows, width: int | None = None) -> U64:
    """Return the hash of each key (n,). `width`: the length of all keys, one right after the other, or None."""
    hashes = np.empty(len(keys), np.uint64)
    for rows in [None] if width is not None else _alike(keys):
        for at in range(0, len(keys if rows is None else rows), _CHUNK_KEYS):
            chunk = slice(at, at + _CHUNK_KEYS)
            some = chunk if rows is None else rows[chunk]
            hashes[some] = _Keys(keys.data, keys.starts[some], keys.ends[some], width).hash()
    return hashes


def _alike(keys: BinaryRows) -> Iterator[I64 | None]:
    """Yield the rows of all keys that are hashed with the same steps; None if these are all rows."""
    ways = _ways(keys.ends - keys.starts)
    counts = np.bincount(ways)
    for way in np.flatnonzero(counts).tolist():
        yield None if counts[way] == len(ways) else np.flatnonzero(ways == way)


def _ways(lengths: I64) -> I64:
    """Return a number for each length: lengths with one number are hashed with the same steps.

    Example: all lengths from 9 to 16 have one number, and all lengths from 33 to 64 have another.
    """
    if not len(lengths) or lengths.max() < len(_WAYS):
        return _WAYS[lengths]
    stripes = 2 * (lengths // _STRIPE_BYTES) + (lengths % _STRIPE_BYTES > 0)
    return np.where(lengths < len(_WAYS), _WAYS[np.minimum(lengths, len(_WAYS) - 1)], int(_WAYS[-1]) + stripes)


class _Keys:
    """Keys that are hashed with the same steps."""

    def __init__(self, data: U8, starts: I64, ends: I64, width: int | None) -> None:
        self._data = data
        self._starts = starts
        self._ends = ends
        self._width = width
        self._lengths = (ends - starts).view(np.uint64)
        self._length = int(ends[0] - starts[0])  #: of one of them, which decides the steps

    def hash(self) -> U64:
        length = self._length
        if length > 240:
            return self._hash_long()
        if length > 128:
            return self._hash_129_to_240()
        if length > 16:
            return self._hash_17_to_128()
        if length > 8:
            return self._hash_9_to_16()
        return self._hash_up_to_8()

    def _words(self, at: I64, dtype: str = "<u8") -> U64:
        """Return the number at each position `at` of the data: (n,), one in each key."""
        if self._width is not None:
            words = np.ndarray(len(at), dtype, self._data, int(at[0]), (self._width,))
            return words.astype(np.uint64)
        return read_at(self._data, dtype, at).astype(np.uint64, copy=False)

    def _hash_up_to_8(self) -> U64:
        if self._length == 0:
            return np.full(len(self._starts), _folded(_secret(0, 1), np.array(_PRIMES_64[1:2]))[0], np.uint64)
        if self._length < 4:
            last, middle = self._data[self._ends - 1], self._data[(self._starts + self._ends) // 2]
            parts = [self._data[self._starts], middle, last, self._lengths]
            keyed = _secret(0, 1) & _LOW
            for place, part in enumerate(parts):
                keyed = keyed ^ (part.astype(np.uint64) << np.uint64(8 * place))
            return _avalanche(keyed * _PRIMES_64[0])
        words = self._words(self._starts, "<u4") | self._words(self._ends - 4, "<u4") << _HALF
        words ^= _secret(0, 1)
        mixed = self._lengths + (words ^ words >> np.uint64(51)) * _PRIMES_32[0]
        return _avalanche((mixed ^ mixed >> np.uint64(47)) * _PRIMES_64[1])

    def _hash_9_to_16(self) -> U64:
        low = self._words(self._starts) ^ _secret(0, 1)
        high = self._words(self._ends - 8) ^ _secret(8, 1)
        return _avalanche(self._lengths + low + high + _folded(low, high))

    def _hash_17_to_128(self) -> U64:
        parts = (self._length + 31) // 32
        found = self._lengths * _PRIMES_64[0]
        found += self._mixed(self._starts, range(0, 32 * parts, 32))
        found += self._mixed(self._ends - 16 * parts, range(32 * parts - 16, 0, -32))
        return _avalanche(found)

    def _hash_129_to_240(self) -> U64:
        parts = self._length // 16 - 8
        found = _avalanche(self._lengths * _PRIMES_64[0] + self._mixed(self._starts, range(0, 128, 16)))
        if parts:
            found += self._mixed(self._starts + 128, range(3, 3 + 16 * parts, 16))
        return _avalanche(found + self._mixed(self._ends - 16, [119]))

    def _hash_long(self) -> U64:
        lanes = [*_PRIMES_32[2:], *_PRIMES_64[:4], _PRIMES_32[1], _PRIMES_64[4], _PRIMES_32[0]]
        sums = np.tile(np.array(lanes, np.uint64), (len(self._starts), 1))
        for stripe in range(self._length // _STRIPE_BYTES):
            place = stripe % _STRIPES_PER_BLOCK
            sums += self._stripe(self._starts + _STRIPE_BYTES * stripe, 8 * place)
            if place == _STRIPES_PER_BLOCK - 1:
                sums = (sums ^ sums >> np.uint64(47) ^ _secret(128, 8)) * _PRIMES_32[0]
        if self._length % _STRIPE_BYTES:
            sums += self._stripe(self._ends - _STRIPE_BYTES, 121)
        sums ^= _secret(11, 8)
        found = self._lengths * _PRIMES_64[0]
        for lane in range(0, 8, 2):
            found += _folded(sums[:, lane], sums[:, lane + 1])
        return _avalanche(found)

    def _mixed(self, at: I64, secrets_at: Sequence[int]) -> U64:
        """Return the sum of parts of 16 bytes of each key, from `at` on, each mixed with its part of the secret."""
        words = self._words_from(at, 2 * len(secrets_at))
        found = np.zeros(len(at), np.uint64)
        for part, place in enumerate(secrets_at):
            low, high = words[:, 2 * part], words[:, 2 * part + 1]
            found += _folded(low ^ _secret(place, 1), high ^ _secret(place + 8, 1))
        return found

    def _words_from(self, at: I64, words: int) -> U64:
        """Return (n, words) of each key, one after the other, from the position `at` (n,) of the data on."""
        if self._width is not None:
            return np.ndarray((len(at), words), "<u8", self._data, int(at[0]), (self._width, 8))
        return read_at(self._data, f"V{8 * words}", at).view("<u8").reshape(-1, words)

    def _stripe(self, at: I64, secret_at: int) -> U64:
        """Return what 64 bytes of each key add to its eight sums: (n, 8)."""
        words = self._words_from(at, 8)
        keyed = words ^ _secret(secret_at, 8)
        return words + (keyed & _LOW) * (keyed >> _HALF)


def _secret(at: int, words: int) -> U64:
    return np.frombuffer(_SECRET, "<u8", words, at).astype(np.uint64, copy=False)


def _avalanche(numbers: U64) -> U64:
    numbers = (numbers ^ numbers >> np.uint64(37)) * _PRIMES_64[2]
    return numbers ^ numbers >> _HALF


def _folded(left: U64, right: U64) -> U64:
    """Return the 128-bit products' high halves xor their low halves. numpy has no such product: it adds four parts.

    As with decimal digits: (a * 10 + b) * (c * 10 + d) = a * c * 100 + (a * d + b * c) * 10 + b * d.
    """
    left_low, high = left & _LOW, left >> _HALF
    right_low, right_high = right & _LOW, right >> _HALF
    carried = left_low * right_low
    carried >>= _HALF
    middle = high * right_low
    carried += middle & _LOW
    left_low *= right_high
    carried += left_low
    carried >>= _HALF
    middle >>= _HALF
    high *= right_high
    high += middle
    high += carried
    high ^= left * right
    return high
