"""The sort columns of a table, viewed as unsigned 64-bit words, and the columns' names.

A sorted table has the columns `_key_group` (uint16), `_key` (fixed_size_binary or large_binary), optionally `_time`
(int64, event time in microseconds), then payload columns of any type. None of the three holds NULL.

(key group, key, time) is a sequence of words, which are compared one after the other. A word is computed
only for the rows whose order still depends on it, so most words are never read.

    Example: the key b"abcdefghij" has the words b"abcdefgh" and b"ij" + six zero bytes, then its length 10.

Invariant (tests/sort/test_order.py): comparing two rows word by word yields the order of their `RowKey`s.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys.arrow import I64, U8, U16, U64
from mixedmode.keys.rows import BinaryRows, binary_rows, read_at

KEY_GROUP = "_key_group"
KEY = "_key"
TIME = "_time"

#: Row numbers (m,) int64, or a slice of m > 0 neighbours with both of its ends.
Rows = I64 | slice

#: rows -> (m,) uint64: a new array, which the caller may change. Comparable are words of the same call, and of slices.
Word = Callable[[Rows], U64]

_BLOCK_ROWS = 2**16  # working arrays of a block stay in the cache, and hardly add to the peak memory
_WORDS_MAX = 16  # rows that are equal after this many words have long keys: comparing whole keys is cheaper
_SIGN = np.uint64(2**63)


class RowKey(NamedTuple):
    """The sort key of a row; tuple order is the order of rows. `time` is 0 in a table without `_time`."""

    key_group: int
    key: bytes
    time: int


@dataclass(frozen=True, slots=True)
class SortColumns:
    """The sort columns of one table; columns of one chunk are not copied."""

    groups: U16  #: (n,)
    keys: pa.Array  #: (n,) the `_key` column as one Arrow array
    key_rows: BinaryRows  #: (n,) the bytes of `keys`
    times: I64 | None  #: (n,), or None in a table without `_time`

    def __len__(self) -> int:
        return len(self.groups)

    def row_key(self, row: int) -> RowKey:
        """Return key group, key and time of one row."""
        time = 0 if self.times is None else int(self.times[row])
        return RowKey(int(self.groups[row]), self.key_rows.row(row), time)

    def words(self) -> list[Word]:
        """Return the words of a row, most significant first: group, key in steps of 8 bytes, its length, time."""
        lengths = self.key_rows.ends - self.key_rows.starts
        longest = int(lengths.max()) if len(lengths) else 0
        count = -(-longest // 8)
        words: list[Word] = [self._group_word]
        words += [self._key_word(word) for word in range(min(count, _WORDS_MAX))]
        if count > _WORDS_MAX:
            words.append(self._rank_word())
        elif len(lengths) and int(lengths.min()) < longest:
            words.append(lambda rows: lengths[rows].astype(np.uint64))  # b"a" and b"a\0" have equal padded words
        if self.times is not None:
            words.append(self._time_word)
        return words

    def _group_word(self, rows: Rows) -> U64:
        return self.groups[rows].astype(np.uint64)

    def _time_word(self, rows: Rows) -> U64:
        assert self.times is not None
        return self.times[rows].view(np.uint64) ^ _SIGN

    def _key_word(self, word: int) -> Word:
        """Return word number `word` of the keys; a partial word is padded with zeros at its end."""
        width = self.keys.type.byte_width if pa.types.is_fixed_size_binary(self.keys.type) else 0
        padded = self.key_rows.data
        if len(padded) < 8:
            padded = np.append(padded, np.zeros(8, dtype=np.uint8))

        def read(rows: Rows) -> U64:
            if isinstance(rows, slice):
                if width >= 8:
                    return self._strided_word(word, width, rows)
                rows = np.arange(rows.start, rows.stop)
            out = np.empty(len(rows), dtype=np.uint64)
            for lo in range(0, len(rows), _BLOCK_ROWS):
                part = rows[lo : lo + _BLOCK_ROWS]
                starts = self.key_rows.starts[part] + word * 8
                out[lo : lo + _BLOCK_ROWS] = _zero_padded(padded, starts, self.key_rows.ends[part])
            return out

        return read

    def _strided_word(self, word: int, width: int, rows: slice) -> U64:
        """As `_key_word`, for neighbouring keys of `width` bytes, which are read with a stride, without an index."""
        lacking = max(0, 8 * (word + 1) - width)
        first = int(self.key_rows.starts[rows.start]) + 8 * word - lacking
        shape, strides = (rows.stop - rows.start,), (width,)
        view: npt.NDArray[Any] = np.ndarray(shape, ">u8", self.key_rows.data, offset=first, strides=strides)
        words = view.astype(np.uint64)
        words <<= np.uint64(8 * lacking)
        return words

    def _rank_word(self) -> Word:
        """Return the word of keys too long to compare by words: their rank among all keys, or among those of rows."""
        ranks: list[U64] = []

        def read(rows: Rows) -> U64:
            if not isinstance(rows, slice):
                return self._ranks(rows)
            if not ranks:
                ranks.append(self._ranks(np.arange(len(self))))
            return ranks[0][rows].copy()

        return read

    def _ranks(self, rows: I64) -> U64:
        """Return the rank of each row's key among the keys of `rows`."""
        encoded = pc.dictionary_encode(pc.take(self.keys, pa.array(rows)))
        order = pc.sort_indices(encoded.dictionary.cast(pa.large_binary())).to_numpy()
        rank = np.empty(len(order), dtype=np.uint64)
        rank[order] = np.arange(len(order), dtype=np.uint64)
        codes: I64 = encoded.indices.to_numpy()
        return rank[codes]


def sort_columns(table: pa.Table) -> SortColumns:
    """View the sort columns of a table; assert that they exist, have the right types, and hold no NULL."""
    groups, keys = _one_chunk(table, KEY_GROUP), _one_chunk(table, KEY)
    times = _one_chunk(table, TIME) if TIME in table.column_names else None
    assert groups.type == pa.uint16(), groups.type
    assert pa.types.is_fixed_size_binary(keys.type) or pa.types.is_large_binary(keys.type), keys.type
    assert times is None or times.type == pa.int64(), times
    nulls = groups.null_count + keys.null_count + (0 if times is None else times.null_count)
    assert nulls == 0, (groups.null_count, keys.null_count, nulls)
    return SortColumns(groups.to_numpy(), keys, binary_rows(keys), None if times is None else times.to_numpy())


def _one_chunk(table: pa.Table, name: str) -> pa.Array:
    column: Any = table.column(name)
    combined: pa.Array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return combined


def _zero_padded(data: U8, starts: I64, ends: I64) -> U64:
    """Return the 8 bytes from each start as a big-endian number; bytes at or after the row's end count as 0."""
    last = len(data) - 8  # a word that would leave the buffer is read earlier and shifted
    at = np.minimum(starts, last)
    value: U64 = read_at(data, ">u8", at).astype(np.uint64)
    lengths = ends - starts
    if int(lengths.min()) >= 8:
        return value
    value <<= ((np.minimum(starts - at, 7)) * 8).astype(np.uint64)
    excess = 8 - np.clip(lengths, 0, 8)
    shift = (np.minimum(excess, 7) * 8).astype(np.uint64)
    value = (value >> shift) << shift
    value[excess == 8] = 0
    return value
