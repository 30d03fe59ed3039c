"""Broadcast inputs of a function: their rows reach every subtask, as versions by time.

The map side sends each row of such an input once to each key group, with the key NULL, which sorts first. So a key
group has all versions, and its state moves when subtasks are added or removed, as all state does. A subtask reads the
versions of its first key group, and writes those of all of its key groups, which are the same.

    stored key = key group | state id | number of the input u8 | time | packed row, value = version u8

A function asks for the rows in force at the time of a record. They are known once the watermark has passed this time.
So records wait for the watermark, in a state like that of an as-of join (operators/join/waiting.py). An event-time
timer waits in the same way: it fires once the watermark is later than its time. The records of a key come in the order
of time, those with one time in the order of the whole row.

Example: with a watermark of 10:05, a record of 10:04 is processed, and one of 10:05 waits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from mixedmode.keys import KeyGroupRange, KeySchema, encode_keys
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.values import Int64s
from mixedmode.operators.interface import KEY_COLUMN, KEY_GROUP_COLUMN, TIME_COLUMN, Batch, SubtaskContext
from mixedmode.operators.join.counts import counted_state
from mixedmode.operators.join.layout import LEFT, RIGHT, JoinLayout, Rows
from mixedmode.operators.join.waiting import WaitingWriter, waiting_entries, waiting_rows
from mixedmode.operators.process.context import BroadcastRows, Context, microseconds
from mixedmode.operators.process.due import BROADCAST, KIND_COLUMN, RECORD, RECORD_OF_RIGHT
from mixedmode.operators.process.records import check_python_times
from mixedmode.operators.process.versions import BroadcastInput, Versions, VersionsInForce
from mixedmode.operators.row_columns import encoded_rows
from mixedmode.operators.tables import column_of
from mixedmode.operators.top.rows import without_prefix
from mixedmode.operators.window.keys import TIME_BYTES, encoded_times, joined, leading_times
from mixedmode.operators.window.stored import stored_in
from mixedmode.sort import sort_table
from mixedmode.state import StateDescriptor
from mixedmode.state.keys import PREFIX_BYTES, range_of_group, stored_keys
from mixedmode.time import EpochTime, shifted_us

__all__ = ["VERSION_FIELD", "BroadcastRun", "Broadcasts", "late_rows", "time_behind"]

VERSION_FIELD = pa.field("_version", pa.large_binary())
_WAITING, _VERSIONS = (4, 5), 6  #: state ids: of the records of each side that wait, and of the versions
_KINDS = (RECORD, RECORD_OF_RIGHT)
_STORED = b"\x01"


@dataclass(frozen=True, slots=True)
class Broadcasts:
    """The broadcast inputs of a function.

    mains: the number of inputs with records, which come first. sides: the columns of the records, of the left and of
    the right; the right has none if the function has one input.
    """

    inputs: tuple[BroadcastInput, ...]
    mains: int
    sides: tuple[tuple[pa.Field, ...], tuple[pa.Field, ...]]

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The records that wait, and the versions."""
        names = ("waiting", "waiting right") if self.sides[RIGHT] else ("waiting",)
        waiting = (counted_state(state_id, name) for state_id, name in zip(_WAITING, names, strict=False))
        return (*waiting, StateDescriptor(_VERSIONS, "versions", (), is_read_by_key=False))

    def mains_of(self, batch: Batch, late_us: int) -> Batch:
        """Return the records of a batch, without those that are late."""
        sides, times_us = self._told_apart(batch)
        rows = np.flatnonzero((sides < self.mains) & (times_us >= late_us))
        taken = pa.array(rows)
        columns = len(self.sides[LEFT]) + len(self.sides[RIGHT])
        return replace(
            batch,
            keys=[key.take(taken) for key in batch.keys],
            arguments=[column.take(taken) for column in batch.arguments[:columns]],
            times_us=times_us[rows],
            sides=sides[rows],
        )

    def sent(
        self, batch: Batch, late_us: int, schema: pa.Schema, key_schema: KeySchema, max_parallelism: int
    ) -> Iterator[pa.Table]:
        """Yield the rows of each broadcast input, for each key group, as tables of `schema`; late rows are left out.

        Raise InvalidJobError for a row that Python cannot hold.
        """
        sides, times_us = self._told_apart(batch)
        key = encode_keys([pa.nulls(1, field.type) for field in key_schema.fields], key_schema)
        start = len(self.sides[LEFT]) + len(self.sides[RIGHT])
        for number, given in enumerate(self.inputs):
            rows = np.flatnonzero((sides == self.mains + number) & (times_us >= late_us))
            columns = [column.take(pa.array(rows)) for column in batch.arguments[start : start + len(given.fields)]]
            start += len(given.fields)
            if not len(rows):
                continue
            check_python_times(columns)  # here, because the function's own conversion is a call of the function
            entries = _entries(number, times_us[rows], given.packed(columns))
            many = pa.array(np.tile(np.arange(len(rows)), max_parallelism))
            made = {
                KEY_GROUP_COLUMN: pa.array(np.repeat(np.arange(max_parallelism, dtype=np.uint16), len(rows))),
                KEY_COLUMN: key.take(pa.array(np.zeros(len(many), np.int64))),
                TIME_COLUMN: pa.array(times_us[rows]).take(many),
                KIND_COLUMN: pa.array(np.full(len(many), BROADCAST, np.int8)),
                VERSION_FIELD.name: entries.take(many),
            }
            yield _filled(made, len(many), schema)

    def waiting(self, context: SubtaskContext, schema: pa.Schema, key_schema: KeySchema) -> Iterator[pa.Table]:
        """Yield the waiting records that the watermark passes in this epoch, as sorted tables of `schema`."""
        layout, start = JoinLayout(key_schema, self.sides, ()), 0
        for side, (state_id, fields) in enumerate(zip(_WAITING, self.sides, strict=True)):
            for found in stored_in(context, state_id, [context.time.passed_us] if fields else []):
                rows = waiting_rows(layout, side, found.keys, found.values)
                made = {
                    KEY_GROUP_COLUMN: pa.array(found.groups()[rows.entries]),
                    KEY_COLUMN: layout.as_keys(rows.keys),
                    TIME_COLUMN: pa.array(rows.times_us),
                    KIND_COLUMN: pa.array(np.full(len(rows.entries), _KINDS[side], np.int8)),
                    **{f"_a{start + index}": column for index, column in enumerate(rows.columns)},
                }
                yield sort_table(_filled(made, len(rows.entries), schema))
            start += len(fields)

    def _told_apart(self, batch: Batch) -> tuple[np.ndarray, Int64s]:
        assert batch.sides is not None, "a function with broadcast inputs tells its inputs apart"
        assert batch.times_us is not None, "the inputs of a function with broadcast inputs have event times"
        return batch.sides, batch.times_us


def late_rows(batch: Batch, late_us: int) -> Rows:
    """Return the positions in a batch of rows that are before the watermark."""
    assert batch.times_us is not None, batch
    return np.flatnonzero(batch.times_us < late_us)


def time_behind(time: EpochTime) -> EpochTime:
    """Return the times of an epoch for timers that fire once the watermark is later than their time."""
    return replace(time, late_us=shifted_us(time.late_us, -1), firing_us=shifted_us(time.firing_us, -1))


class BroadcastRun:
    """The versions and the waiting records of one subtask in one epoch.

    versions: of each input by name; complete as soon as `passed` has yielded a table.
    """

    def __init__(self, broadcasts: Broadcasts, key_schema: KeySchema, context: SubtaskContext) -> None:
        self.versions = dict[str, Versions]()
        self._broadcasts = broadcasts
        self._context = context
        self._layout = JoinLayout(key_schema, broadcasts.sides, ())
        passed_us = context.time.passed_us
        self._writers = [WaitingWriter(context.backend, state_id, passed_us) for state_id in _WAITING]

    def rows_for(self, context: Context) -> Mapping[str, BroadcastRows]:
        """Return {name: rows} of the broadcast inputs, for the context of a function."""
        return {given.name: _Rows(given, self, context) for given in self._broadcasts.inputs}

    def passed(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the sorted tables without the rows of broadcast inputs, and without records that wait. Write the state.

        Raise InvalidJobError if two rows of a broadcast input contradict each other.
        """
        for table in tables:
            if not self.versions:
                self._load(table)
            rows = self._passed(table)
            if rows.num_rows:
                yield rows
        for side in self._sides:
            self._writers[side].finish()
        if not self.versions:
            self._load(None)

    def _load(self, table: pa.Table | None) -> None:
        """Read the versions of the first key group, add those in the first table, and write all key groups."""
        group, backend = self._context.groups.start, self._context.backend
        if self._context.groups.start >= self._context.groups.end:
            return
        stored = set[bytes](
            key[PREFIX_BYTES:] for key in backend.scan(_VERSIONS, *range_of_group(group, _VERSIONS)).keys
        )
        new = set[bytes]()
        if table is not None:
            is_new = (column_of(table, KIND_COLUMN).to_numpy() == BROADCAST) & (
                column_of(table, KEY_GROUP_COLUMN).to_numpy() == group
            )
            new.update(column_of(table, VERSION_FIELD.name).filter(pa.array(is_new)).to_pylist())
        every = sorted(stored | new)
        kept = set[bytes]()
        for number, given in enumerate(self._broadcasts.inputs):
            own = [entry for entry in every if entry[0] == number]
            packed = without_prefix(own, 1 + TIME_BYTES)
            versions = Versions(given, leading_times(without_prefix(own, 1)), packed, self._context.time)
            self.versions[given.name] = versions
            kept.update(own[row] for row in versions.rows[versions.kept()].tolist())
        if not backend.drops_writes:
            self._write(sorted((stored ^ kept) & (stored | new)), kept)

    def _write(self, changed: Sequence[bytes], kept: set[bytes]) -> None:
        """Write the changed versions of all key groups: those in `kept` are added, the others deleted."""
        groups: KeyGroupRange = self._context.groups
        if not changed:
            return
        many = np.repeat(np.arange(groups.start, groups.end, dtype=np.uint16), len(changed))
        entries = pa.array(changed, pa.large_binary()).take(
            pa.array(np.tile(np.arange(len(changed)), groups.end - groups.start))
        )
        values = [_STORED if entry in kept else None for entry in changed] * (groups.end - groups.start)
        self._context.backend.write(_VERSIONS, list(stored_keys(many, entries, _VERSIONS)), values)

    @property
    def _sides(self) -> range:
        return range(2 if self._broadcasts.sides[RIGHT] else 1)

    def _passed(self, table: pa.Table) -> pa.Table:
        kinds = column_of(table, KIND_COLUMN).to_numpy()
        times_us = column_of(table, TIME_COLUMN).to_numpy()
        groups = column_of(table, KEY_GROUP_COLUMN).to_numpy()
        encoded = column_of(table, KEY_COLUMN)
        has_passed = self._context.time.has_passed(times_us)
        start, leaves = 0, kinds != BROADCAST
        for side in self._sides:
            rows, fields = np.flatnonzero(~has_passed & (kinds == _KINDS[side])), self._broadcasts.sides[side]
            columns = self._columns(table, start, side, rows)
            entries = waiting_entries(self._layout, side, times_us[rows], encoded.take(pa.array(rows)), columns)
            self._writers[side].write(groups, groups[rows], entries)
            leaves[rows] = False
            start += len(fields)
        rows = self._in_order(table, np.flatnonzero(leaves), encoded, times_us, kinds)
        return table if len(rows) == table.num_rows and leaves.all() else table.take(pa.array(rows))

    def _in_order(self, table: pa.Table, rows: Rows, encoded: pa.Array, times_us: Int64s, kinds: np.ndarray) -> Rows:
        """Return rows of whole keys, in order; records with one key, time and side in the order of the whole row."""
        if len(rows) < 2:
            return rows
        codes = segments(encoded.take(pa.array(rows)))[0].codes
        times, own = times_us[rows], kinds[rows]
        is_tie = (codes[1:] == codes[:-1]) & (times[1:] == times[:-1])
        if not is_tie.any():
            return rows
        ranks, start = np.zeros(len(rows), np.int64), 0
        for side in self._sides:
            of_side = np.flatnonzero(own == _KINDS[side])
            fields = self._broadcasts.sides[side]
            packed = encoded_rows(self._columns(table, start, side, rows[of_side]), fields).cast(pa.large_binary())
            ranks[of_side[pc.array_sort_indices(packed).to_numpy()]] = np.arange(len(of_side))
            start += len(fields)
        return rows[np.lexsort((ranks, own, times, codes))]

    def _columns(self, table: pa.Table, start: int, side: int, rows: Rows) -> list[pa.Array]:
        taken, count = pa.array(rows), len(self._broadcasts.sides[side])
        return [column_of(table, f"_a{index}").take(taken) for index in range(start, start + count)]


class _Rows(BroadcastRows):
    """The rows of one broadcast input in an epoch."""

    __slots__ = ("_context", "_given", "_run")

    def __init__(self, given: BroadcastInput, run: BroadcastRun, context: Context) -> None:
        self._given = given
        self._run = run
        self._context = context

    @override
    def as_of(self, time: int | datetime) -> VersionsInForce:
        at_us, context, versions = microseconds(time), self._context, self._run.versions[self._given.name]
        now_us, history_us = context.timestamp, self._given.history_us
        place = f"broadcast={self._given.name}, time={time}"
        if context.time_domain == "processing":
            msg = (
                "the rows of a broadcast input are those of an event time, and this timer has none. Ask in an "
                f"event-time timer. {place}"
            )
            raise ValueError(msg)
        latest_us = shifted_us(versions.time.firing_us, -1) if now_us is None else now_us
        if at_us > latest_us:
            msg = (
                "the rows of a broadcast input are not known for later than the record or timer. Register a timer for "
                f"that time, and ask in it. {place}"
            )
            raise ValueError(msg)
        first_us = versions.time.late_us if now_us is None else max(now_us, versions.time.late_us)
        if at_us < shifted_us(first_us, -history_us):
            msg = (
                "the rows of a broadcast input are kept until the watermark has passed them, and for `history`. Set "
                f"history to as long as the function asks back. {place}, history={history_us // 1000}ms"
            )
            raise ValueError(msg)
        return versions.at(at_us)


def _entries(number: int, times_us: Int64s, packed: pa.Array) -> pa.Array:
    head = pa.array([bytes([number])] * len(packed), pa.binary(1))
    return joined(head, encoded_times(times_us), packed)


def _filled(made: Mapping[str, pa.Array], rows: int, schema: pa.Schema) -> pa.Table:
    """Return a table of `schema`, NULL in the columns that are not in `made`."""
    columns = [made[field.name] if field.name in made else pa.nulls(rows, field.type) for field in schema]
    return pa.table(columns, schema=schema)
