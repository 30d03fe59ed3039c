"""Blocks of RocksDB's table format: entries as bytes, cut into blocks, and blocks as they are in a file.

A block is a list of entries, then the offsets of its restart points (u32 each), then their number (u32). An entry is

    shared varint | unshared varint | value length varint | key, without its `shared` first bytes | value

in which `shared` counts the first bytes that equal those of the key before. It is 0 here: then a block's entries do not
depend on each other, and LZ4 finds equal bytes as well. Readers search the restart points, which are then entries at a
constant distance, and step from there. A stored key is the user's key and 8 bytes: sequence number 0, and "value".

In a file, a block is followed by the kind of its compression (u8) and a checksum (u32). A compressed block begins with
its size before (varint). All numbers are little-endian; a varint has 7 bits in each byte, the lowest first, and the
eighth bit says that more bytes follow.

Sources: https://github.com/facebook/rocksdb/blob/main/table/block_based/block_builder.cc (entries, restart points),
https://github.com/facebook/rocksdb/blob/main/table/format.cc (checksums).
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from mixedmode.keys.arrow import I64, U8
from mixedmode.keys.rows import binary_rows
from mixedmode.state.arrow_bytes import ArrowBytes
from mixedmode.state.fixed_bytes import FixedBytes, put_columns

XXH3_CHECKSUM = 4  # in the footer
KEY_TRAILER = bytes([1, 0, 0, 0, 0, 0, 0, 0])  # "value", then 7 bytes of the sequence number
ENTRIES_PER_RESTART = 16  # of data blocks
_NOT_COMPRESSED, _LZ4 = 0, 4
_TRAILER_BYTES = 5  # behind a block
_CODEC = pa.Codec("lz4_raw")


def in_file(block: bytes | memoryview, *, compresses: bool) -> tuple[bytes | memoryview, bytes]:
    """Return a block as in the file, compressed if that saves an eighth of its bytes, and the five bytes behind it."""
    kind = _NOT_COMPRESSED
    if compresses:
        compressed = b"".join((varint(len(block)), _CODEC.compress(block)))
        if 8 * len(compressed) <= 7 * len(block):
            block, kind = compressed, _LZ4
    return block, _trailer(kind, xxhash.xxh3_64_intdigest(block))


def parts_in_file(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a block that comes in parts as in the file, not compressed, and with its last five bytes."""
    digest = xxhash.xxh3_64()
    for part in parts:
        digest.update(part)
        yield part
    yield _trailer(_NOT_COMPRESSED, digest.intdigest())


def block_at(data: memoryview, start: int, size: int) -> memoryview:
    """Return the block at a place in a file, not compressed.  Raises ValueError if it is damaged."""
    block, kind = data[start : start + size], data[start + size]
    if data[start + size : start + size + _TRAILER_BYTES] != _trailer(kind, xxhash.xxh3_64_intdigest(block)):
        msg = f"a block of the file is damaged: its bytes do not have its checksum. offset={start}, bytes={size}"
        raise ValueError(msg)
    if kind == _NOT_COMPRESSED:
        return block
    bytes_before, at = read_varint(block, 0)
    return memoryview(_CODEC.decompress(block[at:], bytes_before)).cast("B")  # of unsigned bytes


def entry_bytes(block: memoryview) -> int:
    """Return the number of bytes of a block's entries, which are followed by its restart points and their number."""
    return len(block) - 4 * (1 + int.from_bytes(block[-4:], "little"))


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the varint at a place, and the place behind it."""
    byte = data[at]
    at += 1
    number, shift = byte & 127, 7
    while byte > 127:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
    return number, at


def _trailer(kind: int, digest: int) -> bytes:
    # RocksDB hashes the block without the byte that follows, and puts this byte in by a multiplication.
    return struct.pack("<BI", kind, (digest ^ kind * 0x6B9083D9) & 0xFFFFFFFF)


@lru_cache(4096)  # of blocks, whose sizes are mostly a few
def varint(number: int) -> bytes:
    """Return a number >= 0 with 7 bits in each byte. Example: 300 is ac 02."""
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def varints(*numbers: I64) -> pa.LargeBinaryArray:
    """Return a column (n,): in row i, element i of all `numbers` (n,) as varints, one after the other."""
    widths = [len(varint(int(column.max()))) for column in numbers]
    matrix = np.empty((len(numbers[0]), sum(widths)), np.uint8)
    used = np.ones(matrix.shape, np.bool_)
    places = iter(range(sum(widths)))
    for column, width in zip(numbers, widths, strict=True):
        for digit, place in zip(range(width), places, strict=False):
            rest = column >> 7 * digit
            matrix[:, place] = rest & 127 | (rest > 127) << 7
            if digit:
                used[:, place] = rest > 0
    if used.all():
        return FixedBytes(matrix).large_binary()
    offsets = np.zeros(len(matrix) + 1, np.int64)
    np.cumsum(used.sum(axis=1), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(matrix[used])]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(matrix), buffers)


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of blocks, in key order: entry i is data[offsets[i]:offsets[i + 1]]; `offsets` is (n + 1,)."""

    data: U8
    offsets: I64

    def blocks(
        self, ranges: Sequence[tuple[int, int]], *, entries_per_restart: int = ENTRIES_PER_RESTART
    ) -> Iterator[bytes]:
        """Yield the block of each range [start, end) of entries; the ranges cover all entries, in order."""
        starts = np.array([start for start, _ in ranges])
        firsts = np.append(self.offsets[starts], self.offsets[-1]).tolist()
        words, ends = self._restarts(starts, entries_per_restart)
        data, restarts = memoryview(self.data), memoryview(words)  # type: ignore[arg-type]  # buffers, which slice fast
        for at, part in zip(pairwise(firsts), pairwise([0, *ends.tolist()]), strict=True):
            yield b"".join((data[slice(*at)], restarts[slice(*part)]))

    def _restarts(self, starts: I64, entries_per_restart: int) -> tuple[npt.NDArray[np.uint32], I64]:
        """Return what follows the entries of each block, one after the other, and (b,) where each block's part ends.

        Such a part is the block's restart points, and their number. `starts` (b,): the first entry of each block.
        """
        points = -(-np.diff(starts, append=len(self.offsets) - 1) // entries_per_restart)
        ends = np.cumsum(points + 1)
        block = np.repeat(np.arange(len(points)), points)  # of each restart point
        word = np.arange(len(block)) + block  # before it are those of earlier blocks, and the number of each block
        entry = starts[block] + (word - (ends - points - 1)[block]) * entries_per_restart
        words = np.empty(ends[-1], "<u4")
        words[word] = self.offsets[entry] - self.offsets[starts][block]
        words[ends - 1] = points
        return words, ends


def data_blocks(
    keys: FixedBytes | ArrowBytes[bytes], values: FixedBytes | ArrowBytes[bytes | None], size: int
) -> tuple[I64, Iterator[bytes | memoryview]]:
    """Return data blocks of about `size` bytes for keys (n,), n > 0, and values (n,): where each ends, and its bytes.

    The first result (b,) has the number of entries up to the end of each block.
    """
    if isinstance(keys, FixedBytes) and isinstance(values, FixedBytes):
        return _equal_blocks(keys, values, size)
    entries = encode_entries(keys, values, KEY_TRAILER)
    ranges = cuts(entries.offsets, size)
    return np.array([end for _, end in ranges]), entries.blocks(ranges)


def _equal_blocks(keys: FixedBytes, values: FixedBytes, size: int) -> tuple[I64, Iterator[memoryview]]:
    """Return the data blocks of entries of one length. All but the last one have as many entries each."""
    head = b"\0" + varint(keys.width + len(KEY_TRAILER)) + varint(values.width)
    each = -(-size // (len(head) + keys.width + len(KEY_TRAILER) + values.width))
    rest = len(keys) % each
    whole = len(keys) - rest
    last = _matrix(keys.rows[whole:], values.rows[whole:], head, rest) if rest else ()
    first = _matrix(keys.rows[:whole], values.rows[:whole], head, each) if whole else ()
    return np.array([*range(each, len(keys), each), len(keys)]), chain(first, last)


def _matrix(keys: U8, values: U8, head: bytes, each: int) -> Iterator[memoryview]:
    """Yield blocks of `each` entries: their bytes, then the restart points, which are the same in all blocks."""
    parts = [np.frombuffer(head, np.uint8), keys, np.frombuffer(KEY_TRAILER, np.uint8), values]
    ends = np.cumsum([part.shape[-1] for part in parts]).tolist()
    points = np.arange(0, each, ENTRIES_PER_RESTART, dtype="<u4") * np.uint32(ends[-1])
    restarts = np.append(points, np.array([len(points)], "<u4")).view(np.uint8)
    entries_bytes = each * ends[-1]
    blocks = np.empty((len(keys) // each, entries_bytes + len(restarts)), np.uint8)
    blocks[:, entries_bytes:] = restarts
    entries = np.ndarray((len(blocks), each, ends[-1]), np.uint8, blocks, strides=(blocks.shape[1], ends[-1], 1))
    for end, part in zip(ends, parts, strict=True):
        rows = part if part.ndim == 1 else part.reshape(len(blocks), each, -1)
        put_columns(entries, end - part.shape[-1], rows)
    for block in blocks:
        yield block.data


def cuts(offsets: I64, size: int) -> list[tuple[int, int]]:
    """Return ranges [start, end) of entries, each of about `size` bytes or one entry; they cover all entries.

    Example: entries of 30 bytes each and a size of 100: four begin before 100, three before 200: (0, 4), (4, 7), ...
    """
    full = np.arange(offsets[0], offsets[-2] + 1, size)
    bounds = np.unique(np.searchsorted(offsets[:-1], full))  # an entry of several sizes begins one block
    return list(pairwise([*bounds.tolist(), len(offsets) - 1]))


def encode_entries(
    keys: FixedBytes | ArrowBytes[bytes], values: FixedBytes | ArrowBytes[bytes | None], trailer: bytes
) -> Entries:
    """Return the entries of (n,) keys, each with `trailer` behind it, and values (n,); None is an empty value."""
    head = varints(np.zeros(len(keys), np.int64), keys.lengths() + len(trailer), values.lengths())
    parts = [head, keys.large_binary(), pa.scalar(trailer, pa.large_binary()), values.large_binary()]
    nothing = pa.scalar(b"", pa.large_binary())  # between the parts
    options = pc.JoinOptions(null_handling="replace", null_replacement="")
    rows = binary_rows(pc.binary_join_element_wise(*parts, nothing, options=options))
    return Entries(rows.data, np.append(rows.starts, rows.ends[-1]))
