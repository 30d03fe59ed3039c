"""xxHash64 of many byte strings at once, bit-equal to Spark's `xxhash64(binary)`, and the key group of each hash.

The algorithm reads 32-byte stripes, then a tail of length % 32. All rows process stripe i together; rows
are sorted by length, so the rows that still have a stripe are a prefix. All rows with the same tail length take the
same steps. So the number of numpy calls depends on the longest row, and never on the number of rows. Rows of one width,
as keys of numbers are, lie one after the other: their words are read where they are, and not gathered.

Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md (XXH64)
Invariants (tests/keys/test_xxhash64.py):
  I1  xxhash64(values, seed=s)[i] == xxhash.xxh64(values[i], seed=s).intdigest()
  I2  the result does not depend on the Arrow type, nor on how the array is sliced
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from mixedmode.keys.arrow import I64, U8, U16, U64, AnyNumpy, from_buffer
from mixedmode.keys.groups import check_max_parallelism
from mixedmode.keys.rows import BinaryRows, binary_rows, read_at

#: returns the integers of this type that are so many bytes behind the beginning of the tails
_Read = Callable[[npt.DTypeLike, int], AnyNumpy]

SPARK_SEED = 42  # the seed of Spark's xxhash64 expression

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)

_BLOCK_ROWS = 2**16  # the working arrays of a block (512 KiB each) stay in the cache: twice as fast as all rows at once
_STRIPE_BYTES = 32
_GIANT_BYTES = 4096  # a longer row costs more than one call into the xxhash library, so it gets a call of its own


def xxhash64(values: pa.Array, *, seed: int = SPARK_SEED) -> U64:
    """Hash each row of a binary array without NULLs: (n,) -> (n,) uint64, same order."""
    assert values.null_count == 0, values.null_count
    if pa.types.is_fixed_size_binary(values.type) and values.type.byte_width < _STRIPE_BYTES:
        return _hash_of_width(values, seed)
    rows = binary_rows(values)
    out = np.empty(len(rows), dtype=np.uint64)
    for lo in range(0, len(rows), _BLOCK_ROWS):
        hi = lo + _BLOCK_ROWS
        out[lo:hi] = _hash_block(BinaryRows(rows.data, rows.starts[lo:hi], rows.ends[lo:hi]), seed)
    return out


def key_groups(keys: pa.Array, *, max_parallelism: int) -> U16:
    """Return the key group of each encoded key: pmod(xxhash64(key), max_parallelism), as Spark. (n,) -> (n,) uint16.

    Raises InvalidJobError (fix the job file) unless 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT.
    """
    check_max_parallelism(max_parallelism)
    hashes = xxhash64(keys)
    if max_parallelism & (max_parallelism - 1) == 0:  # a power of two, as by default: the low bits are the remainder
        return (hashes & np.uint64(max_parallelism - 1)).astype(np.uint16)
    signed, count = hashes.view(np.int64), np.int64(max_parallelism)
    # floor division is SIMD in numpy and % is not: this is 10x faster, and floors as pmod does
    return (signed - signed // count * count).astype(np.uint16)


def _hash_of_width(values: pa.Array, seed: int) -> U64:
    """Hash the rows of an array of fixed width, each shorter than a stripe."""
    n, width = len(values), values.type.byte_width
    out = np.full(n, (seed + int(_P5) + width) % 2**64, dtype=np.uint64)
    data = from_buffer(values.buffers()[1] if n else None, np.uint8, count=n * width, start=values.offset * width)
    for lo in range(0, n, _BLOCK_ROWS):
        block = out[lo : lo + _BLOCK_ROWS]
        _mix_tail(block, partial(_words_of, data[lo * width :], width, len(block)), width)
        _avalanche(block)
    return out


def _words_of(data: U8, width: int, n: int, dtype: npt.DTypeLike, at: int) -> AnyNumpy:
    """Return a view of the integer at byte `at` of each of n rows of one width."""
    return np.ndarray((n,), dtype, data, at, (width,))


def _hash_block(rows: BinaryRows, seed: int) -> U64:
    lengths = rows.ends - rows.starts
    giant = lengths > _GIANT_BYTES
    if not giant.any():
        return _hash_rows(rows, lengths, seed)
    out = np.empty(len(rows), dtype=np.uint64)
    small = np.flatnonzero(~giant)
    out[small] = _hash_rows(BinaryRows(rows.data, rows.starts[small], rows.ends[small]), lengths[small], seed)
    for index in np.flatnonzero(giant):  # per row, but each iteration hashes more than _GIANT_BYTES in C
        out[index] = xxhash.xxh64_intdigest(rows.row(int(index)), seed=seed)
    return out


def _hash_rows(rows: BinaryRows, lengths: I64, seed: int) -> U64:
    hashes = lengths.astype(np.uint64)
    hashes += np.uint64((seed + int(_P5)) % 2**64)
    striped = np.flatnonzero(lengths >= _STRIPE_BYTES)
    if len(striped):
        hashes[striped] = _hash_stripes(rows, striped, lengths, seed)
    tails = lengths % _STRIPE_BYTES
    at = rows.ends - tails
    for class_rows, tail in _tail_classes(tails):
        part = hashes[class_rows]
        _mix_tail(part, partial(_gathered, rows, at[class_rows]), tail)
        hashes[class_rows] = part
    _avalanche(hashes)
    return hashes


def _tail_classes(tails: I64) -> list[tuple[I64 | slice, int]]:
    """Return the row numbers per tail length, at most 31 classes; the empty tail needs no work and is left out."""
    if len(tails) and (tails == tails[0]).all():
        return [(slice(None), int(tails[0]))] if tails[0] else []
    order = np.argsort(tails.astype(np.uint8), kind="stable")  # radix sort
    bounds = np.searchsorted(tails[order], np.arange(1, 33))
    spans = zip(bounds[:-1], bounds[1:], range(1, 32), strict=True)
    return [(order[lo:hi], tail) for lo, hi, tail in spans if lo < hi]


def _hash_stripes(rows: BinaryRows, striped: I64, lengths: I64, seed: int) -> U64:
    """Return the hash state after all whole 32-byte stripes of the rows in `striped`, in the order of `striped`."""
    order = np.argsort(-lengths[striped], kind="stable")
    longest_first = striped[order]
    stripes = lengths[longest_first] // 32
    starts = rows.starts[longest_first]
    first = [seed + int(_P1) + int(_P2), seed + int(_P2), seed, seed - int(_P1)]
    lanes = [np.full(len(striped), value % 2**64, dtype=np.uint64) for value in first]
    for stripe in range(int(stripes[0])):
        active = int(np.searchsorted(-stripes, -stripe, side="left"))  # rows with more than `stripe` stripes
        for lane, acc in enumerate(lanes):
            word = read_at(rows.data, "<u8", starts[:active] + (stripe * 32 + lane * 8))
            _round(acc[:active], word)
    merged = _merge_lanes(lanes) + lengths[longest_first].astype(np.uint64)
    out = np.empty_like(merged)
    out[order] = merged
    return out


def _merge_lanes(lanes: list[U64]) -> U64:
    merged = np.zeros_like(lanes[0])
    for acc, bits in zip(lanes, (1, 7, 12, 18), strict=True):
        rotated = acc.copy()
        _rotate(rotated, bits)
        merged += rotated
    for acc in lanes:
        mixed = np.zeros_like(acc)
        _round(mixed, acc)
        merged ^= mixed
        merged *= _P1
        merged += _P4
    return merged


def _gathered(rows: BinaryRows, tails: I64, dtype: npt.DTypeLike, at: int) -> AnyNumpy:
    return read_at(rows.data, dtype, tails + at)


def _mix_tail(hashes: U64, read: _Read, tail: int) -> None:
    """Mix the last `tail` < 32 bytes of each row into `hashes` in place: 8 at a time, then 4, then 1."""
    done = 0
    for _ in range(tail // 8):
        mixed = np.zeros_like(hashes)
        _round(mixed, read("<u8", done))
        _step(hashes, mixed, 27, _P1, _P4)
        done += 8
    if tail - done >= 4:
        _step(hashes, read("<u4", done).astype(np.uint64) * _P1, 23, _P2, _P3)
        done += 4
    while done < tail:
        _step(hashes, read("u1", done).astype(np.uint64) * _P5, 11, _P1, np.uint64(0))
        done += 1


def _step(hashes: U64, mixed: U64, bits: int, factor: np.uint64, addend: np.uint64) -> None:
    hashes ^= mixed
    _rotate(hashes, bits)
    hashes *= factor
    hashes += addend


def _round(acc: U64, word: U64) -> None:
    acc += word * _P2
    _rotate(acc, 31)
    acc *= _P1


def _rotate(values: U64, bits: int) -> None:
    high = values << np.uint64(bits)
    values >>= np.uint64(64 - bits)
    values |= high


def _avalanche(hashes: U64) -> None:
    for bits, factor in ((33, _P2), (29, _P3), (32, None)):
        hashes ^= hashes >> np.uint64(bits)
        if factor is not None:
            hashes *= factor
