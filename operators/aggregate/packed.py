"""Lists of values, one per group, packed into the large_binary columns of a register: distinct sets, collected values.

A column of packed lists and the concatenated values of its lists share the same memory. So packing and unpacking are
views. Lists are processed as flat columns, by sorting, for all groups at once.

Layout of one group's list:

    int64 values   one column:  8 bytes each, little-endian
    bytes          two columns: the length of each value, u32 little-endian; the bytes of all values

An empty list is empty bytes, never NULL. The layout belongs to the version of the state value that holds it
(mixedmode/state/codec.py). Golden bytes in tests/operators/test_packed.py pin the layout.

Invariants (tests/operators/test_packed.py):
  I1  unpack(pack(lists), kind) has the same counts and values
  I2  distinct_by and earliest_by return lists that do not depend on the order of the rows
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.operators.aggregate.reduce import Grouping, bytes_of_ranks, rank_bytes
from mixedmode.operators.aggregate.values import Bools, Int64s, Values

_INT64_BYTES = 8
_LENGTH = np.dtype("<u4")
_Number = TypeVar("_Number", bound=np.integer[Any])


@dataclass(frozen=True, slots=True)
class Lists:
    """The number of values of each group (g,), and the concatenated values (counts.sum(),); no value is NULL."""

    counts: Int64s
    values: Values

    @property
    def owners(self) -> Int64s:
        """Return the group of each value: (counts.sum(),) int64."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def where(self, values: Bools) -> "Lists":
        """Return the lists with only the values where `values` (counts.sum(),) is True."""
        counts = np.bincount(self.owners[values], minlength=len(self.counts))
        return Lists(counts, self.values.take(np.flatnonzero(values)))


def packed_fields(kind: pa.DataType) -> tuple[pa.DataType, ...]:
    """Return the column types of packed lists of int64 or large_binary values."""
    return (pa.large_binary(),) * (2 if pa.types.is_large_binary(kind) else 1)


def pack(lists: Lists) -> tuple[Values, ...]:
    """Pack one list per group: return the columns of `packed_fields`, (g,) each."""
    ends = _borders(lists.counts)
    data = lists.values.data
    if isinstance(data, np.ndarray):
        return (Values(_binary(ends * _INT64_BYTES, data.astype("<i8", copy=False))),)
    offsets, held = _offsets(data), data.buffers()[2]
    lengths = np.diff(offsets).astype(_LENGTH)
    column = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(lists.counts), [None, pa.py_buffer(offsets[ends]), held or pa.py_buffer(b"")]
    )
    return Values(_binary(ends * _LENGTH.itemsize, lengths)), Values(column)


def unpack(parts: Sequence[Values]) -> Lists:
    """Return the lists of packed columns: the inverse of `pack`."""
    if len(parts) == 1:
        numbers = _content(parts[0], np.dtype("<i8"))
        return Lists(list_counts(parts), Values(numbers.astype(np.int64, copy=False)))
    lengths, data = _content(parts[0], _LENGTH), _content(parts[1], np.dtype(np.uint8))
    column = _binary(_borders(lengths), data)
    assert len(data) == lengths.sum(dtype=np.int64), "the lengths of packed values add up to their bytes"
    return Lists(list_counts(parts), Values(column))


def list_counts(parts: Sequence[Values]) -> Int64s:
    """Return the number of values of each packed list, (g,) int64, without unpacking."""
    assert isinstance(parts[0].data, pa.Array), "packed lists are binary"
    width = _INT64_BYTES if len(parts) == 1 else _LENGTH.itemsize
    counts: Int64s = np.diff(_offsets(parts[0].data)) // width
    return counts


def distinct_by(grouping: Grouping, values: Values) -> Lists:
    """Return the distinct values of each group in ascending order. NULLs and weights are ignored."""
    grouping, numbers, dictionary = _numbered(grouping, values)
    codes, numbers = _sorted_pairs(grouping, numbers)
    first = _starts(codes) | _starts(numbers)
    counts = np.bincount(codes[first], minlength=grouping.size)
    return Lists(counts, _restored(numbers[first], dictionary))


def sorted_by(grouping: Grouping, numbers: Int64s) -> Lists:
    """Return the numbers of each group in ascending order. Weights are ignored."""
    codes, ascending = _sorted_pairs(grouping, numbers)
    return Lists(np.bincount(codes, minlength=grouping.size), Values(ascending))


def counted_by(grouping: Grouping, numbers: Int64s) -> tuple[Lists, Int64s]:
    """Return the distinct numbers of each group in ascending order, and the total weight of each number's rows.

    Numbers with total weight 0 are left out. For one group with the numbers 5, 3, 5, 3 and the weights 1, 1, 1, -1, the
    result is [5] with weight 2.
    """
    if grouping.weights is None:
        codes, ascending = _sorted_pairs(grouping, numbers)
    else:
        order = order_by(grouping, [numbers])
        codes, ascending = grouping.codes[order].astype(np.int64, copy=False), numbers[order]
    first = np.flatnonzero(_starts(codes) | _starts(ascending))
    if grouping.weights is None:
        rows = np.diff(first, append=len(codes))
    else:
        rows = np.add.reduceat(grouping.weights[order], first) if len(first) else np.empty(0, np.int64)
        kept = rows != 0
        first, rows = first[kept], rows[kept]
    return Lists(np.bincount(codes[first], minlength=grouping.size), Values(ascending[first])), rows


def occurrences_by(grouping: Grouping, values: Values) -> tuple[Lists, Int64s]:
    """Do the same as `counted_by` for values of both forms. NULLs are ignored."""
    grouping, numbers, dictionary = _numbered(grouping, values)
    lists, rows = counted_by(grouping, numbers)
    return Lists(lists.counts, _restored(lists.values.integers, dictionary)), rows


def earliest_by(grouping: Grouping, times: Int64s, values: Values, limit: int) -> tuple[Lists, Int64s]:
    """Return the first `limit` values of each group by (time, value), and the times (m,) of the kept values.

    NULLs are ignored. A row with weight w counts as w equal rows.
    """
    if values.valid is not None:
        times = times[values.valid]
    grouping, numbers, dictionary = _numbered(grouping, values)
    order = order_by(grouping, [times, numbers])
    if grouping.weights is not None:  # at most `limit` copies of a row are ever kept
        order = np.repeat(order, np.minimum(grouping.weights[order], limit))
    codes = grouping.codes[order]
    kept = order[positions(codes, grouping.size) < limit]
    counts = np.bincount(grouping.codes[kept], minlength=grouping.size)
    return Lists(counts, _restored(numbers[kept], dictionary)), times[kept]


def positions(codes: npt.NDArray[np.integer[Any]], size: int) -> Int64s:
    """Return the 0-based rank of each row within its group, (n,) int64, for ascending `codes` (n,)."""
    starts = _borders(np.bincount(codes, minlength=size))
    place: Int64s = np.arange(len(codes)) - starts[codes]
    return place


def order_by(grouping: Grouping, columns: Sequence[Int64s]) -> npt.NDArray[np.intp]:
    """Return the order (n,) of the rows by group, then by each column. The order of equal rows is undefined.

    Neighbouring columns are combined into one integer if their ranges fit into 63 bits. One sort of integers is several
    times faster than a sort by two columns.
    """
    keys = [_Ranged(grouping.codes.astype(np.int64, copy=False), 0, max(grouping.size, 1))]
    for column in map(_ranged, columns):
        last = keys[-1]
        if last.span * column.span < 2**63:
            folded = last.data if last.low == 0 else last.data - last.low
            keys[-1] = _Ranged(folded * column.span + (column.data - column.low), 0, last.span * column.span)
        else:
            keys.append(column)
    if len(keys) == 1:
        return np.argsort(keys[0].data)
    found = _order_by_prefix(*keys) if len(keys) == 2 else None
    return np.lexsort([key.data for key in reversed(keys)]) if found is None else found


@dataclass(frozen=True, slots=True)
class _Ranged:
    """Integers `data` in [low, low + span)."""

    data: Int64s
    low: int
    span: int


def _order_by_prefix(first: _Ranged, second: _Ranged) -> npt.NDArray[np.intp] | None:
    """Return the order by `first`, whose `low` is 0, and by as many leading bits of `second` as fit into 63 bits.

    Return None if this differs from the order by all bits. Doubles and hashes rarely differ only in their last bits.
    """
    bits = 62 - first.span.bit_length()
    shift = second.span.bit_length() - bits
    if bits < 8:
        return None
    leading = (second.data >> shift) - (second.low >> shift)  # at most 2**bits
    folded = first.data * (2**bits + 1) + leading
    order = np.argsort(folded)
    before, after = order[:-1], order[1:]
    is_off = (folded[before] == folded[after]) & (second.data[before] > second.data[after])
    return None if is_off.any() else order


def _ranged(data: Int64s) -> _Ranged:
    if len(data) == 0:
        return _Ranged(data, 0, 1)
    low = int(data.min())
    return _Ranged(data, low, int(data.max()) - low + 1)


def _sorted_pairs(grouping: Grouping, numbers: Int64s) -> tuple[Int64s, Int64s]:
    """Return group and number of each row, sorted by both."""
    codes, ranged = grouping.codes.astype(np.int64, copy=False), _ranged(numbers)
    if ranged.span * max(grouping.size, 1) < 2**63:  # as in order_by, but the sorted integers contain the data
        folded = np.sort(codes * ranged.span + (numbers - ranged.low))
        owners = folded // ranged.span
        return owners, folded - owners * ranged.span + ranged.low
    order = order_by(grouping, [numbers])
    return codes[order], numbers[order]


def _starts(ascending: Int64s) -> Bools:
    """Return (n,) bool: True where a value differs from the previous value."""
    first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return first


def _numbered(grouping: Grouping, values: Values) -> tuple[Grouping, Int64s, pa.LargeBinaryArray | None]:
    """Return the non-NULL rows: groups, integers that sort like the values, and the dictionary of these integers."""
    rows = grouping.where(values.valid)
    if values.valid is not None:
        values = Values(values.take(np.flatnonzero(values.valid)).data)
    if isinstance(values.data, np.ndarray):
        return rows, values.integers, None
    ranks, dictionary = rank_bytes(values.data)
    return rows, ranks, dictionary


def _restored(numbers: Int64s, dictionary: pa.LargeBinaryArray | None) -> Values:
    return Values(numbers) if dictionary is None else bytes_of_ranks(Values(numbers), dictionary)


def _borders(counts: npt.NDArray[np.integer[Any]]) -> Int64s:
    """Return the start of each list and the end of the last list: (g + 1,) int64."""
    borders = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=borders[1:])
    return borders


def _binary(offsets: Int64s, data: npt.NDArray[np.generic]) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _offsets(column: pa.LargeBinaryArray) -> Int64s:
    if len(column) == 0:  # Arrow may omit the buffers of an empty column
        return np.zeros(1, np.int64)
    return np.frombuffer(column.buffers()[1], np.int64, count=len(column) + 1 + column.offset)[column.offset :]


def _content(part: Values, dtype: np.dtype[_Number]) -> npt.NDArray[_Number]:
    """Return the bytes of all values of a binary column as one array."""
    assert isinstance(part.data, pa.Array), "packed lists are binary"
    offsets = _offsets(part.data)
    first, last = int(offsets[0]), int(offsets[-1])
    if first == last:
        return np.empty(0, dtype)
    return np.frombuffer(part.data.buffers()[2], np.uint8)[first:last].view(dtype)
