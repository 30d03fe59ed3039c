"""The operator of a join without a bound in time: all rows of both sides with equal keys belong together.

Both sides are bags, as tables of SQL are: equal rows count as often as they are there. An epoch changes some rows of
both sides. A pair of rows is in the result (rows of the left) * (rows of the right) times; the operator emits by how
much that number changes. So it reads the stored rows of a key only of the side whose other side changes.

    Example: 2 equal rows of the left, 1 of the right: 2 pairs. The epoch adds 1 to the left and retracts that of the
    right: 3 * 0 - 2 * 1 = -2, two retractions.

A row without a match is in the result of an outer or anti join while its key has no row on the other side; one with a
match is in that of a semi join. NULL is not equal to NULL: a row with a NULL in its key has no match, and no state.

With a condition, a match is a row of the key for which the condition holds. So where a row may be in the result by
itself, both sides of its key are read, and the condition is computed for all pairs of the rows that may have changed.

In the backlog, a key of which one table cannot hold all rows is joined in blocks: each side is sorted and kept on disk,
and each block of the left meets each block of the right (large_keys.py). Where keys may have stored rows, the stored
rows of as many keys as fit in memory are read at once; all rows of one key, new and stored, have to fit.

The order of arrival and the cut of epochs change which rows are emitted and retracted, not their sum.

State: the rows of both sides, see bags.py.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from mixedmode.keys import encode_keys, key_groups
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.fan_out import FanOut
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    SIDE_COLUMN,
    WEIGHT_COLUMN,
    AppendedRows,
    Batch,
    Changelog,
    Changes,
    Folded,
    OperatorAttributes,
    OperatorTraits,
    SubtaskContext,
)
from mixedmode.operators.join.bags import Bag, Changed, StoredBag, TouchedKeys, bag_rows, packed_rows
from mixedmode.operators.join.base import JoinBase
from mixedmode.operators.join.conditions import Condition
from mixedmode.operators.join.counts import counted_state
from mixedmode.operators.join.joined_rows import JoinedRows
from mixedmode.operators.join.large_keys import KeyTables, LargeKey, RowSorter, SortedSide
from mixedmode.operators.join.layout import LEFT, RIGHT, JoinType, UInt8s, null_keys
from mixedmode.operators.join.products import BLOCK_ROWS, blocks_of_pairs, blocks_of_repeats
from mixedmode.operators.tables import column_of, halves
from mixedmode.state import StateDescriptor

__all__ = ["RegularJoinOperator"]

#: the sides of which a row without a match is in the result
_KEPT: Mapping[JoinType, tuple[bool, bool]] = {
    "inner": (False, False),
    "left": (True, False),
    "right": (False, True),
    "full": (True, True),
    "semi": (False, False),
    "anti": (True, False),
}
#: the sides of which a row is in the result by itself, because it has a match or none
_DECIDED: Mapping[JoinType, tuple[bool, bool]] = {**_KEPT, "semi": (True, False)}
_NULL_KEY = 2  #: added to the side of a row with a NULL in its key
_NO_ROWS = np.empty(0, np.intp)


@dataclass(frozen=True, slots=True)
class RegularJoinOperator(JoinBase):
    """Emits how the join of two bags changes.

    `is_changelog`: rows of the input may be retracted. `block_rows`: the most rows that are emitted at once.
    `emits_retractions`: another step reads the rows; retractions are emitted anyway. `condition`: what else must hold
    of a pair.
    """

    type: JoinType
    is_changelog: bool
    block_rows: int = BLOCK_ROWS
    emits_retractions: bool = False
    condition: Condition | None = None

    attributes = OperatorAttributes(undivided="row")

    @property
    def traits(self) -> OperatorTraits:
        """Only pairs of rows that are never retracted are never retracted. Time plays no part."""
        only_adds = self.type == "inner" and not self.is_changelog
        return OperatorTraits(emits=Changelog.APPEND if only_adds else Changelog.RETRACT, state_uses_time=False)

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The rows of each side."""
        return (counted_state(LEFT, "left"), counted_state(RIGHT, "right"))

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The side, the columns of both sides, and the weight if rows may be retracted."""
        return (*self.layout.input_fields, *([pa.field(WEIGHT_COLUMN, pa.int64())] if self.is_changelog else []))

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return the rows of both sides that may be in the result. No row is late."""
        del late_us
        assert batch.sides is not None, "a join has two sides"
        sides, keys, columns = batch.sides, batch.keys, self.layout.shared_columns(batch.arguments)
        if self.is_changelog:
            columns.append(pa.array(np.ones(len(sides), np.int64) if batch.weights is None else batch.weights))
        is_null = null_keys(keys)
        if is_null is not None:
            rows = np.flatnonzero(~is_null | np.array(_KEPT[self.type])[sides])
            taken = pa.array(rows)
            sides = (sides + np.where(is_null, _NULL_KEY, 0).astype(np.uint8))[rows]
            keys, columns = [key.take(taken) for key in keys], [column.take(taken) for column in columns]
        encoded = encode_keys(keys, self.layout.key_schema)
        groups = pa.array(key_groups(encoded, max_parallelism=max_parallelism))
        names = [KEY_GROUP_COLUMN, KEY_COLUMN, *(field.name for field in self.input_fields)]
        return Folded(pa.table([groups, encoded, pa.array(sides), *columns], names=names), _NO_ROWS)

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Yield nothing: a key without a new row does not change."""
        del context
        return iter(())

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[Changes]:
        """Yield the changes of the result. Write the rows of both sides."""
        most = context.memory_bytes if context.backend.starts_empty else sys.maxsize
        for one in KeyTables(tables, most):
            if isinstance(one, LargeKey):
                yield from self._process_large(one, context)
            else:
                yield from self._process(one, context)

    def _process_large(self, key: LargeKey, context: SubtaskContext) -> Iterator[Changes]:
        """Yield the changes of a key that has no stored rows, a block at a time."""
        with TemporaryDirectory(prefix="mixedmode-join-", dir=context.spill_dir) as folder, ExitStack() as stack:
            sorters: list[RowSorter] = []
            is_null = False
            for table in key.tables:
                encoded, sides = column_of(table, KEY_COLUMN), column_of(table, SIDE_COLUMN).to_numpy()
                if not sorters:
                    is_null, group = bool(sides[0] >= _NULL_KEY), column_of(table, KEY_GROUP_COLUMN)[0].as_py()
                    budget = (
                        2 * context.memory_bytes
                    )  # of each side; the rows of small keys take as much several times over
                    sorters += [RowSorter(group, budget_bytes=budget, spill_dir=Path(folder)) for _ in (LEFT, RIGHT)]
                    for sorter in sorters:
                        stack.callback(sorter.close)
                weights = column_of(table, WEIGHT_COLUMN).to_numpy() if self.is_changelog else np.ones(len(sides), int)
                for side in (LEFT, RIGHT):
                    rows = np.flatnonzero(sides % _NULL_KEY == side)
                    columns = self.layout.columns_of(table, side, rows)
                    sorters[side].add(
                        packed_rows(self.layout, side, encoded.take(pa.array(rows)), columns), weights[rows]
                    )
            found = []
            for side in (LEFT, RIGHT):
                stored = StoredBag(self.layout, side, self.states[side], context.backend)
                is_kept = not (is_null or context.backend.drops_writes)
                blocks = (
                    stored.written(sorters[side].group, sorters[side].blocks()) if is_kept else sorters[side].blocks()
                )
                found.append(SortedSide.written(Path(folder) / f"side-{side}", blocks))
                sorters[side].close()
            yield from self._large_changes((found[LEFT], found[RIGHT]), context.fan_out, is_null=is_null)

    def _large_changes(
        self, sides: tuple[SortedSide, SortedSide], fan_out: FanOut, *, is_null: bool
    ) -> Iterator[Changes]:
        """Yield the pairs of all rows of a key, and the rows that are in the result by themselves."""
        emits_pairs = self.type not in ("semi", "anti")
        for side in (LEFT, RIGHT):
            looks_at_pairs = not is_null and (self.condition is not None or (emits_pairs and side == LEFT))
            for packed, counts in sides[side].blocks():
                own = Bag.added(bag_rows(self.layout, side, packed), counts)
                partners = np.full(len(counts), 0 if is_null or looks_at_pairs else sides[1 - side].rows)
                for others in sides[1 - side].blocks() if looks_at_pairs else ():
                    other = Bag.added(bag_rows(self.layout, 1 - side, others[0]), others[1])
                    bags = (own, other) if side == LEFT else (other, own)
                    every = [np.ones(len(bag.codes), np.bool_) for bag in bags]
                    for pair in self._blocks(bags, *every):
                        np.add.at(partners, pair[side], other.change[pair[1 - side]])
                        if emits_pairs and side == LEFT:
                            left, right = ((bag, bag.rows[rows]) for bag, rows in zip(bags, pair, strict=True))
                            weights = own.change[pair[LEFT]] * other.change[pair[RIGHT]]
                            yield from self._emitted(weights, left, right)
                if emits_pairs:
                    fan_out.count(partners)
                if _DECIDED[self.type][side]:
                    is_there = partners > 0 if self.type == "semi" else partners == 0
                    yield from self._alone(own, side, np.zeros(len(counts), np.bool_), is_there)

    def _process(self, table: pa.Table, context: SubtaskContext) -> Iterator[Changes]:
        """Yield the changes of the keys of a table: at once if their stored rows fit in memory, else of each half."""
        backend = context.backend
        encoded, sides = column_of(table, KEY_COLUMN), column_of(table, SIDE_COLUMN).to_numpy()
        grouping, first_rows = segments(encoded)
        groups = column_of(table, KEY_GROUP_COLUMN).to_numpy()[first_rows]
        keys = TouchedKeys(groups, encoded.take(pa.array(first_rows)), sides[first_rows] >= _NULL_KEY)
        codes = grouping.codes.astype(np.int64)
        weights = column_of(table, WEIGHT_COLUMN).to_numpy() if self.is_changelog else np.ones(len(codes), np.int64)
        if backend.drops_writes and not self.is_changelog:
            left, right = (self._only_added(table, side, codes, sides) for side in (LEFT, RIGHT))
            yield from self._changes(keys, left, right, context.fan_out)
            return
        stored = [StoredBag(self.layout, side, self.states[side], backend) for side in (LEFT, RIGHT)]
        changed = []
        for side in (LEFT, RIGHT):
            rows = np.flatnonzero(sides % _NULL_KEY == side)
            columns = self.layout.columns_of(table, side, rows)
            changed.append(stored[side].changed(keys, codes[rows], weights[rows], columns))
        bags = self._with_stored(keys, stored, changed, None if len(keys) == 1 else context.memory_bytes)
        if bags is None:
            for half in halves(table, first_rows):
                yield from self._process(half, context)
            return
        for side in (LEFT, RIGHT):
            stored[side].write(changed[side])
        yield from self._changes(keys, *bags, context.fan_out)

    def _only_added(self, table: pa.Table, side: int, codes: Int64s, sides: UInt8s) -> Bag:
        """Return the rows of a side as they are: where nothing is stored and retracted, equal rows may be apart."""
        rows = np.flatnonzero(sides % _NULL_KEY == side)
        columns = [self.layout.column_in(table, side, index) for index in range(len(self.layout.sides[side]))]
        return Bag(codes[rows], np.zeros(len(rows), np.int64), np.ones(len(rows), np.int64), rows, columns)

    def _with_stored(
        self, keys: TouchedKeys, stored: Sequence[StoredBag], changed: Sequence[Changed], bytes_max: int | None
    ) -> tuple[Bag, Bag] | None:
        """Return the changed rows of both sides, and the stored rows that the result depends on.

        Return None if the stored rows of a side exceed `bytes_max`. A side whose other side has changed rows is read
        whole. If only the presence of a row counts, one row is read, and one more for each changed row of the key,
        because the changed ones may be retracted. With a condition, the presence of a row says nothing.
        """
        size = len(keys)
        left_changes, right_changes = (one.bag.has_change(size) for one in changed)
        limits = [1 + np.bincount(one.bag.codes, minlength=size) for one in changed]
        with_stored = [
            partial(side.with_stored, keys, own, bytes_max=bytes_max) for side, own in zip(stored, changed, strict=True)
        ]
        if self.type in ("semi", "anti") and self.condition is None:
            right = with_stored[RIGHT](np.ones(size, np.bool_), limits[RIGHT])
            if right is None:
                return None
            before, after = right.is_there(size)
            left = with_stored[LEFT](before != after)
            return None if left is None else (left, right)
        keeps_left, keeps_right = _DECIDED[self.type]
        counts_one = self.condition is None
        most = np.iinfo(np.int64).max
        left = with_stored[LEFT](
            right_changes | (left_changes & keeps_right),
            np.where(right_changes, most, limits[LEFT]) if keeps_right and counts_one else None,
        )
        if left is None:
            return None
        right = with_stored[RIGHT](
            left_changes | (right_changes & keeps_left),
            np.where(left_changes, most, limits[RIGHT]) if keeps_left and counts_one else None,
        )
        return None if right is None else (left, right)

    def _changes(self, keys: TouchedKeys, left: Bag, right: Bag, fan_out: FanOut) -> Iterator[Changes]:
        bags = (left, right)
        if self.type not in ("semi", "anti"):
            yield from self._pairs(keys, left, right, fan_out)
        for side, bag in enumerate(bags):
            if not _DECIDED[self.type][side]:
                continue
            before, after = self._has_match(keys, bags, side)
            if self.type == "semi":
                yield from self._alone(bag, side, before, after)
            else:
                yield from self._alone(bag, side, ~before, ~after)

    def _has_match(self, keys: TouchedKeys, bags: tuple[Bag, Bag], side: int) -> tuple[Bools, Bools]:
        """Return (n,) which rows of a side have a match, before and after the epoch.

        With a condition, both are False for rows without a change of their matches.
        """
        own, other = bags[side], bags[1 - side]
        if self.condition is None:
            before, after = (is_there & ~keys.is_null for is_there in other.is_there(len(keys)))
            return before[own.codes], after[own.codes]
        is_joined = [~keys.is_null[bag.codes] for bag in bags]
        may_change = own.change != 0
        if not may_change.all():
            rows = [one.copy() for one in is_joined]
            rows[side] &= ~may_change
            rows[1 - side] &= other.change != 0
            for pair in self._blocks(bags, *rows):
                may_change[pair[side]] = True
        rows = list(is_joined)
        rows[side] &= may_change
        before, after = np.zeros(len(own.codes), np.bool_), np.zeros(len(own.codes), np.bool_)
        for pair in self._blocks(bags, *rows):
            before[pair[side][other.before[pair[1 - side]] > 0]] = True
            after[pair[side][other.after[pair[1 - side]] > 0]] = True
        return before, after

    def _pairs(self, keys: TouchedKeys, left: Bag, right: Bag, fan_out: FanOut) -> Iterator[Changes]:
        """Yield the pairs of which a row has changed. Count the partners of the rows that are added."""
        partners = [np.zeros(len(bag.codes), np.int64) for bag in (left, right)]
        is_joined = [~keys.is_null[bag.codes] for bag in (left, right)]
        is_changed = [bag.change != 0 for bag in (left, right)]
        for of_left, of_right in (
            (is_changed[LEFT] & is_joined[LEFT], is_joined[RIGHT]),
            (~is_changed[LEFT] & is_joined[LEFT], is_changed[RIGHT] & is_joined[RIGHT]),
        ):
            for a, b in self._blocks((left, right), of_left, of_right):
                weights = left.after[a] * right.after[b] - left.before[a] * right.before[b]
                np.add.at(partners[LEFT], a, right.after[b])
                np.add.at(partners[RIGHT], b, left.after[a])
                yield from self._emitted(weights, (left, left.rows[a]), (right, right.rows[b]))
        for found, bag in zip(partners, (left, right), strict=True):
            fan_out.count(found[bag.change > 0])

    def _blocks(self, bags: tuple[Bag, Bag], of_left: Bools, of_right: Bools) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield the pairs of the rows for which `of_left` and `of_right` are True, in blocks."""
        left, right = bags
        lefts, rights = np.flatnonzero(of_left), np.flatnonzero(of_right)
        for a, b in blocks_of_pairs(lefts, left.codes[lefts], rights, right.codes[rights], self.block_rows):
            if self.condition is None:
                yield a, b
                continue
            holds = self.condition.holds((left.columns, right.columns), left.rows[a], right.rows[b])
            if holds.any():
                yield a[holds], b[holds]

    def _alone(self, bag: Bag, side: int, before: Bools, after: Bools) -> Iterator[Changes]:
        """Yield the changes of rows of one side that are in the result by themselves.

        before, after: (n,) True for the rows for which that holds, before and after the epoch.
        """
        weights = bag.after * after - bag.before * before
        rows = np.flatnonzero(weights)
        for start in range(0, len(rows), self.block_rows):
            own = rows[start : start + self.block_rows]
            given = (bag, bag.rows[own])
            yield from self._emitted(weights[own], *((given, None) if side == LEFT else (None, given)))

    def _emitted(
        self, weights: Int64s, left: tuple[Bag, Int64s] | None, right: tuple[Bag, Int64s] | None
    ) -> Iterator[Changes]:
        """Yield rows of the result (n,), each as often as the size of its weight.

        left, right: the rows of the sides; None: NULL.
        """
        if (weights == 1).all():
            yield self._block(None, weights, left, right)
            return
        for nth in blocks_of_repeats(np.abs(weights), self.block_rows):
            yield self._block(nth, np.sign(weights[nth]), left, right)

    def _block(
        self,
        nth: Int64s | None,
        weights: Int64s,
        left: tuple[Bag, Int64s] | None,
        right: tuple[Bag, Int64s] | None,
    ) -> Changes:
        taken = [None if one is None else pa.array(one[1] if nth is None else one[1][nth]) for one in (left, right)]
        columns = []
        for column in self.layout.output:
            given = (left, right)[column.side]
            if given is None:
                field = self.layout.sides[column.side][column.index]
                columns.append(pa.nulls(len(weights), field.type))
            else:
                columns.append(given[0].columns[column.index].take(taken[column.side]))
        rows = pa.table(columns, names=[column.name for column in self.layout.output])
        return AppendedRows(rows) if self.traits.emits is Changelog.APPEND else JoinedRows(rows, weights)
