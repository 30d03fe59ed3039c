"""The order of keyed rows: (key group, key bytes, time), stable. Sorting a table, and checking that one is sorted.

Pack as many leading bits of (group, key, time) as fit beside the row number into one uint64,
and sort these numbers, which numpy does with SIMD. The row number makes the sort stable. Only rows that are still tied
are sorted again, by their next bits. A word is stored as its difference from the least word of its tied rows. So common
prefixes and repeated keys take no bits, and small ranges take few.

    Example: 4 rows need 2 bits for the row number, so 62 bits hold the leading differences. Keys 1000 to 1003 have the
    differences 0 to 3, which take 2 bits.

Invariants (tests/sort/test_order.py):
  I1  sort_table(t) is the stable sort of t by RowKey
  I2  check_sorted(t) does not raise  exactly when  sort_table(t) returns t as it is
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InternalError
from mixedmode.keys.arrow import I64, U64
from mixedmode.sort.columns import RowKey, Rows, SortColumns, Word, sort_columns

Bools = npt.NDArray[np.bool_]

_BLOCK_ROWS = 2**16


def sort_order(table: pa.Table) -> I64:
    """Return the stable permutation that sorts the rows of a table: (n,) int64. Requires n < 2**31."""
    columns = sort_columns(table)
    return _order_by_words(len(columns), columns.words())


def sort_table(table: pa.Table) -> pa.Table:
    """Return the rows in order, each column in one chunk. A table already in order is returned without a copy."""
    combined = table.combine_chunks()
    columns = sort_columns(combined)
    if find_unsorted(columns) is None:
        return combined
    return take_rows(combined, _order_by_words(len(columns), columns.words()))


def take_rows(table: pa.Table, rows: I64) -> pa.Table:
    """Return a copy of the rows of a table with these numbers, in this order."""
    taken: pa.Table = pc.take(table, pa.array(rows), boundscheck=False)
    return taken


def check_sorted(table: pa.Table) -> None:
    """Raise InternalError (report it), naming the first bad row, unless the table is sorted."""
    columns = sort_columns(table)
    row = find_unsorted(columns)
    if row is not None:
        msg = (
            "rows that must come sorted by (key group, key, time) do not, so merging them would lose the order without "
            f"a word. This is a defect in mixedmode: report it with this message. row={row}, "
            f"above={_show(columns.row_key(row - 1))}, here={_show(columns.row_key(row))}"
        )
        raise InternalError(msg)


def find_unsorted(columns: SortColumns, *, once_per_key: bool = False) -> int | None:
    """Return the first row that sorts before the row above it, or None.

    With `once_per_key`, time is ignored, and a row with the same key as the row above it is found, too.
    """
    for lo in range(1, len(columns), _BLOCK_ROWS):
        is_wrong = _is_below(columns, lo, min(lo + _BLOCK_ROWS, len(columns)), once_per_key=once_per_key)
        if is_wrong.any():
            return lo + int(is_wrong.argmax())
    return None


def _is_below(columns: SortColumns, lo: int, hi: int, *, once_per_key: bool) -> Bools:
    """Return (hi - lo,) True for the rows [lo, hi) that sort before the row above, as `find_unsorted` means it.

    Arrow compares keys byte by byte, without a copy.
    """
    groups, above, here = (
        columns.groups[lo - 1 : hi],
        columns.keys.slice(lo - 1, hi - lo),
        columns.keys.slice(lo, hi - lo),
    )
    if once_per_key:
        is_wrong = _bools(pc.less_equal(here, above))
    else:
        is_wrong = _bools(pc.less(here, above))
        if columns.times is not None:
            is_earlier = columns.times[lo:hi] < columns.times[lo - 1 : hi - 1]
            if is_earlier.any():
                is_wrong |= is_earlier & _bools(pc.equal(here, above))
    is_wrong &= groups[1:] == groups[:-1]
    is_wrong |= groups[1:] < groups[:-1]
    return is_wrong


def _bools(values: Any) -> Bools:
    found: Bools = values.to_numpy(zero_copy_only=False)
    return found


def _order_by_words(n: int, words: list[Word]) -> I64:
    assert n < 2**31, n
    if n < 2:
        return np.arange(n, dtype=np.int64)
    remaining = words.copy()
    order, slots, starts = _sort_once(slice(0, n), n, np.zeros(1, dtype=np.int64), remaining)
    while len(slots) and remaining:
        rows = order[slots]
        index, tied, starts = _sort_once(rows, len(rows), starts, remaining)
        order[slots] = rows[index]
        slots = slots[tied]
    return order


def _sort_once(rows: Rows, count: int, starts: I64, remaining: list[Word]) -> tuple[I64, I64, I64]:
    """Sort `count` tied rows, whose runs begin at `starts`, by as many bits as fit in a word.

    Return the row at each place, the places that are still tied, and the start of each run among the tied places.
    """
    index_bits = (count - 1).bit_length()
    if isinstance(rows, slice):
        packed = _pack_all(count, index_bits, remaining)
    else:
        packed = _pack(rows, count, starts, remaining)
        packed <<= np.uint64(index_bits)
        packed |= np.arange(count, dtype=np.uint64)
    packed.sort()
    index = packed & np.uint64((1 << index_bits) - 1)
    packed >>= np.uint64(index_bits)
    return index.view(np.int64), *_still_tied(packed)


def _pack_all(count: int, index_bits: int, remaining: list[Word]) -> U64:
    """Return leading bits of the words of all rows, which are one run, each followed by its row number.

    As _pack does, but block by block: the words of a block are read twice, and stay in the cache.
    """
    blocks = [slice(lo, min(lo + _BLOCK_ROWS, count)) for lo in range(0, count, _BLOCK_ROWS)]
    parts, used, room = list[tuple[Word, np.uint64, int, int]](), 0, 64 - index_bits
    while remaining and used < room:
        lowest, bits, unused = _bits_in_use(remaining[0], blocks)
        taken = min(bits, room - used)
        if taken:
            parts.append((remaining[0], lowest, unused + bits - taken, taken))
        used += taken
        if taken < bits:
            break
        del remaining[0]
    packed = np.empty(count, np.uint64)
    for block in blocks:
        out = packed[block]
        out.fill(0)
        for read, lowest, shift, taken in parts:
            word = read(block)
            word -= lowest
            word >>= np.uint64(shift)
            out <<= np.uint64(taken)
            out |= word
        out <<= np.uint64(index_bits)
        out |= np.arange(block.start, block.stop, dtype=np.uint64)
    return packed


def _bits_in_use(read: Word, blocks: Sequence[slice]) -> tuple[np.uint64, int, int]:
    """Return the least value of a word, and how many bits its differences from it have, without and of low zeros."""
    first = read(slice(0, 1))[0]
    lowest = highest = first
    differs = np.uint64(0)
    for block in blocks:
        word = read(block)
        lowest, highest = min(lowest, word.min()), max(highest, word.max())
        word ^= first  # has the low zeros of the difference
        differs |= np.bitwise_or.reduce(word)
    unused = (int(differs) & -int(differs)).bit_length() - 1 if differs else 0
    return lowest, int(highest - lowest).bit_length() - unused, unused


def _pack(rows: I64, count: int, starts: I64, remaining: list[Word]) -> U64:
    """Return the run of each row, followed by leading bits of its remaining words, with room for a row number.

    Words that are packed completely are removed from `remaining`. A partly packed word stays: rows that remain tied
    agree in the used bits, so next time their differences are smaller by as many bits.
    """
    runs = len(starts)
    lengths = np.diff(starts, append=count)
    packed = np.repeat(np.arange(runs, dtype=np.uint64), lengths)
    room = 64 - (count - 1).bit_length() - (runs - 1).bit_length()
    used = 0
    while remaining and used < room:
        word = remaining[0](rows)
        lowest = np.minimum.reduceat(word, starts)
        word -= lowest[0] if runs == 1 else np.repeat(lowest, lengths)
        in_use = int(np.bitwise_or.reduce(word))
        unused = (in_use & -in_use).bit_length() - 1 if in_use else 0  # low bits that are 0 in every row: padding
        bits = in_use.bit_length() - unused
        taken = min(bits, room - used)
        if taken:
            word >>= np.uint64(unused + bits - taken)
            packed <<= np.uint64(taken)
            packed |= word
        used += taken
        if taken < bits:
            break
        del remaining[0]
    return packed


def _still_tied(values: U64) -> tuple[I64, I64]:
    """Return the places of sorted values that equal a neighbour, and the start of each run among these places.

    Example: of the values 1, 2, 2, 3, 3, 3 the places 1 to 5 are tied, and runs start at 0 and 2 of these.
    """
    same = np.empty(len(values) + 1, dtype=np.bool_)  # same[i]: value i equals value i - 1
    same[0] = same[-1] = False
    np.equal(values[1:], values[:-1], out=same[1:-1])
    tied = same[1:] | same[:-1]
    return np.flatnonzero(tied), np.flatnonzero(~same[:-1][tied])


def _show(key: RowKey) -> str:
    return f"(key_group {key.key_group}, key {key.key.hex()}, time {key.time})"
