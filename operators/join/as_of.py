"""The operator of an as-of join: each row of the left meets the row of the right that is in force at its time.

A row of the right is in force for its key from its event time until the next one's. The row of the left at time t is
emitted once the watermark W has passed t: then no row of either side with a time of at most t can come any more. So
both sides wait until then, and a row before W is late.

Rows of the right with one key and time are ordered by the tie-break columns, then by the whole row; the last one
counts. Without tie-break columns they must be equal in the columns that the join reads.

A table of the sorted input may end within a key, but not within a (key, time). So the last version of the last key is
carried to the next table, and is written when the key has ended. All rows of one key never have to be in memory.

With a tolerance, a version is forgotten once W has passed its time plus the tolerance: no row of the left can meet it.

State:
    waiting left, waiting right   see waiting.py
    current                       key group | 2 | key   the time and the columns of the last row of the right before W
    expiries                      key group | 3 | time | key   with a tolerance: when to look if the version of a key
                                  is to be forgotten; not later than that, and at least one entry for each version

Sources: kdb+ `aj`; the temporal table join of Flink, which exists there for streams only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema, decode_keys, encode_keys
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.deduplicate.times import TimesWriter
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    SIDE_COLUMN,
    TIME_COLUMN,
    AppendedRows,
    Batch,
    Folded,
    OperatorAttributes,
    OperatorTraits,
    SubtaskContext,
)
from mixedmode.operators.join.base import JoinBase
from mixedmode.operators.join.counts import counted_state
from mixedmode.operators.join.latest import Keys, Latest, Versions, latest_after
from mixedmode.operators.join.layout import LEFT, RIGHT, Rows
from mixedmode.operators.join.markers import MARKER, marker_tables
from mixedmode.operators.join.ranges import moved_us
from mixedmode.operators.join.versions import block_numbers, in_force, is_last, last_of_blocks
from mixedmode.operators.join.waiting import WaitingWriter, waiting_entries, waiting_tables
from mixedmode.operators.row_columns import decoded_rows, encoded_rows
from mixedmode.operators.tables import column_of, shown_values
from mixedmode.operators.window.keys import encoded_times, joined
from mixedmode.state import StateDescriptor, StateTable
from mixedmode.time import MIN_TIME_US, EpochTime, shown_time

__all__ = ["CURRENT_FIELDS", "AsOfJoinOperator"]

_CURRENT, _EXPIRIES = 2, 3  #: state ids; those of waiting rows are the numbers of the sides
CURRENT_FIELDS = (pa.field("time", pa.int64()), pa.field("row", pa.large_binary()))


@dataclass(frozen=True, slots=True)
class AsOfJoinOperator(JoinBase):
    """Emits each row of the left once, with the columns of the version in force.

    `keeps_left`: rows of the left without a version are emitted with NULL, else dropped. `strictly`: a version is in
    force only after its time. `tolerance_us`: the greatest age of a version; None: any. `tie_break`: columns of the
    right, by index. `deleted`: a boolean column of the right, by index; a row where it is true ends the version
    before it, and is none. `event_time`: the column of the output with the event time of the left.
    """

    keeps_left: bool
    strictly: bool
    tolerance_us: int | None
    tie_break: tuple[int, ...]
    deleted: int | None
    event_time: str | None

    attributes = OperatorAttributes(undivided="time")

    @property
    def traits(self) -> OperatorTraits:
        """The watermark decides what is emitted. No row changes later."""
        return OperatorTraits(fires_by_watermark=True, state_uses_time=True, event_time=self.event_time)

    @override
    def drops_alone(self, side: int) -> bool:
        """True for the left, if its rows are only emitted with a version. A version is kept for later rows."""
        return side == LEFT and not self.keeps_left

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The rows of each side that wait, the version of each key, and when to forget it."""
        expiries = (
            [] if self.tolerance_us is None else [StateDescriptor(_EXPIRIES, "expiries", (), is_read_by_key=False)]
        )
        return (
            counted_state(LEFT, "waiting left"),
            counted_state(RIGHT, "waiting right"),
            StateDescriptor(_CURRENT, "current", CURRENT_FIELDS),
            *expiries,
        )

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return the rows of both sides. A row with a NULL in its key has no version, and is none."""
        return self.layout.folded(
            batch, late_us=late_us, keeps_null_keys=(self.keeps_left, False), max_parallelism=max_parallelism
        )

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Yield the waiting rows of both sides that the watermark passes in this epoch, and markers of expiries."""
        for side in (LEFT, RIGHT):
            yield from waiting_tables(self.layout, side, side, context)
        if self.tolerance_us is not None:
            yield from marker_tables(self.layout, _EXPIRIES, _expiring_us(context.time), context)

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[AppendedRows]:
        """Yield the rows that are emitted. Write the versions, and the rows that wait.

        No (key, time) is in two tables.
        """
        run = _Run(self, context)
        for table in tables:
            yield from run.process(table)
        run.finish()


def _expiring_us(time: EpochTime) -> tuple[int, int]:
    """Return (after, up to] of the expiries to look at.

    If everything fires, rows of later epochs may still meet the versions. Such an epoch looks at none, and the next one
    also looks at those that it has left.
    """
    if time.fires_everything:
        return MIN_TIME_US, MIN_TIME_US
    after_us, up_to_us = time.passed_us
    return MIN_TIME_US - 1 if time.was_backlog else after_us, up_to_us


class _Run:
    """The processing of one subtask in one epoch."""

    def __init__(self, operator: AsOfJoinOperator, context: SubtaskContext) -> None:
        self._operator = operator
        self._layout = operator.layout
        self._time = context.time
        self._drops_writes = context.backend.drops_writes
        self._waiting = [WaitingWriter(context.backend, side, context.time.passed_us) for side in (LEFT, RIGHT)]
        self._expiries = TimesWriter(context.backend, _EXPIRIES, _expiring_us(context.time))
        self._current = StateTable(operator.states[_CURRENT], context.backend)
        self._carried: Latest | None = None  #: of the last key so far, which the next table may continue

    def process(self, table: pa.Table) -> Iterator[AppendedRows]:
        """Process a sorted table, the first key of which may be the last one of the table before."""
        groups = column_of(table, KEY_GROUP_COLUMN).to_numpy()
        times_us = column_of(table, TIME_COLUMN).to_numpy()
        sides = column_of(table, SIDE_COLUMN).to_numpy()
        encoded = column_of(table, KEY_COLUMN)
        grouping, first_rows = segments(encoded)
        keys = Keys(grouping.codes.astype(np.int64), groups[first_rows], encoded.take(pa.array(first_rows)))
        before = self._before(keys)
        is_due = self._time.has_passed(times_us)
        for side in (LEFT, RIGHT):
            rows = np.flatnonzero(~is_due & (sides == side))
            columns = self._layout.columns_of(table, side, rows)
            waiting = waiting_entries(self._layout, side, times_us[rows], encoded.take(pa.array(rows)), columns)
            self._waiting[side].write(groups, groups[rows], waiting)
        blocks = block_numbers(keys.codes, times_us)
        left, right = (np.flatnonzero(is_due & (sides == side)) for side in (LEFT, RIGHT))
        right = self._distinct(table, keys, blocks, right)
        columns = self._layout.columns_of(table, RIGHT, right)
        new = Versions(keys.codes[right], times_us[right], columns, np.ones(len(right), np.bool_))
        new = self._or_stored(keys, new, before.versions)
        if len(left):
            found = in_force(blocks[left], blocks[right], strictly=self._operator.strictly)
            yield from self._joined(table, left, keys.codes[left], times_us[left], found, new, before.versions)
        latest = latest_after(before, new, np.isin(np.arange(len(keys)), keys.codes[sides == MARKER]))
        self._keep(latest.taken(np.arange(len(keys) - 1)))
        self._carried = latest.taken(np.array([len(keys) - 1]))

    def finish(self) -> None:
        """Write what is left, after the last table."""
        if self._carried is not None:
            self._keep(self._carried)
        for waiting in self._waiting:
            waiting.finish()
        if self._operator.tolerance_us is not None:
            self._expiries.finish()

    def _distinct(self, table: pa.Table, keys: Keys, blocks: Int64s, right: Rows) -> Rows:
        """Return the rows of the right without those that another one of their key and time overrides."""
        own = blocks[right]
        is_shared = ~is_last(own)
        is_shared[1:] |= is_shared[:-1]
        if not is_shared.any():
            return right
        shared = right[is_shared]
        own, times_us = blocks[shared], column_of(table, TIME_COLUMN).to_numpy()
        columns, is_new = self._layout.columns_of(table, RIGHT, shared), np.ones(len(shared), np.bool_)
        candidates = Versions(keys.codes[shared], times_us[shared], columns, is_new)
        ranks, before = self._ranks(candidates), np.flatnonzero(~is_last(own))
        self._check_equal(keys, candidates, ranks, before, before + 1)
        kept = shared[last_of_blocks(own, ranks)]
        return np.sort(np.concatenate([right[~is_shared], kept]))

    def _or_stored(self, keys: Keys, new: Versions, before: Versions) -> Versions:
        """Return the new versions, each replaced by the stored one of its key and time if that one counts.

        There is such a stored version only if an epoch has fired everything (see Latest).
        """
        stored = before.numbers_of(new.codes, is_new=False)
        rows = np.flatnonzero(stored >= 0)
        rows = rows[before.times_us[stored[rows]] == new.times_us[rows]]
        if not len(rows):
            return new
        every = new.joined(before.taken(stored[rows]))
        ranks, others = self._ranks(every), np.arange(len(new.codes), len(every.codes))
        self._check_equal(keys, every, ranks, rows, others)
        is_greater = pc.greater(ranks.take(pa.array(others)), ranks.take(pa.array(rows)))
        counting = np.arange(len(new.codes))
        counting[rows] = np.where(is_greater.to_numpy(zero_copy_only=False), others, rows)
        return replace(every.taken(counting), is_new=new.is_new)

    def _ranks(self, versions: Versions) -> pa.Array:
        """Return bytes (v,) by which versions of one key and time are ordered; the greatest counts."""
        rows, ties, fields = self._packed(versions), self._operator.tie_break, self._layout.sides[RIGHT]
        if not ties:
            return rows
        by = [versions.columns[index] for index in ties]
        order = encode_keys(by, KeySchema(tuple(fields[index] for index in ties))).cast(pa.large_binary())
        return pc.binary_join_element_wise(order, rows, pa.scalar(b"", pa.large_binary()))

    def _packed(self, versions: Versions) -> pa.Array:
        """Return the columns of versions as bytes (v,)."""
        fields = self._layout.sides[RIGHT]
        if not fields:
            return pa.array([b""] * len(versions.codes), pa.large_binary())
        return encoded_rows(versions.columns, fields).cast(pa.large_binary())

    def _check_equal(self, keys: Keys, versions: Versions, ranks: pa.Array, rows: Rows, others: Rows) -> None:
        """Raise InvalidJobError if nothing orders a version of `rows` and the one of `others`, and they differ."""
        differs = pc.not_equal(ranks.take(pa.array(rows)), ranks.take(pa.array(others)))
        wrong = rows[differs.to_numpy(zero_copy_only=False)]
        if self._operator.tie_break or not len(wrong):
            return
        key = decode_keys(keys.encoded.slice(int(versions.codes[wrong[0]]), 1), self._layout.key_schema)
        at = shown_time(int(versions.times_us[wrong[0]]))
        names = [field.name for field in self._layout.key_schema.fields]
        values = ", ".join(f"{name}={shown_values(value)[0]}" for name, value in zip(names, key, strict=True))
        msg = (
            "an as-of join needs one row of the right for each key and time, and two of them differ, so nothing says "
            "which one is in force. Name the columns that order them in `tie-break`, the greatest counts, or make them "
            f"one in a step before. {values}, time={at}"
        )
        raise InvalidJobError(msg)

    def _before(self, keys: Keys) -> Latest:
        """Return the last versions before a table: the carried one of its first key, and those in the state.

        If the table does not go on with the carried key, this key has ended, and is written.
        """
        carried = self._carried
        if carried is not None and not keys.begin_with(carried.keys):
            self._keep(carried)
            carried = None
        first = 0 if carried is None else 1
        wanted = keys.taken(np.arange(first, len(keys)))
        found, columns = self._current.read(self._current.stored_keys(wanted.groups, wanted.encoded))
        times_us, rows = columns
        codes = found.astype(np.int64) + first
        fields, is_new = self._layout.sides[RIGHT], np.zeros(len(codes), np.bool_)
        versions = Versions(codes, times_us.to_numpy(), decoded_rows(rows, fields), is_new)
        is_stored, is_due = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.bool_)
        is_stored[codes] = True
        if carried is not None:
            versions = carried.versions.joined(versions)
            is_stored[0], is_due[0] = carried.is_stored[0], carried.is_due[0]
        return Latest(keys, versions, is_stored, is_due)

    def _joined(
        self,
        table: pa.Table,
        left: Rows,
        codes: Int64s,
        times_us: Int64s,
        found: Int64s,
        new: Versions,
        before: Versions,
    ) -> Iterator[AppendedRows]:
        """Yield rows of the left with their versions.

        found: (m,) the last one of `new` before each row, or -1. before: those that are known before this table.
        """
        versions = before.joined(new)
        is_new = found >= 0
        is_new[is_new] = new.codes[found[is_new]] == codes[is_new]
        version = np.where(is_new, found + len(before.codes), before.numbers_of(codes, is_new=True))
        if not before.is_new.all():
            stored = before.numbers_of(codes, is_new=False)
            stored[~self._has_begun(stored, times_us, versions)] = -1
            version = versions.later_of(version, stored)
        version[~self._holds(version, times_us, versions)] = -1
        if not self._operator.keeps_left:
            kept = version >= 0
            left, version = left[kept], version[kept]
        for piece in self._layout.pieces(None, (versions.columns, version)):
            yield AppendedRows(self._output(table, left[piece], version[piece], versions.columns))

    def _has_begun(self, version: Int64s, times_us: Int64s, versions: Versions) -> Bools:
        """Return (m,) True where the version of a row, if there is one, has begun at the time of the row."""
        begun_us = versions.times_us[np.maximum(version, 0)]
        return begun_us < times_us if self._operator.strictly else begun_us <= times_us

    def _holds(self, version: Int64s, times_us: Int64s, versions: Versions) -> Bools:
        """Return (m,) True where there is a version, it is not too old, and it is no deletion."""
        holds = version >= 0
        if not len(versions.codes):
            return holds
        at = np.maximum(version, 0)
        if self._operator.tolerance_us is not None:
            oldest_us = np.maximum(times_us, MIN_TIME_US + self._operator.tolerance_us) - self._operator.tolerance_us
            holds &= versions.times_us[at] >= oldest_us
        if self._operator.deleted is not None:
            holds &= ~_is_true(versions.columns[self._operator.deleted])[at]
        return holds

    def _output(self, table: pa.Table, left: Rows, version: Int64s, right: Sequence[pa.Array]) -> pa.Table:
        taken, versions = pa.array(left), pa.array(version, mask=version < 0)
        columns = [
            self._layout.column_in(table, LEFT, column.index).take(taken)
            if column.side == LEFT
            else right[column.index].take(versions)
            for column in self._layout.output
        ]
        return pa.table(columns, names=[column.name for column in self._layout.output])

    def _keep(self, last: Latest) -> None:
        """Write the last versions of keys that have ended, and delete versions that have ended."""
        if self._drops_writes or not len(last.keys):
            return
        keys, latest = last.keys, last.versions.last()
        ends = self._is_over(latest.times_us)
        if self._operator.deleted is not None:
            ends |= _is_true(latest.columns[self._operator.deleted])
        is_stored = last.is_stored[latest.codes]
        written = latest.taken(np.flatnonzero(np.where(ends, is_stored, latest.is_new)))
        if len(written.codes):
            wanted = pa.array(written.codes)
            stored_keys = self._current.stored_keys(keys.groups[written.codes], keys.encoded.take(wanted))
            deleted = np.flatnonzero(np.isin(written.codes, latest.codes[ends]))
            self._current.write(stored_keys, [pa.array(written.times_us), self._packed(written)], deleted.tolist())
        if self._operator.tolerance_us is not None:
            is_scheduled = is_stored & ~last.is_due[latest.codes]
            self._schedule(keys, latest.taken(np.flatnonzero(~ends & ~is_scheduled)))

    def _is_over(self, times_us: Int64s) -> Bools:
        """Return (n,) True for times of versions that no row of the left can meet any more, by the tolerance."""
        if self._operator.tolerance_us is None or self._time.fires_everything:
            return np.zeros(len(times_us), np.bool_)
        return self._time.has_passed(moved_us(times_us, self._operator.tolerance_us))

    def _schedule(self, keys: Keys, kept: Versions) -> None:
        """Write when to look at versions that are kept, and for which no entry says so."""
        assert self._operator.tolerance_us is not None
        times_us = moved_us(kept.times_us, self._operator.tolerance_us)
        entries = joined(encoded_times(times_us), keys.encoded.take(pa.array(kept.codes)))
        self._expiries.write(keys.groups, keys.groups[kept.codes], entries)


def _is_true(column: pa.Array) -> Bools:
    """Return (n,) True where a boolean is true; NULL is false."""
    return pc.fill_null(column, False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
