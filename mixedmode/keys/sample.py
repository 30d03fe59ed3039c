"""A sample of rows by key: it has all rows of a key or none, so it shows how often keys repeat.

A key is in the sample if its hash begins with zeros. A random sample of rows is not enough: keys that
occur ten times in the input may hardly repeat in such a sample.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys.arrow import I64, U64
from mixedmode.keys.hash import xxhash64
from mixedmode.keys.rows import WORD_BYTES, binary_rows, first_words
from mixedmode.keys.values import payload_words, to_ordered, valid_mask

SAMPLED_KEYS = 64  # about one of this many keys is in the sample
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: Knuth's multiplicative hashing, which is one to one

_SHIFT = np.uint64(64 - (SAMPLED_KEYS - 1).bit_length())
_HALF = np.uint64(32)
_BLOCK_ROWS = 2**16  # the working arrays of a block stay in the cache


def sampled_rows(columns: Sequence[pa.Array]) -> I64:
    """Return the rows in the sample, ascending, of one or more key columns of length n.

    NULL is a value like any other. Rows with equal keys, in the sense of `group_codes`, are all in the sample or none.
    """
    found = [
        np.flatnonzero(hashed([c.slice(lo, _BLOCK_ROWS) for c in columns]) >> _SHIFT == 0) + lo
        for lo in range(0, len(columns[0]), _BLOCK_ROWS)
    ]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def hashed(columns: Sequence[pa.Array]) -> U64:
    """Return a hash (n,) of each row of key columns: equal for equal keys. Its high bits are the best mixed."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        for words in _words(column):
            hashes ^= hashes >> _HALF
            hashes ^= words
            hashes *= HASH_FACTOR
    return hashes


def _words(column: pa.Array) -> list[U64]:
    """Return words that distinguish most values, (n,) each, 0 for NULL."""
    if payload_words(column.type) is not None:
        words = [word.astype(np.uint64) for word in to_ordered(column)]
    else:
        words = [_word_of_text(pc.fill_null(column, "") if column.null_count else column)]
    valid = valid_mask(column)
    return words if valid is None else [np.where(valid, word, np.uint64(0)) for word in words]


def _word_of_text(column: pa.Array) -> U64:
    """Return (n,) words: the bytes of a short value plus its length, or the hash of a long value."""
    rows = binary_rows(column)
    lengths = rows.ends - rows.starts
    words = first_words(rows) + lengths.astype(np.uint64)
    is_long = lengths > WORD_BYTES
    if is_long.any():
        words[is_long] = xxhash64(column.filter(pa.array(is_long)))
    return words
