"""Checksums of files: xxh3_64 over the bytes, as 16 hex digits, streamed in bounded memory.

They find damage (a torn write, a flipped bit, a file swapped for another); they do not keep out an attacker.
"""

from collections.abc import Iterable
from pathlib import Path

import xxhash

__all__ = ["checksum_of", "file_checksum"]

_CHUNK_BYTES = 1 << 20


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
