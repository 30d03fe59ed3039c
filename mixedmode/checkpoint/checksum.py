"""Checksums of files: xxh3_64 over the bytes, as 16 hex digits, streamed in bounded memory.

On a local disk, Hadoop keeps a checksum of another kind (CRC32) beside each file of Spark's log. This module verifies
that checksum, too.

Checksums detect damage: a torn write, a flipped bit, a file swapped for another. They do not protect against an
attacker.
"""

import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import xxhash

__all__ = ["checksum_of", "file_checksum", "is_hadoop_checksum_of"]

_CHUNK_BYTES = 1 << 20
_HADOOP_HEAD = struct.Struct(">4sI")  # a mark, then the number of bytes that each of the following sums covers
_HADOOP_MARK = b"crc\0"


def checksum_of(chunks: Iterable[bytes]) -> str:
    """Return the checksum of the concatenation of `chunks`; it does not depend on where the chunks are cut."""
    digest = xxhash.xxh3_64()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def file_checksum(path: Path | str) -> str:
    """Return the checksum of a local file.  Raises OSError as `open` does: the caller made the file."""
    with Path(path).open("rb") as file:
        return checksum_of(iter(lambda: file.read(_CHUNK_BYTES), b""))


def is_hadoop_checksum_of(checksum: bytes, data: bytes) -> bool:
    r"""Return whether `checksum`, the content of a Hadoop file `.<name>.crc`, matches `data`.

    Such a file holds a header and one CRC32 per chunk of `data`. The header says how many bytes a chunk has.

    >>> is_hadoop_checksum_of(bytes.fromhex("63726300 00000200 40b80cbd"), b"v1\n1795282338304")
    True
    """
    if len(checksum) < _HADOOP_HEAD.size:
        return False
    mark, step = _HADOOP_HEAD.unpack_from(checksum)
    if mark != _HADOOP_MARK or step == 0:
        return False
    sums = (zlib.crc32(data[start : start + step]) for start in range(0, len(data), step))
    return checksum[_HADOOP_HEAD.size :] == b"".join(struct.pack(">I", value) for value in sums)
