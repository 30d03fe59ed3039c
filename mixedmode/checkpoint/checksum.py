"""Checksums of files: xxh3_64 over the bytes, as 16 hex digits, streamed in bounded memory.

Hadoop keeps a checksum beside each file of Spark's log on a local disk, of another kind; it can be judged here, too.

They find damage (a torn write, a flipped bit, a file swapped for another); they do not keep out an attacker.
"""

import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import xxhash

__all__ = ["checksum_of", "file_checksum", "is_hadoop_checksum_of"]

_CHUNK_BYTES = 1 << 20
_HADOOP_HEAD = struct.Struct(">4sI")  # a mark, and how many bytes each of the sums behind it is of
_HADOOP_MARK = b"crc\0"


def checksum_of(chunks: Iterable[bytes]) -> str:
    """Checksum of the concatenation of `chunks`; how they are cut does not matter."""
    digest = xxhash.xxh3_64()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def file_checksum(path: Path | str) -> str:
    """Checksum of a local file.  Raises OSError as `open` does: the caller made the file."""
    with Path(path).open("rb") as file:
        return checksum_of(iter(lambda: file.read(_CHUNK_BYTES), b""))


def is_hadoop_checksum_of(checksum: bytes, data: bytes) -> bool:
    r"""Whether a file `.<name>.crc` of Hadoop's local file system is of these bytes: a CRC32 per so many of them.

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
