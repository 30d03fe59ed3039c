"""Dense group numbers for rows that share the same key, in order of first appearance.

Number the values of each column, then number the pairs (group so far, number in the next column) as one
integer. After each column the numbers are dense again, and so below 2**31. So no product of two numbers overflows.

    Example: the columns (x, y, x) and (1, 1, 2) have the numbers 0, 1, 0 and 0, 0, 1. With 2 numbers in the second
    column, the pairs are 0 * 2 + 0, 1 * 2 + 0, 0 * 2 + 1, that is 0, 2, 1. The dense groups are 0, 1, 2.

One of equal integers in a row is numbered. Integers of a small range are numbered with a table, which is several times
faster than a hash table. For other integers, a sample estimates the number of distinct values. If it is large, the
values are sorted by their hash, because Arrow's hash table would take hundreds of bytes per value while it grows.
Strings of at most 8 bytes are numbered as integers of the same bytes.

Invariants (tests/keys/test_grouping.py):
  I1  codes[i] == codes[j]  exactly when  rows i and j are equal in all columns (NULL == NULL, NaN == NaN, -0.0 == 0.0)
  I2  codes are 0, 1, 2, ... in order of first appearance, and first_row[c] is the first row with code c
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys.arrow import I64, U64, AnyNumpy, Bools
from mixedmode.keys.rows import WORD_BYTES, BinaryRows, binary_rows, first_words
from mixedmode.keys.sample import HASH_FACTOR, SAMPLED_KEYS, sampled_rows
from mixedmode.keys.values import integers_of, to_ordered, valid_mask

_ROWS_PER_RUN = 4  # with shorter runs of equal values, repeating their numbers takes as long as numbering the rows

_TABLE_SPAN_PER_ROW = 2  # beyond this the table is mostly empty, and a hash table is smaller and as fast

_HASHED_VALUES_MAX = 2**16  # with more distinct values, a hash table exceeds a CPU's cache, and finally the memory

_BLOCK_ROWS = 2**16  # the working arrays of a block stay in the cache

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of each row. `len(first_row)` is the number of groups."""

    codes: Codes  #: (n,) int32, dense, in order of first appearance
    first_row: I64  #: (groups,) int64, strictly increasing: the first row of each group


def group_codes(columns: Sequence[pa.Array]) -> Groups:
    """Group n rows by one or more columns of length n. NULL is a value like any other. Requires n < 2**31."""
    assert columns, "group_codes needs at least one column"
    assert len(columns[0]) < 2**31, len(columns[0])
    groups = _number_column(columns[0])
    for column in columns[1:]:
        groups = paired_groups(groups, _number_column(column))
    return groups


def paired_groups(groups: Groups, other: Groups) -> Groups:
    """Group rows (n,) that have a group of two kinds by the pair of both."""
    assert len(other.codes) == len(groups.codes), (len(other.codes), len(groups.codes))
    if len(groups.first_row) == 1:
        return other
    if len(other.first_row) == 1:
        return groups
    return _number_integers(groups.codes.astype(np.int64) * len(other.first_row) + other.codes)


def distinct_part(columns: Sequence[pa.Array]) -> float:
    """Return an estimate of the distinct keys per row, in (0, 1], from a sample; 0 if the sample is empty.

    Per row of the input, and not of the sample: a key with many rows is mostly outside the sample, or is most of it.
    """
    rows = pa.array(sampled_rows(columns))
    if len(rows) == 0:
        return 0.0
    distinct = len(group_codes([column.take(rows) for column in columns]).first_row)
    return min(1.0, distinct * SAMPLED_KEYS / len(columns[0]))


def distinct_max(columns: Sequence[pa.Array]) -> int:
    """Return an upper bound of the number of distinct keys: of one column of integers, the length of their range.

    It takes a fraction of the time of `distinct_part`. Without such a column, it is the number of rows.
    """
    values = integers_of(columns[0]) if len(columns) == 1 and len(columns[0]) else None
    return len(columns[0]) if values is None else min(len(values), int(values.max()) - int(values.min()) + 1)


def _number_column(column: pa.Array) -> Groups:
    if pa.types.is_floating(column.type):
        bits = _normalised_bits(column)
        valid = valid_mask(column)
        return _number_integers(bits) if valid is None else _number_by_hash(pa.array(bits, mask=~valid))
    integers = integers_of(column)
    if integers is not None:
        return _number_integers(integers)
    words = _words(column) if column.null_count == 0 and _has_bytes(column.type) else None
    return _number_by_hash(column) if words is None else _number_integers(words.view(np.int64))


def _normalised_bits(column: pa.Array) -> AnyNumpy:
    """Return (n,) integers of a floating type's width: equal for equal values, for any NaN, and for -0.0 and 0.0."""
    bits = np.empty(len(column), f"i{column.type.bit_width // 8}")
    for lo in range(0, len(column), _BLOCK_ROWS):
        bits[lo : lo + _BLOCK_ROWS] = to_ordered(column.slice(lo, _BLOCK_ROWS))[0].view(bits.dtype)
    return bits


def _has_bytes(type_: pa.DataType) -> bool:
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(check(type_) for check in checks)


def _words(column: pa.Array) -> U64 | None:
    """Return (n,) the bytes of each value as one integer, padded with zeros.

    Return None if that would not distinguish the values: one has more than 8 bytes, or contains a zero byte.
    """
    words = np.empty(len(column), np.uint64)
    for lo in range(0, len(column), _BLOCK_ROWS):
        part = _words_of(binary_rows(column.slice(lo, _BLOCK_ROWS)))
        if part is None:
            return None
        words[lo : lo + _BLOCK_ROWS] = part
    return words


def _words_of(rows: BinaryRows) -> U64 | None:
    lengths = rows.ends - rows.starts
    if lengths.max() > WORD_BYTES or not rows.data[int(rows.starts[0]) :].all():
        return None
    return first_words(rows)


def _number_integers(values: AnyNumpy) -> Groups:
    if len(values) == 0:
        return Groups(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64))
    starts = _starts_of_runs(values)
    if starts is not None:
        runs = _number_integers(values[starts])
        return Groups(np.repeat(runs.codes, np.diff(starts, append=len(values))), starts[runs.first_row])
    low, high = int(values.min()), int(values.max())
    if high - low < _TABLE_SPAN_PER_ROW * len(values):
        return _number_by_table(values.astype(np.int64, copy=False) - low, high - low + 1)
    column = pa.array(values)
    if len(values) > _HASHED_VALUES_MAX:
        sample = np.unique(values[sampled_rows([column])])
        if len(sample) * SAMPLED_KEYS > _HASHED_VALUES_MAX:
            return _number_by_sort(values)
    return _number_by_hash(column)


def _starts_of_runs(values: AnyNumpy) -> I64 | None:
    """Return the first row of each run of equal values; None if runs are short, first among the first rows alone."""
    for part in (values[:_BLOCK_ROWS], values):
        is_new = part[1:] != part[:-1]
        if (np.count_nonzero(is_new) + 1) * _ROWS_PER_RUN > len(part):
            return None
    return np.append(np.zeros(1, np.int64), np.flatnonzero(is_new) + 1)


def _number_by_table(values: I64, span: int) -> Groups:
    """Number values in [0, span) with tables indexed by value."""
    n = len(values)
    first = np.full(span, n, dtype=np.int32)
    first[values[::-1]] = np.arange(n - 1, -1, -1, dtype=np.int32)  # the last assignment wins: the smallest row
    is_first = np.zeros(n, dtype=np.bool_)
    is_first[first[first < n]] = True
    first_row = np.flatnonzero(is_first)
    number = first  # reused: every value in use is overwritten by its number
    number[values[first_row]] = np.arange(len(first_row), dtype=np.int32)
    return Groups(number[values], first_row)


def _number_by_sort(values: AnyNumpy) -> Groups:
    """Number values by sorting words of hash and row number: equal values become neighbours, in the order of rows.

    This takes about 20 bytes per row, because neighbours are compared block by block.
    """
    n = len(values)
    row_mask = np.uint64((1 << (n - 1).bit_length()) - 1)
    words = values.astype(np.int64, copy=False).view(np.uint64) * HASH_FACTOR  # its high bits are the best mixed
    words &= ~row_mask
    for lo in range(0, n, _BLOCK_ROWS):
        words[lo : lo + _BLOCK_ROWS] |= np.arange(lo, min(lo + _BLOCK_ROWS, n), dtype=np.uint64)
    words.sort()
    is_hash_new = np.ones(n, np.bool_)
    for lo in range(1, n, _BLOCK_ROWS):
        above, here = words[lo - 1 : lo - 1 + _BLOCK_ROWS][: n - lo], words[lo : lo + _BLOCK_ROWS]
        is_hash_new[lo : lo + _BLOCK_ROWS] = (above ^ here) > row_mask
    words &= row_mask
    order = words.view(np.int64)
    starts = np.flatnonzero(_set_apart(order, is_hash_new, values))
    first_of_value = order[starts]
    is_first = np.zeros(n, np.bool_)
    is_first[first_of_value] = True
    number_of_value = np.cumsum(is_first, dtype=np.int32)[first_of_value] - 1
    codes = np.empty(n, np.int32)
    codes[order] = np.repeat(number_of_value, np.diff(starts, append=n))
    return Groups(codes, np.flatnonzero(is_first))


def _set_apart(order: I64, is_hash_new: Bools, values: AnyNumpy) -> Bools:
    """Return (n,) booleans: True where a place has another value than the place before it.

    order: (n,) the row at each place, ascending where hashes are equal. Where different values have equal hashes,
    `order` is changed so that rows with equal values become neighbours. is_hash_new: (n,) True where a place has
    another hash than the place before it.
    """
    n = len(values)
    is_new = np.ones(n, np.bool_)
    for lo in range(1, n, _BLOCK_ROWS):
        ordered = values[order[lo - 1 : lo + _BLOCK_ROWS]]
        is_new[lo : lo + _BLOCK_ROWS] = ordered[1:] != ordered[:-1]
    clashes = np.flatnonzero(is_new & ~is_hash_new)
    if len(clashes):  # few: a hash has all bits of a word except those of the row number
        bounds = np.append(np.flatnonzero(is_hash_new), n)
        for run in np.unique(np.searchsorted(bounds, clashes, "right")).tolist():
            places = slice(int(bounds[run - 1]), int(bounds[run]))
            ordered = values[order[places]]
            by_value = np.argsort(ordered, kind="stable")
            order[places] = order[places][by_value]
            is_new[places][1:] = ordered[by_value][1:] != ordered[by_value][:-1]
    return is_new


def _number_by_hash(values: pa.Array) -> Groups:
    encoded = pc.dictionary_encode(values, null_encoding="encode")
    codes: Codes = encoded.indices.to_numpy()
    highest = np.maximum.accumulate(codes)  # Arrow numbers by first appearance, so a new number is a new maximum
    later = np.flatnonzero(highest[1:] != highest[:-1]) + 1
    return Groups(codes, np.append(np.zeros(min(1, len(codes)), dtype=np.int64), later))
