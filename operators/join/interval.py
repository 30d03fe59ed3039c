"""The operator of an interval join: pairs of rows of one key whose event times are near each other.

A row of the right at time s is a partner of a row of the left at t if s is in [t + lower, t + upper]. A pair is emitted
when its second row arrives. A row is kept as long as a partner may come: the left until the watermark W has passed
t + upper, the right until W has passed s - lower. A row that has had no partner until then is emitted with NULL by the
kinds that keep it; so the event times of their rows may be that far behind W. A pair of which the condition does not
hold is no pair.

    Example: with [-1h, 4h], an order at 10:00 meets payments from 09:00 to 14:00, and is forgotten once W > 14:00.

A table of the sorted input may end within a key, but not within a (key, time). The rows of the last key that may still
find a partner in the next table are carried to it. So only the rows of a key within the bounds have to be in memory.

State:
    left, right   see stored.py
    expiries      key group | 2 | time | key   the times at which rows of a key are forgotten

Source: the interval join of Flink.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from mixedmode.keys import decode_keys
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
from mixedmode.operators.join.conditions import Condition
from mixedmode.operators.join.layout import LEFT, RIGHT, JoinType, null_keys
from mixedmode.operators.join.markers import marker_tables
from mixedmode.operators.join.pairs import Pairs
from mixedmode.operators.join.ranges import moved_us
from mixedmode.operators.join.stored import SideRows, StoredSide, rows_state
from mixedmode.operators.tables import column_of, halves
from mixedmode.operators.window.keys import encoded_times, joined
from mixedmode.operators.window.output import instants
from mixedmode.state import StateDescriptor
from mixedmode.time import EpochTime

__all__ = ["IntervalJoinOperator"]

_EXPIRIES = 2  #: state id; those of rows are the numbers of the sides
_TIME_TYPE = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class IntervalJoinOperator(JoinBase):
    """Emits pairs, and rows without a partner; of `semi`, rows of the left with one; of `anti`, those without.

    `bounds_us`: (lower, upper) of the time of the right minus that of the left, both included. `event_time`: the column
    of the output with the event time of a row. `adds_time`: this column is none of the layout, but the later time of
    the pair, and comes last. Otherwise it is the time of a side. `condition`: what else must hold of a pair.
    """

    type: JoinType
    bounds_us: tuple[int, int]
    event_time: str | None
    adds_time: bool
    condition: Condition | None = None

    attributes = OperatorAttributes(undivided="time")

    @property
    def traits(self) -> OperatorTraits:
        """The watermark decides what is emitted without a partner, and what is late. No row changes later."""
        lower_us, upper_us = self.bounds_us
        delays_us = [upper_us] * (self.keeps(LEFT) or self._has_time_of(LEFT))
        delays_us += [-lower_us] * (self.keeps(RIGHT) or self._has_time_of(RIGHT))
        return OperatorTraits(
            fires_by_watermark=True,
            state_uses_time=True,
            event_time=self.event_time,
            delay_us=max([0, *delays_us]),
        )

    @property
    def emits_pairs(self) -> bool:
        """Return whether a row is emitted once for each of its partners."""
        return self.type not in ("semi", "anti")

    def _has_time_of(self, side: int) -> bool:
        return not self.adds_time and any(c.side == side and c.name == self.event_time for c in self.layout.output)

    def keeps(self, side: int) -> bool:
        """Return whether rows of a side without a partner are emitted."""
        return self.type in (("left", "full", "anti") if side == LEFT else ("right", "full"))

    @override
    def drops_alone(self, side: int) -> bool:
        """True for the sides that are only emitted with a partner."""
        return not self.keeps(side)

    @override
    def is_done_alone(self, side: int, times_us: Int64s, time: EpochTime) -> Bools:
        """True for rows of which the watermark has passed all partners."""
        return time.has_passed(self.expiry_us(side, times_us))

    def expiry_us(self, side: int, times_us: Int64s) -> Int64s:
        """Return the greatest event time that a partner of each row of a side may have, (n,)."""
        lower_us, upper_us = self.bounds_us
        return moved_us(times_us, upper_us if side == LEFT else -lower_us)

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The rows of both sides that may find a partner, and the times at which they are forgotten."""
        return (
            rows_state(LEFT, "left"),
            rows_state(RIGHT, "right"),
            StateDescriptor(_EXPIRIES, "expiries", (), is_read_by_key=False),
        )

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The selected columns, and the time of a pair."""
        time = [pa.field(self.event_time, _TIME_TYPE)] if self.adds_time else []
        return (*self.layout.output_fields, *time)

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return the rows of both sides. A row with a NULL in its key has no partner."""
        return self.layout.folded(
            batch,
            late_us=late_us,
            keeps_null_keys=(self.keeps(LEFT), self.keeps(RIGHT)),
            max_parallelism=max_parallelism,
        )

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Yield a marker for each key that has rows to forget in this epoch."""
        yield from marker_tables(self.layout, _EXPIRIES, context.time.passed_us, context)

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[AppendedRows]:
        """Yield the pairs and the rows without a partner. Write the rows that may find one.

        No (key, time) is in two tables.
        """
        run = _Run(self, context)
        for table in tables:
            yield from run.process(table)
        yield from run.finish()


@dataclass(frozen=True, slots=True)
class _Carried:
    """The rows of the last key that may still find partners: its key group (1,), its encoded key (1,), each side."""

    groups: npt.NDArray[np.uint16]
    keys: pa.Array
    left: SideRows
    right: SideRows

    @property
    def sides(self) -> tuple[SideRows, SideRows]:
        """Return the rows of the left and of the right."""
        return self.left, self.right

    def is_of(self, group: np.uint16, key: pa.Scalar) -> bool:
        """Return whether these are the rows of this key."""
        return bool(self.groups[0] == group) and self.keys[0] == key


class _Run:
    """The processing of one subtask in one epoch."""

    def __init__(self, operator: IntervalJoinOperator, context: SubtaskContext) -> None:
        self._operator = operator
        self._layout = operator.layout
        self._time = context.time
        self._fan_out = context.fan_out
        self._bytes_max = context.memory_bytes
        self._stored = [StoredSide(self._layout, side, side, context.backend) for side in (LEFT, RIGHT)]
        self._expiries = TimesWriter(context.backend, _EXPIRIES, context.time.passed_us)
        self._carried: _Carried | None = None  #: of the last key so far, which the next table may continue

    def process(self, table: pa.Table) -> Iterator[AppendedRows]:
        """Process a sorted table, the first key of which may be the last one of the table before.

        If the stored rows of its keys do not fit in memory, process each half of it.
        """
        all_groups = column_of(table, KEY_GROUP_COLUMN).to_numpy()
        encoded = column_of(table, KEY_COLUMN)
        grouping, first_rows = segments(encoded)
        groups, keys = all_groups[first_rows], encoded.take(pa.array(first_rows))
        if self._carried is not None and not self._carried.is_of(groups[0], keys[0]):
            yield from self._end_carried(self._carried)
            self._carried = None
        codes = grouping.codes.astype(np.int64)
        bytes_max = None if len(keys) == 1 else self._bytes_max
        left, right = (self._rows(table, side, codes, groups, keys, bytes_max) for side in (LEFT, RIGHT))
        if left is None or right is None:
            for half in halves(table, first_rows):
                yield from self.process(half)
            return
        is_null = null_keys(decode_keys(keys, self._layout.key_schema)) if self._may_have_null_keys else None
        matches = np.ones(len(keys), np.bool_) if is_null is None else ~is_null
        pairs = Pairs.of(left, right, self._operator.bounds_us, matches, self._operator.condition)
        yield from self._pairs(left, right, pairs)
        last_us = column_of(table, TIME_COLUMN)[-1].as_py()
        done, carried = [], []
        for side, rows, partners in ((LEFT, left, pairs.left), (RIGHT, right, pairs.right)):
            waits = (rows.codes == len(keys) - 1) & (self._operator.expiry_us(side, rows.times_us) > last_us)
            end = len(waits) - int(waits.sum())  # those that wait are the last ones
            carried.append(rows.carried(end, partners))
            done.append((rows.before(end), partners[:end]))
        last = slice(len(keys) - 1, len(keys))
        self._carried = _Carried(groups[last], keys.take(pa.array([len(keys) - 1])), carried[LEFT], carried[RIGHT])
        yield from self._end(done, groups, keys)

    def finish(self) -> Iterator[AppendedRows]:
        """Write what is left, after the last table. Yield its rows without a partner."""
        if self._carried is not None:
            yield from self._end_carried(self._carried)
        self._expiries.finish()

    def _end_carried(self, carried: "_Carried") -> Iterator[AppendedRows]:
        """Do what is left for the last key, which has ended."""
        sides = [(rows, np.zeros(len(rows.codes), np.int64)) for rows in carried.sides]
        yield from self._end(sides, carried.groups, carried.keys)

    def _end(
        self, sides: Sequence[tuple[SideRows, Int64s]], groups: npt.NDArray[np.uint16], keys: pa.Array
    ) -> Iterator[AppendedRows]:
        """Write the rows of both sides that find no further partner in this epoch. Yield those without any.

        sides: of each, its rows, and the partners that each of them has found in the last table.
        """
        for side, (rows, found) in enumerate(sides):
            partners = rows.partners + found
            if self._operator.emits_pairs:
                self._fan_out.count(partners[rows.is_new])
            yield from self._settle(side, rows, rows.was_matched | (partners > 0), groups, keys)
        self._schedule(groups, keys, sides[LEFT][0], sides[RIGHT][0])

    @property
    def _may_have_null_keys(self) -> bool:
        return self._operator.keeps(LEFT) or self._operator.keeps(RIGHT)

    def _rows(
        self,
        table: pa.Table,
        side: int,
        codes: Int64s,
        groups: npt.NDArray[np.uint16],
        keys: pa.Array,
        bytes_max: int | None,
    ) -> SideRows | None:
        """Return the rows of a side: of the table and of the state. Return None if the latter exceed `bytes_max`."""
        rows = np.flatnonzero(column_of(table, SIDE_COLUMN).to_numpy() == side)
        times_us = column_of(table, TIME_COLUMN).to_numpy()[rows]
        new = SideRows.new(codes[rows], times_us, self._layout.columns_of(table, side, rows))
        if self._carried is None:
            stored = self._stored[side].read(groups, keys, bytes_max)
            return None if stored is None else new.merged(stored)
        before = self._carried.sides[side]  # it has the stored rows of the first key
        if len(keys) == 1:
            return before.merged(new)
        stored = self._stored[side].read(groups[1:], keys.slice(1), bytes_max)
        if stored is None:
            return None
        first = int(np.searchsorted(new.codes, 1))
        of_first = before.merged(new.taken(np.arange(first)))
        others = new.taken(np.arange(first, len(new.codes)))
        return of_first.merged(others.merged(replace(stored, codes=stored.codes + 1)))

    def _pairs(self, left: SideRows, right: SideRows, pairs: Pairs) -> Iterator[AppendedRows]:
        """Yield the pairs that have a row of this epoch; of `semi`, rows of the left that have their first partner."""
        if self._operator.emits_pairs:
            for of_left, of_right in pairs.blocks():
                for piece in self._layout.pieces((left.columns, of_left), (right.columns, of_right)):
                    yield self._output(left, of_left[piece], right, of_right[piece])
            return
        pairs.find_partners()
        rows = np.flatnonzero((pairs.left > 0) & ~left.was_matched & (left.partners == 0))
        if self._operator.type == "semi" and len(rows):
            yield self._output(left, rows, right, None)

    def _settle(
        self, side: int, rows: SideRows, matched: Bools, groups: npt.NDArray[np.uint16], keys: pa.Array
    ) -> Iterator[AppendedRows]:
        """Write the rows of a side that may find a partner later. Yield those that are forgotten without one."""
        is_over = self._is_over(side, rows.times_us)
        if self._operator.keeps(side):
            alone = np.flatnonzero(is_over & ~matched)
            if len(alone):
                yield self._output(rows, alone, None, None) if side == LEFT else self._output(None, None, rows, alone)
        self._stored[side].write(groups, keys, rows, matched, ~is_over)

    def _is_over(self, side: int, times_us: Int64s) -> Bools:
        return self._operator.is_done_alone(side, times_us, self._time)

    def _schedule(self, groups: npt.NDArray[np.uint16], keys: pa.Array, left: SideRows, right: SideRows) -> None:
        """Write when the new rows that are kept are to be forgotten."""
        times_us, codes = [], []
        for side, rows in ((LEFT, left), (RIGHT, right)):
            kept = np.flatnonzero(rows.is_new & ~self._is_over(side, rows.times_us))
            times_us.append(self._operator.expiry_us(side, rows.times_us[kept]))
            codes.append(rows.codes[kept])
        every = np.unique(np.stack([np.concatenate(codes), np.concatenate(times_us)]), axis=1)
        entries = joined(encoded_times(every[1]), keys.take(pa.array(every[0])))
        self._expiries.write(groups, groups[every[0]], entries)

    def _output(
        self,
        left: SideRows | None,
        of_left: npt.NDArray[np.intp] | None,
        right: SideRows | None,
        of_right: npt.NDArray[np.intp] | None,
    ) -> AppendedRows:
        """Return rows (n,) of the left and of the right beside each other; None for NULL in the columns of a side."""
        given = ((left, of_left), (right, of_right))
        size = next(len(rows) for _, rows in given if rows is not None)
        taken = [None if rows is None else pa.array(rows) for _, rows in given]
        columns = []
        for column in self._layout.output:
            side, rows = given[column.side][0], taken[column.side]
            if side is None or rows is None:
                columns.append(pa.nulls(size, self._layout.sides[column.side][column.index].type))
            else:
                columns.append(side.columns[column.index].take(rows))
        if self._operator.adds_time:
            times = [side.times_us[rows] for side, rows in given if side is not None and rows is not None]
            columns.append(instants(np.maximum.reduce(times)))
        return AppendedRows(pa.table(columns, names=[field.name for field in self._operator.output_fields]))
