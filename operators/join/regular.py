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

The stored rows of as many keys as fit in memory are read at once. A key whose rows, new and stored, do not fit by
themselves is joined in blocks (key_in_blocks.py).

The order of arrival and the cut of epochs change which rows are emitted and retracted, not their sum.

State: the rows of both sides, see bags.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

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
    Batch,
    Changelog,
    Changes,
    Folded,
    OperatorAttributes,
    OperatorTraits,
    SubtaskContext,
)
from mixedmode.operators.join.bags import ALL_ROWS, Arrivals, Bag, Changed, StoredBag, TouchedKeys
from mixedmode.operators.join.base import JoinBase
from mixedmode.operators.join.conditions import Condition
from mixedmode.operators.join.counts import counted_state
from mixedmode.operators.join.emission import Emission
from mixedmode.operators.join.key_in_blocks import KeyInBlocks
from mixedmode.operators.join.large_keys import KeyTables, LargeKey
from mixedmode.operators.join.layout import LEFT, NULL_KEY, RIGHT, JoinType, UInt8s, null_keys
from mixedmode.operators.join.products import BLOCK_ROWS
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
        """Pairs of rows that are never retracted are never retracted, nor is a row that has a partner. Time plays no
        part.
        """
        only_adds = self.type in ("inner", "semi") and not self.is_changelog
        return OperatorTraits(emits=Changelog.APPEND if only_adds else Changelog.RETRACT, state_uses_time=False)

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The rows of each side."""
        left, right = (
            counted_state(side, name, is_read_by_key=not self._numbers_rows(side))
            for side, name in ((LEFT, "left"), (RIGHT, "right"))
        )
        return (left, right)

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The side, the columns of both sides, and the weight if rows may be retracted."""
        return (*self.layout.input_fields, *([pa.field(WEIGHT_COLUMN, pa.int64())] if self.is_changelog else []))

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return the rows of both sides that may be in the result. No row is late."""
        del late_us
        assert batch.sides is not None, "a join has two sides"
        sides, keys, columns = batch.sides, batch.keys, self.layout.shared_columns(batch.arguments, batch.sides)
        if self.is_changelog:
            columns.append(pa.array(np.ones(len(sides), np.int64) if batch.weights is None else batch.weights))
        is_null = null_keys(keys)
        if is_null is not None:
            rows = np.flatnonzero(~is_null | np.array(_KEPT[self.type])[sides])
            taken = pa.array(rows)
            sides = (sides + np.where(is_null, NULL_KEY, 0).astype(np.uint8))[rows]
            keys, columns = [key.take(taken) for key in keys], [column.take(taken) for column in columns]
        encoded = encode_keys(keys, self.layout.key_schema)
        groups = pa.array(key_groups(encoded, max_parallelism=max_parallelism))
        names = [KEY_GROUP_COLUMN, KEY_COLUMN, *(field.name for field in self.input_fields)]
        return Folded(pa.table([groups, encoded, pa.array(sides), *columns], names=names))

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[Changes]:
        """Yield the changes of the result. Write the rows of both sides."""
        stored = self._stored(context)
        for one in KeyTables(tables, context.memory_bytes):
            if isinstance(one, LargeKey):
                yield from self._in_blocks(stored, context).changes(one.tables)
            else:
                yield from self._process(one, stored, context)

    @property
    def _emission(self) -> Emission:
        return Emission(self.layout, self.condition, self.block_rows, self.traits.emits is Changelog.APPEND)

    def _stored(self, context: SubtaskContext) -> tuple[StoredBag, StoredBag]:
        arrivals, states = Arrivals(context.epoch), self.states
        left, right = (
            StoredBag(self.layout, side, states[side], context.backend, arrivals if self._numbers_rows(side) else None)
            for side in (LEFT, RIGHT)
        )
        return left, right

    def _numbers_rows(self, side: int) -> bool:
        """Return whether each row of a side is stored by itself (bags.py)."""
        return not self.is_changelog and bool(self.layout.sides[side])

    def _in_blocks(self, stored: tuple[StoredBag, StoredBag], context: SubtaskContext) -> KeyInBlocks:
        return KeyInBlocks(
            self._emission,
            stored,
            context,
            _DECIDED[self.type],
            emits_pairs=self.type not in ("semi", "anti"),
            keeps_matched=self.type == "semi",
        )

    def _process(
        self, table: pa.Table, stored: tuple[StoredBag, StoredBag], context: SubtaskContext
    ) -> Iterator[Changes]:
        """Yield the changes of the keys of a table: at once if their stored rows fit in memory, else of each half.

        A key by itself whose stored rows do not fit is joined in blocks.
        """
        backend = context.backend
        encoded, sides = column_of(table, KEY_COLUMN), column_of(table, SIDE_COLUMN).to_numpy()
        grouping, first_rows = segments(encoded)
        groups = column_of(table, KEY_GROUP_COLUMN).to_numpy()[first_rows]
        keys = TouchedKeys(groups, encoded.take(pa.array(first_rows)), sides[first_rows] >= NULL_KEY)
        codes = grouping.codes.astype(np.int64)
        weights = column_of(table, WEIGHT_COLUMN).to_numpy() if self.is_changelog else np.ones(len(codes), np.int64)
        if backend.drops_writes and not self.is_changelog:
            left, right = (self._only_added(table, side, codes, sides) for side in (LEFT, RIGHT))
            yield from self._changes(keys, left, right, context.fan_out)
            return
        changed = []
        for side in (LEFT, RIGHT):
            rows = np.flatnonzero(sides % NULL_KEY == side)
            columns = self.layout.columns_of(table, side, rows)
            changed.append(stored[side].changed(keys, codes[rows], weights[rows], columns))
        bags = self._with_stored(keys, stored, changed, context.memory_bytes)
        if bags is None and len(keys) == 1:
            yield from self._in_blocks(stored, context).changes(iter([table]))
            return
        if bags is None:
            for half in halves(table, first_rows):
                yield from self._process(half, stored, context)
            return
        for side in (LEFT, RIGHT):
            stored[side].write(changed[side])
        yield from self._changes(keys, *bags, context.fan_out)

    def _only_added(self, table: pa.Table, side: int, codes: Int64s, sides: UInt8s) -> Bag:
        """Return the rows of a side as they are: where nothing is stored and retracted, equal rows may be apart."""
        rows = np.flatnonzero(sides % NULL_KEY == side)
        columns = [self.layout.column_in(table, side, index) for index in range(len(self.layout.sides[side]))]
        return Bag(codes[rows], np.zeros(len(rows), np.int64), np.ones(len(rows), np.int64), rows, columns)

    def _with_stored(
        self, keys: TouchedKeys, stored: Sequence[StoredBag], changed: Sequence[Changed], bytes_max: int
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
        left = with_stored[LEFT](
            right_changes | (left_changes & keeps_right),
            np.where(right_changes, ALL_ROWS, limits[LEFT]) if keeps_right and counts_one else None,
        )
        if left is None:
            return None
        right = with_stored[RIGHT](
            left_changes | (right_changes & keeps_left),
            np.where(left_changes, ALL_ROWS, limits[RIGHT]) if keeps_left and counts_one else None,
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
                yield from self._emission.alone(bag, side, before, after)
            else:
                yield from self._emission.alone(bag, side, ~before, ~after)

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
            for pair in self._emission.pairs(bags, *rows):
                may_change[pair[side]] = True
        rows = list(is_joined)
        rows[side] &= may_change
        before, after = np.zeros(len(own.codes), np.bool_), np.zeros(len(own.codes), np.bool_)
        for pair in self._emission.pairs(bags, *rows):
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
            for a, b in self._emission.pairs((left, right), of_left, of_right):
                np.add.at(partners[LEFT], a, right.after[b])
                np.add.at(partners[RIGHT], b, left.after[a])
                yield from self._emission.changed_pairs((left, right), a, b)
        for found, bag in zip(partners, (left, right), strict=True):
            fan_out.count(found[bag.change > 0])
