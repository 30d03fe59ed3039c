"""Write the MANIFEST of a RocksDB database: its list of files. So a database of runs needs no ingesting.

RocksDB makes a database of files by ingesting them: it writes a list of them, and syncs each file. In rocksdict it does
so under the interpreter's lock, so all threads of the process wait for the disk. A database that is only read needs
nothing but the list.

A MANIFEST has RocksDB's log format: blocks of 32 KiB, in which a record is

    checksum u32 | length u16 | kind u8 | its bytes

A record that does not fit into its block has a first, middle and last part. Here, the first record has the comparator
and the counters of the database, and each further one adds a file to level 0. There, of two files with a key, the one
with the higher sequence number counts.

Sources: https://github.com/facebook/rocksdb/wiki/MANIFEST,
https://github.com/facebook/rocksdb/blob/main/db/version_edit.h (tags of the fields of a record),
https://github.com/facebook/rocksdb/wiki/Write-Ahead-Log-File-Format (records in blocks).

Invariant (tests/state/test_manifest_file.py): a database reads the same with this MANIFEST as one that has ingested the
files in their order.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from mixedmode.state.rocksdb.sst_blocks import varint

__all__ = ["run_name", "run_path", "write_manifest"]

_NAME = "MANIFEST-000001"
_FIRST_FILE = 10  # the number in the name of the first run; lower ones are of the database's own files
_COMPARATOR, _LOG_NUMBER, _NEXT_FILE, _LAST_SEQUENCE, _NEW_FILE = 1, 2, 3, 4, 103
_END_OF_FILE = 1  # the list of optional fields of a file ends
_BLOCK_BYTES, _HEAD_BYTES = 32 * 1024, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_VALUE = 1  # the kind of an entry, beside its sequence number
#: bounds of all stored keys, which begin with a key group. RocksDB only needs to know in which files a key may be
_LEAST, _GREATEST = b"\x00\x00", b"\xff\xff"


def run_path(folder: Path, number: int) -> Path:
    """Return the path of run `number`, from 0, in the folder of a database."""
    return folder / run_name(number)


def run_name(number: int) -> str:
    """Return the name of run `number`, from 0, in a database."""
    return f"{_FIRST_FILE + number:06}.sst"


def write_manifest(folder: Path, run_bytes: Sequence[int]) -> None:
    """Make a folder with runs a database, for reading.  run_bytes: the size of each run, the oldest first."""
    manifest = b"".join(_in_blocks([_counters(len(run_bytes)), *map(_new_file, range(len(run_bytes)), run_bytes)]))
    (folder / _NAME).write_bytes(manifest)
    (folder / "CURRENT").write_text(f"{_NAME}\n")


def _counters(runs: int) -> bytes:
    numbers = ((_LOG_NUMBER, 0), (_NEXT_FILE, _FIRST_FILE + runs), (_LAST_SEQUENCE, runs))
    fields = [varint(tag) + varint(number) for tag, number in numbers]
    return b"".join([varint(_COMPARATOR), _with_length(b"leveldb.BytewiseComparator"), *fields])


def _new_file(number: int, size: int) -> bytes:
    sequence = number + 1  # an ingested file has one sequence number for all of its entries
    trailer = struct.pack("<Q", sequence << 8 | _VALUE)
    numbers = (_NEW_FILE, 0, _FIRST_FILE + number, size)
    bounds = [_with_length(bound + trailer) for bound in (_LEAST, _GREATEST)]
    return b"".join([*map(varint, numbers), *bounds, varint(sequence), varint(sequence), varint(_END_OF_FILE)])


def _with_length(data: bytes) -> bytes:
    return varint(len(data)) + data


def _in_blocks(records: Iterable[bytes]) -> Iterable[bytes]:
    """Yield the pieces of a log with these records."""
    room = _BLOCK_BYTES
    for record in records:
        rest, is_first = record, True
        while rest or is_first:
            if room < _HEAD_BYTES:
                yield bytes(room)
                room = _BLOCK_BYTES
            part, rest = rest[: room - _HEAD_BYTES], rest[room - _HEAD_BYTES :]
            kind = (_LAST if not rest else _MIDDLE) if not is_first else (_FULL if not rest else _FIRST)
            yield struct.pack("<IHB", _checksum(bytes([kind]) + part), len(part), kind) + part
            room -= _HEAD_BYTES + len(part)
            is_first = False


@lru_cache(1024)  # most runs of a database are those of the one before
def _checksum(data: bytes) -> int:
    """Return CRC-32C, masked as RocksDB's logs have it."""
    found = 0xFFFFFFFF
    for byte in data:
        found = _CRC_32C[(found ^ byte) & 0xFF] ^ found >> 8
    found ^= 0xFFFFFFFF
    return ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _remainders() -> list[int]:
    """Return the CRC-32C of each byte alone, without the inversions."""
    found = []
    for remainder in range(256):
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)  # noqa: PLW2901  # bit by bit
        found.append(remainder)
    return found


_CRC_32C = _remainders()
