"""The rows of one side that wait for the watermark, in the state.

    stored key = key group | state id | time | packed row (key, columns of the side), value = number of such rows

An operator goes through its keys in key order, and a stored key begins with the time. So the rows of a key group are
written when the next group begins: first the deletions of what was due, whose times are before the watermark, then the
new rows, whose times are not.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.operators.aggregate.values import Int64s
from mixedmode.operators.interface import SubtaskContext
from mixedmode.operators.join.layout import JoinLayout
from mixedmode.operators.top.rows import (
    cut,
    decoded_rows,
    encoded_rows,
    joined_with_lengths,
    keys_of,
    parts_of,
    without_prefix,
)
from mixedmode.operators.window.keys import TIME_BYTES, encoded_times, joined, leading_times, time_range
from mixedmode.operators.window.stored import stored_in
from mixedmode.sort import sort_table
from mixedmode.state import KeyedStateBackend, RowCodec, StateDescriptor
from mixedmode.state.keys import PREFIX_BYTES, stored_keys
from mixedmode.time import EpochTime, shifted_us

__all__ = ["WaitingRows", "WaitingWriter", "passed", "waiting_rows", "waiting_state", "waiting_tables"]

_COUNT = (pa.field("rows", pa.int64()),)
_CODEC = RowCodec(_COUNT)
_GROUP_BYTES = 2


def waiting_state(state_id: int, name: str) -> StateDescriptor:
    """Return the state of the rows of a side that wait."""
    return StateDescriptor(state_id, name, _COUNT)


def passed(time: EpochTime) -> tuple[int, int]:
    """Return (after, up to] of the times that the watermark passes in this epoch: the times below it."""
    return shifted_us(time.late_us, -1), shifted_us(time.firing_us, -1)


def waiting_tables(
    layout: JoinLayout, side: int, state_id: int, bounds: tuple[int, int], context: SubtaskContext
) -> Iterator[pa.Table]:
    """Yield the rows of a side whose time is in (after, up to], as sorted tables for the sorter."""
    for found in stored_in(context, state_id, [bounds] if bounds[0] < bounds[1] else []):
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
    counts = _CODEC.unpack(values)[0].to_numpy()
    entries = np.repeat(np.arange(len(counts)), counts)
    times_us = leading_times(without_prefix(keys, PREFIX_BYTES))
    packed = without_prefix(keys, PREFIX_BYTES + TIME_BYTES)
    parts = parts_of(packed)
    columns = decoded_rows(cut(parts.data, parts.order_ends, parts.row_ends), layout.sides[side])
    taken = pa.array(entries)
    return WaitingRows(
        entries, keys_of(packed).take(taken), times_us[entries], [column.take(taken) for column in columns]
    )


class WaitingWriter:
    """Deletes the rows of a side that are due, (after, up to], in each key group that is seen; writes new ones."""

    def __init__(
        self, layout: JoinLayout, side: int, state_id: int, backend: KeyedStateBackend, due: tuple[int, int]
    ) -> None:
        self._fields = layout.sides[side]
        self._state_id = state_id
        self._backend = backend
        self._due = due
        self._group: int | None = None
        self._new = Counter[bytes]()  #: {stored key of the current key group: its rows}

    def write(
        self,
        seen: npt.NDArray[np.uint16],
        groups: npt.NDArray[np.uint16],
        times_us: Int64s,
        keys: pa.Array,
        columns: Sequence[pa.Array],
    ) -> None:
        """Add new rows (m,), sorted by key group: the key group, time, encoded key and columns of each.

        seen: (n,) all key groups of a table, ascending. The key groups of later calls are not less than those of this
        one.
        """
        rows = [encoded_rows(columns, self._fields)] if self._fields else []
        packed = joined(encoded_times(times_us), joined_with_lengths(keys, [], rows))
        stored = list(stored_keys(groups, packed, self._state_id))
        for group in np.unique(seen).tolist():
            if group != self._group:
                self.finish()
                self._group = group
            start, end = np.searchsorted(groups, [group, group + 1]).tolist()
            self._new.update(stored[start:end])

    def finish(self) -> None:
        """Write the rows of the current key group."""
        if self._group is None:
            return
        after_us, up_to_us = self._due
        due = list[bytes]()
        if after_us < up_to_us:
            due = self._backend.scan(self._state_id, *time_range(self._group, self._state_id, after_us, up_to_us)).keys
        new = sorted(self._new)
        if due or new:
            known = self._backend.read(self._state_id, new) if new else []
            counts = np.fromiter((self._new[key] for key in new), np.int64, len(new))
            stored = np.flatnonzero([value is not None for value in known])
            counts[stored] += _CODEC.unpack([value for value in known if value is not None])[0].to_numpy()
            values = list(_CODEC.pack([pa.array(counts)]))
            self._backend.write(self._state_id, [*due, *new], [*([None] * len(due)), *values])
        self._group, self._new = None, Counter()
