"""The rows of one side that wait for the watermark, in the state.

    stored key = key group | state id | time | packed row (key, columns of the side), value = number of such rows

The writer of such a state is TimesWriter (operators/deduplicate/times.py).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from mixedmode.keys.rows import cut
from mixedmode.operators.aggregate.values import Int64s
from mixedmode.operators.deduplicate.times import TimesWriter
from mixedmode.operators.interface import SubtaskContext
from mixedmode.operators.join.counts import counts_of, values_of
from mixedmode.operators.join.layout import JoinLayout
from mixedmode.operators.row_columns import decoded_rows, row_pieces
from mixedmode.operators.top.rows import joined_with_lengths, keys_of, parts_of, without_prefix
from mixedmode.operators.window.keys import TIME_BYTES, encoded_times, joined, leading_times
from mixedmode.operators.window.stored import stored_in
from mixedmode.sort import sort_table
from mixedmode.state.keys import PREFIX_BYTES

__all__ = ["WaitingRows", "WaitingWriter", "waiting_entries", "waiting_rows", "waiting_tables"]


def waiting_tables(layout: JoinLayout, side: int, state_id: int, context: SubtaskContext) -> Iterator[pa.Table]:
    """Yield the rows of a side that the watermark passes in this epoch, as sorted tables for the sorter."""
    for found in stored_in(context, state_id, [context.time.passed_us]):
        rows = waiting_rows(layout, side, found.keys, found.values)
        groups = found.groups()[rows.entries]
        yield sort_table(layout.table_of_side(groups, rows.keys, rows.times_us, side, rows.columns))


@dataclass(frozen=True, slots=True)
class WaitingRows:
    """Rows of a side (n,): the stored entry of each row, its encoded key, its time and its columns."""

    entries: npt.NDArray[np.int64]
    keys: pa.LargeBinaryArray
    times_us: Int64s
    columns: list[pa.Array]


def waiting_rows(layout: JoinLayout, side: int, keys: Sequence[bytes], values: Sequence[bytes]) -> WaitingRows:
    """Return the rows in stored entries; equal rows are one entry."""
    counts = counts_of(values)
    entries = np.repeat(np.arange(len(counts)), counts)
    times_us = leading_times(without_prefix(keys, PREFIX_BYTES))
    packed = without_prefix(keys, PREFIX_BYTES + TIME_BYTES)
    parts = parts_of(packed)
    columns = decoded_rows(cut(parts.data, parts.order_ends, parts.row_ends), layout.sides[side])
    taken = pa.array(entries)
    return WaitingRows(
        entries, keys_of(packed).take(taken), times_us[entries], [column.take(taken) for column in columns]
    )


class WaitingWriter(TimesWriter):
    """Deletes the rows of a side that are due, (after, up to], in each key group that is seen; writes new ones.

    An entry is a row; equal rows are one entry with their number.
    """

    @override
    def _entries(self, new: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        if not new:  # as in most key groups of a live epoch
            return [], []
        rows = Counter(new)
        keys = sorted(rows)
        known = self._backend.read(self._state_id, keys)
        counts = np.fromiter((rows[key] for key in keys), np.int64, len(keys))
        stored = np.flatnonzero([value is not None for value in known])
        counts[stored] += counts_of([value for value in known if value is not None])
        return keys, list(values_of(counts))


def waiting_entries(
    layout: JoinLayout, side: int, times_us: Int64s, keys: pa.Array, columns: Sequence[pa.Array]
) -> pa.Array:
    """Return the entries (n,) of rows of a side: their time, encoded key and columns."""
    fields = layout.sides[side]
    return joined(encoded_times(times_us), joined_with_lengths(keys, [], row_pieces(columns, fields)))
