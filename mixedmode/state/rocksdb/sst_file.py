"""Write an SST file of RocksDB from arrays of keys and values, without a Python object per entry.

A file is in RocksDB's block-based table format, version 5, as a file that is to be ingested:

    data blocks | filter | index | properties | metaindex | footer

The index has the last key of each data block, and the block's handle: its offset and size (varints). The metaindex has
the handles of filter and properties. RocksDB's own `SstFileWriter` writes the same entries, with the same filter and in
about as many bytes; but rocksdict passes it one entry at a time.

Sources: https://github.com/facebook/rocksdb/wiki/Rocksdb-BlockBasedTable-Format (the parts of a file),
https://github.com/facebook/rocksdb/blob/main/table/format.cc (the footer),
https://github.com/facebook/rocksdb/blob/main/table/meta_blocks.cc (properties),
https://github.com/facebook/rocksdb/blob/main/db/external_sst_file_ingestion_job.cc (properties that ingesting needs).

Invariant (tests/state/test_sst_file.py): RocksDB reads the same from this file as from one of its own writer.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import numpy as np

from mixedmode.keys.rows import binary_rows
from mixedmode.state.arrow_bytes import ArrowBytes, array_of, data_bytes, joined, values_at
from mixedmode.state.fixed_bytes import FixedBytes
from mixedmode.state.rocksdb.bloom_filter import BloomFilter
from mixedmode.state.rocksdb.options import BLOCK_BYTES, BLOOM_BITS_PER_KEY
from mixedmode.state.rocksdb.sst_blocks import (
    KEY_TRAILER,
    XXH3_CHECKSUM,
    Entries,
    data_blocks,
    encode_entries,
    in_file,
    parts_in_file,
    varint,
    varints,
)
from mixedmode.state.rocksdb.xxph3 import xxph3

_Keys = FixedBytes | ArrowBytes[bytes]
_Values = FixedBytes | ArrowBytes[bytes | None]
_Piece = tuple[Sequence[bytes], Sequence[bytes | None]]  # keys and values

_FORMAT_VERSION = 5  # later ones bind checksums to places in the file, and change nothing that a run needs
_MAGIC = 0x88E241B785F4CFF7
_BLOCK_TRAILER_BYTES = 5
_HANDLES_BYTES = 40  # of the footer
_GROUP_BYTES = 1024 * 1024  # entries are encoded and written in groups of about this size
_FILTER_NAME = b"fullfilter.rocksdb.BuiltinBloomFilter"


class SstFile:
    """Writes the file `path`. Memory: a group of entries, and 8 bytes per key for the filter.

    `has_filter`: False if no key will be looked up in the file; a lookup then reads a block.
    """

    def __init__(self, path: Path, *, has_filter: bool = True) -> None:
        self._file = path.open("wb")
        self._waiting: list[_Piece] = []  #: entries that are not written yet, as they came
        self._waiting_bytes = 0  #: of these pieces
        self._filter = BloomFilter(bits_per_key=BLOOM_BITS_PER_KEY) if has_filter else None
        self._last_keys: list[Sequence[bytes]] = []  #: of data blocks
        self._block_bytes: list[int] = []  #: of data blocks, as in the file
        self._offset = 0  #: in the file
        self._entries = self._key_bytes = self._value_bytes = 0

    def write(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write the next entries; None is written as an empty value. The caller checks that keys strictly increase.

        Raises OSError if writing to the disk fails, maybe only at a later call.
        """
        assert len(keys) == len(values), (len(keys), len(values))
        if not keys:
            return
        size = data_bytes(keys) + data_bytes(values)
        if size >= _GROUP_BYTES:
            self._flush()
            self._write_groups(array_of(keys), array_of(values), -(-size // _GROUP_BYTES))
            return
        self._waiting.append((keys, values))
        self._waiting_bytes += size
        if self._waiting_bytes >= _GROUP_BYTES:
            self._flush()

    def finish(self) -> None:
        """Write all that follows the data blocks. Raises OSError if writing to the disk fails.

        The file is not synced: the store does that when it gets the file.
        """
        self._flush()
        assert self._entries, "RocksDB does not ingest a file without entries"
        with self._file:
            self._write_tail()

    def discard(self) -> None:
        """Close the file without finishing it."""
        with suppress(OSError):
            self._file.close()

    def _flush(self) -> None:
        if self._waiting:
            keys, values = zip(*self._waiting, strict=True)
            self._waiting, self._waiting_bytes = [], 0
            self._write_groups(array_of(joined(keys)), array_of(joined(values)), 1)

    def _write_groups(self, keys: _Keys, values: _Values, groups: int) -> None:
        step = -(-len(keys) // groups)
        for start in range(0, len(keys), step):
            self._write_group(keys[start : start + step], values[start : start + step])

    def _write_group(self, keys: _Keys, values: _Values) -> None:
        ends, found = data_blocks(keys, values, BLOCK_BYTES)
        blocks = [in_file(block, compresses=True) for block in found]
        self._file.write(b"".join(chain.from_iterable(blocks)))
        self._block_bytes += [len(block) + _BLOCK_TRAILER_BYTES for block, _ in blocks]
        self._last_keys.append(values_at(keys, ends - 1))
        if self._filter is not None:
            width = keys.width if isinstance(keys, FixedBytes) else None
            self._filter.add(xxph3(binary_rows(keys.large_binary()), width))
        self._entries += len(keys)
        self._key_bytes += data_bytes(keys) + len(keys) * len(KEY_TRAILER)
        self._value_bytes += data_bytes(values)

    def _write_tail(self) -> None:
        data_end = sum(self._block_bytes)
        self._offset = data_end
        meta, filter_bytes = dict[bytes, bytes](), 0
        if self._filter is not None:
            meta[_FILTER_NAME] = self._placed(parts_in_file(self._filter.parts()))
            filter_bytes = self._offset - data_end - _BLOCK_TRAILER_BYTES
        index_start = self._offset
        index_handle = self._placed(in_file(self._index(), compresses=True))
        properties = _block(self._properties(data_end, filter_bytes, self._offset - index_start))
        meta[b"rocksdb.properties"] = self._placed(in_file(properties, compresses=False))
        metaindex = _block(meta)
        handles = self._placed(in_file(metaindex, compresses=False)) + index_handle
        footer = handles.ljust(_HANDLES_BYTES, b"\0") + struct.pack("<IQ", _FORMAT_VERSION, _MAGIC)
        self._file.write(bytes([XXH3_CHECKSUM]) + footer)

    def _placed(self, parts: Iterable[bytes | memoryview]) -> bytes:
        """Write one block, as in the file, and return its handle."""
        start = self._offset
        for part in parts:
            self._file.write(part)
            self._offset += len(part)
        return varint(start) + varint(self._offset - start - _BLOCK_TRAILER_BYTES)

    def _index(self) -> bytes:
        sizes = np.array(self._block_bytes)
        handles = ArrowBytes[bytes | None](varints(np.cumsum(sizes) - sizes, sizes - _BLOCK_TRAILER_BYTES))
        entries = encode_entries(array_of(joined(self._last_keys)), handles, b"")
        return _only(entries, len(sizes))

    def _properties(self, data_end: int, filter_bytes: int, index_bytes: int) -> dict[bytes, bytes]:
        numbers = {
            b"data.size": data_end,
            b"deleted.keys": 0,
            b"filter.size": filter_bytes,
            b"format.version": _FORMAT_VERSION,
            b"index.key.is.user.key": 1,
            b"index.size": index_bytes,
            b"index.value.is.delta.encoded": 0,
            b"key.largest.seqno": 0,
            b"num.data.blocks": len(self._block_bytes),
            b"num.entries": self._entries,
            b"num.filter_entries": 0 if self._filter is None else self._entries,
            b"raw.key.size": self._key_bytes,
            b"raw.value.size": self._value_bytes,
            b"tail.start.offset": data_end,
        }
        return {
            **{b"rocksdb." + name: varint(number) for name, number in numbers.items()},
            b"rocksdb.block.based.table.index.type": struct.pack("<I", 0),  # binary search
            b"rocksdb.block.based.table.prefix.filtering": b"0",
            b"rocksdb.block.based.table.whole.key.filtering": b"1",
            b"rocksdb.comparator": b"leveldb.BytewiseComparator",
            b"rocksdb.compression": b"LZ4",
            b"rocksdb.external_sst_file.global_seqno": struct.pack("<Q", 0),  # the database that ingests it has its own
            b"rocksdb.external_sst_file.version": struct.pack("<I", 2),
            b"rocksdb.filter.policy": b"" if self._filter is None else b"rocksdb.BuiltinBloomFilter",
        }


def _block(entries: Mapping[bytes, bytes]) -> bytes:
    keys = sorted(entries)
    encoded = encode_entries(array_of(keys), array_of([entries[key] for key in keys]), b"")
    return _only(encoded, len(keys))


def _only(entries: Entries, count: int) -> bytes:
    """Return all entries as one block, in which each of them is a restart point."""
    (block,) = entries.blocks([(0, count)], entries_per_restart=1)
    return block
