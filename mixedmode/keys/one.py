"""One key of one column as bytes, without arrays, whose calls cost as much for one key as for hundreds.

Invariant (tests/keys/test_one.py): the bytes and the key group are those of `encode_keys` and `key_groups`.
"""

import xxhash

from mixedmode.keys.hash import SPARK_SEED

__all__ = ["encode_integer", "encode_text", "key_group"]


def encode_integer(value: int, *, bits: int) -> bytes:
    """Return the key of a column of signed integers of so many bits.  Raises OverflowError for one beyond them."""
    return b"\x01" + (value + (1 << bits - 1)).to_bytes(bits // 8, "big")


def encode_text(value: str) -> bytes:
    """Return the key of a column of strings.  Raises UnicodeEncodeError for half of a pair of surrogates."""
    return b"\x01" + value.encode().replace(b"\x00", b"\x00\xff") + b"\x00\x00"


def key_group(key: bytes, *, max_parallelism: int) -> int:
    """Return the key group of an encoded key."""
    hashed: int = xxhash.xxh64_intdigest(key, seed=SPARK_SEED)
    return (hashed - (1 << 64) if hashed >> 63 else hashed) % max_parallelism
