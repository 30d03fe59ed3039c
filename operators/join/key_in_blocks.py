"""One key of a join without a bound whose rows, new and stored, do not fit in memory.

Each side is sorted on disk by packed row (large_keys.py), stored rows together with the changes of the epoch. Then each
block of a side meets each block of the other side, unless nothing can change by that. As in regular.py, the stored rows
of a side are read only where the result depends on them; otherwise only how often the changed rows are there.

    Example: a left join by `l.v <= r.v`. The left has 1, the right 2 and 3; the epoch retracts 3. The first pass looks
    at pairs with a change, (1, 3): it is retracted, and 1 has lost a match. The second pass counts its others, (1, 2):
    1 still has one, and does not enter the result by itself.
"""

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    SIDE_COLUMN,
    WEIGHT_COLUMN,
    Changes,
    SubtaskContext,
)
from mixedmode.operators.join.bags import ALL_ROWS, Bag, SideRows, StoredBag, bag_rows
from mixedmode.operators.join.emission import Emission
from mixedmode.operators.join.large_keys import RowSorter, SortedSide
from mixedmode.operators.join.layout import LEFT, NULL_KEY, RIGHT
from mixedmode.operators.tables import column_of

__all__ = ["KeyInBlocks"]


@dataclass(frozen=True, slots=True)
class _Matches:
    """The matches of rows (n,): how many there were before the epoch, and how many there are after it.

    `is_touched`: rows that change, or of which a match does. The matches of others are not counted.
    """

    before: Int64s
    after: Int64s
    is_touched: Bools


@dataclass(frozen=True, slots=True)
class KeyInBlocks:
    """Joins the rows of one key. `is_decided`: the sides of which a row is in the result by itself, because it has a
    match (`keeps_matched`) or none. `emits_pairs`: pairs are in the result.
    """

    emission: Emission
    stored: tuple[StoredBag, StoredBag]
    context: SubtaskContext
    is_decided: tuple[bool, bool]
    emits_pairs: bool
    keeps_matched: bool

    def changes(self, tables: Iterator[pa.Table]) -> Iterator[Changes]:
        """Write the rows of a key, and yield the changes of the result, a block at a time."""
        with TemporaryDirectory(prefix="mixedmode-join-", dir=self.context.spill_dir) as name, ExitStack() as stack:
            folder = Path(name)
            budget = 2 * self.context.memory_bytes  # of each side; the rows of small keys take several times as much
            sorters = [RowSorter(budget_bytes=budget, spill_dir=folder) for _ in (LEFT, RIGHT)]
            for sorter in sorters:
                stack.callback(sorter.close)
            group, key, is_null = self._sort(tables, sorters)
            given = (sorters[LEFT].rows, sorters[RIGHT].rows)
            sides: dict[int, SortedSide] = {}
            for side in (RIGHT, LEFT):
                limit = 0 if is_null else self._stored_rows_needed(side, given, sides)
                for rows in self.stored[side].rows_of(group, key, limit, bytes_max=self.context.memory_bytes):
                    sorters[side].add(group, rows)
                blocks = sorters[side].blocks()
                if not is_null:
                    blocks = self.stored[side].updated(group, blocks, is_known=limit == ALL_ROWS)
                sides[side] = SortedSide.written(folder / f"side-{side}", blocks)
                sorters[side].close()
            yield from self._changes((sides[LEFT], sides[RIGHT]), is_null=is_null)

    def _sort(self, tables: Iterator[pa.Table], sorters: list[RowSorter]) -> tuple[int, pa.Array, bool]:
        """Sort the rows of the epoch. Return the key group and the encoded key (1,), and whether a NULL is in it."""
        layout = self.emission.layout
        for table in tables:
            encoded, sides = column_of(table, KEY_COLUMN), column_of(table, SIDE_COLUMN).to_numpy()
            group, key = column_of(table, KEY_GROUP_COLUMN)[0].as_py(), encoded.slice(0, 1)
            is_null = bool(sides[0] >= NULL_KEY)
            has_weights = WEIGHT_COLUMN in table.column_names
            weights = column_of(table, WEIGHT_COLUMN).to_numpy() if has_weights else np.ones(len(sides), np.int64)
            for side in (LEFT, RIGHT):
                rows = np.flatnonzero(sides % NULL_KEY == side)
                packed = self.stored[side].packed(encoded.take(pa.array(rows)), layout.columns_of(table, side, rows))
                sorters[side].add(group, SideRows.changed(packed, weights[rows]))
        return group, key, is_null

    def _stored_rows_needed(self, side: int, given: tuple[int, int], sides: dict[int, SortedSide]) -> int:
        """Return how many stored rows of a side have to be read, at most.

        given: the numbers of rows of the epoch. If only the presence of a row counts, one row is read, and one more for
        each row of the epoch, because those may be retracted.
        """
        presence = 1 + given[side]
        if self.context.backend.starts_empty:
            return 0
        if not self.emits_pairs and self.emission.condition is None:
            if side == RIGHT:
                return presence
            return ALL_ROWS if (sides[RIGHT].before > 0) != (sides[RIGHT].after > 0) else 0
        if given[1 - side]:
            return ALL_ROWS
        if not self.is_decided[1 - side]:
            return 0
        return presence if self.emission.condition is None else ALL_ROWS

    def _changes(self, sides: tuple[SortedSide, SortedSide], *, is_null: bool) -> Iterator[Changes]:
        has_condition = self.emission.condition is not None
        for side in (LEFT, RIGHT):
            other, is_decided = sides[1 - side], self.is_decided[side]
            has_pairs = self.emits_pairs and side == LEFT
            counts_pairs = not is_null and (has_pairs or (has_condition and (self.emits_pairs or is_decided)))
            for rows in sides[side].blocks():
                if not (rows.has_change or other.has_change):
                    continue
                own = self._bag(side, rows)
                size = len(rows.change)
                before, after = (0, 0) if is_null else (other.before, other.after)
                of_key = _Matches(np.full(size, before), np.full(size, after), np.ones(size, np.bool_))
                matches = (yield from self._pairs(own, side, other, emits=has_pairs)) if counts_pairs else of_key
                if self.emits_pairs:
                    self.context.fan_out.count(matches.after[own.change > 0])
                if is_decided:
                    yield from self._alone(own, side, matches if has_condition else of_key)

    def _pairs(self, own: Bag, side: int, other: SortedSide, *, emits: bool) -> Generator[Changes, None, _Matches]:
        """Yield the changes of the pairs of the rows of a block, if they are wanted. Return the matches."""
        changes = own.change != 0
        size, counts_all = len(changes), self.is_decided[side] and self.emission.condition is not None
        found = _Matches(np.zeros(size, np.int64), np.zeros(size, np.int64), changes.copy())
        for rows in other.blocks():
            if not (rows.has_change or changes.any()):
                continue
            partner = self._bag(1 - side, rows)
            is_changed = partner.change != 0
            for of_own, of_partner in ((changes, np.ones(len(is_changed), np.bool_)), (~changes, is_changed)):
                for own_rows, bags, pair in self._block(own, partner, side, of_own, of_partner, found):
                    found.is_touched[own_rows] = True
                    if emits:
                        yield from self.emission.changed_pairs(bags, *pair)
        rest = found.is_touched & ~changes
        for rows in other.blocks() if counts_all and rest.any() else ():  # the matches of these that do not change
            partner = self._bag(1 - side, rows)
            for _ in self._block(own, partner, side, rest, partner.change == 0, found):
                pass
        return found

    def _block(
        self, own: Bag, partner: Bag, side: int, of_own: Bools, of_partner: Bools, found: _Matches
    ) -> Iterator[tuple[Int64s, tuple[Bag, Bag], tuple[Int64s, Int64s]]]:
        """Yield the pairs of some rows of two blocks: the rows of `own`, and the pairs as the emission takes them.

        Count the matches in `found`.
        """
        is_left = side == LEFT
        bags = (own, partner) if is_left else (partner, own)
        for a, b in self.emission.pairs(bags, *((of_own, of_partner) if is_left else (of_partner, of_own))):
            own_rows, partners = (a, b) if is_left else (b, a)
            np.add.at(found.before, own_rows, partner.before[partners])
            np.add.at(found.after, own_rows, partner.after[partners])
            yield own_rows, bags, (a, b)

    def _alone(self, own: Bag, side: int, matches: _Matches) -> Iterator[Changes]:
        before, after = matches.before > 0, matches.after > 0
        if not self.keeps_matched:
            before, after = ~before, ~after
        yield from self.emission.alone(own, side, before & matches.is_touched, after & matches.is_touched)

    def _bag(self, side: int, rows: SideRows) -> Bag:
        size = len(rows.change)
        columns = bag_rows(self.emission.layout, side, rows.packed)
        return Bag(np.zeros(size, np.int64), rows.before, rows.change, np.arange(size), columns)
