"""Keys of a join without a bound whose rows do not fit in memory: each side is sorted, and kept on disk in blocks.

A row of a side is its packed row (bags.py), with the number of such rows, before the epoch and as a change. Sorting by
the packed row brings equal rows together, stored ones and changes, and into the order of the state.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.interface import KEY_COLUMN, KEY_GROUP_COLUMN, WEIGHT_COLUMN
from mixedmode.operators.join.bags import SideRows
from mixedmode.operators.tables import column_of
from mixedmode.sort import ExternalSorter, read_run, write_run

__all__ = ["KeyTables", "LargeKey", "RowSorter", "SortedSide"]

_BLOCK_BYTES = 2**20
_NUMBERS = ("_before", WEIGHT_COLUMN)  #: columns: how often a row was there, and how often the epoch adds it


@dataclass(frozen=True, slots=True)
class LargeKey:
    """The rows of one key in several tables, which are read once, before the next key is asked for."""

    tables: Iterator[pa.Table]


class KeyTables:
    """Sorted tables, cut anew: a table has whole keys; a key of more than `bytes_max` is a LargeKey."""

    def __init__(self, tables: Iterable[pa.Table], bytes_max: int) -> None:
        """tables: sorted by key, cut anywhere."""
        self._tables = iter(tables)
        self._bytes_max = bytes_max
        self._held = list[pa.Table]()  #: the rows of the last key so far

    def __iter__(self) -> Iterator[pa.Table | LargeKey]:
        """Yield all rows, in order."""
        while (table := next(self._tables, None)) is not None:
            done = self._add(table)
            if done is not None:
                yield done
            if sum(one.nbytes for one in self._held) > self._bytes_max:
                yield LargeKey(self._rest())
        if self._held:
            yield _whole(self._held)

    def _add(self, table: pa.Table) -> pa.Table | None:
        """Hold the rows of the last key of a table. Return the rows of the keys before it."""
        starts = _starts(table)
        if not len(starts):
            return None
        if self._held and len(starts) == 1 and _first_key(self._held[0]) == _first_key(table):
            self._held.append(table)
            return None
        last = int(starts[-1])
        done = [*self._held, *([table.slice(0, last)] if last else [])]
        self._held = [table.slice(last)]
        return _whole(done) if done else None

    def _rest(self) -> Iterator[pa.Table]:
        """Yield the rows that are held, and the further ones of their key. Hold the rows after them."""
        key, held, self._held = _first_key(self._held[0]), self._held, []
        while held:
            yield held.pop(0)
        for table in self._tables:
            starts = _starts(table)
            if not len(starts):
                continue
            own = 0
            if _first_key(table) == key:
                own = int(starts[1]) if len(starts) > 1 else table.num_rows
                yield table.slice(0, own)
            if own < table.num_rows:
                self._tables = _before(table.slice(own), self._tables)
                return


class RowSorter:
    """Sorts the rows of one side of a key by their packed row, in `budget_bytes`; equal rows become one.

    `rows`: how many have been added.
    """

    def __init__(self, *, budget_bytes: int, spill_dir: Path) -> None:
        self._sorter = ExternalSorter(budget_bytes=budget_bytes, spill_dir=spill_dir, combine=_summed)
        self.rows = 0

    def add(self, group: int, rows: SideRows) -> None:
        """Add rows of the key, whose key group is `group`."""
        if len(rows.packed):
            groups = pa.array(np.full(len(rows.packed), group, np.uint16))
            names = [KEY_GROUP_COLUMN, KEY_COLUMN, *_NUMBERS]
            self._sorter.add(pa.table([groups, rows.packed, pa.array(rows.before), pa.array(rows.change)], names=names))
            self.rows += len(rows.packed)

    def blocks(self) -> Iterator[SideRows]:
        """Yield the rows, each once and in order, without those that neither were there nor are. May be called once."""
        for table in self._sorter.sorted_tables():
            before, change = (column_of(table, name).to_numpy() for name in _NUMBERS)
            kept = np.flatnonzero((before != 0) | (change != 0))
            yield SideRows(column_of(table, KEY_COLUMN).take(pa.array(kept)), before[kept], change[kept])

    def close(self) -> None:
        """Remove the files of the sorter."""
        self._sorter.close()


@dataclass(frozen=True, slots=True)
class SortedSide:
    """The sorted rows of one side of a key on local disk. `before`, `after`: how many rows there were before the epoch,
    and are after it, equal ones counted. `has_change`: one of them changes.
    """

    path: Path
    before: int
    after: int
    has_change: bool

    @classmethod
    def written(cls, path: Path, blocks: Iterable[SideRows]) -> "SortedSide":
        """Write blocks of rows."""
        before = change = 0
        has_change = False

        def tables() -> Iterator[pa.Table]:
            nonlocal before, change, has_change
            for rows in blocks:
                before, change = before + int(rows.before.sum()), change + int(rows.change.sum())
                has_change = has_change or rows.has_change
                columns = [rows.packed, pa.array(rows.before), pa.array(rows.change)]
                yield pa.table(columns, names=[KEY_COLUMN, *_NUMBERS])

        write_run(path, tables(), block_bytes=_BLOCK_BYTES)
        return cls(path, before, before + change, has_change)

    def blocks(self) -> Iterator[SideRows]:
        """Yield the rows again."""
        for table in read_run(self.path):
            yield SideRows(column_of(table, KEY_COLUMN), *(column_of(table, name).to_numpy() for name in _NUMBERS))


def _summed(table: pa.Table) -> pa.Table:
    """Return each packed row once, with the sums of its numbers."""
    _, first_rows = segments(column_of(table, KEY_COLUMN))
    taken = pa.array(first_rows)
    columns = [column_of(table, name).take(taken) for name in (KEY_GROUP_COLUMN, KEY_COLUMN)]
    sums = [pa.array(np.add.reduceat(column_of(table, name).to_numpy(), first_rows)) for name in _NUMBERS]
    return pa.table([*columns, *sums], schema=table.schema)


def _starts(table: pa.Table) -> npt.NDArray[np.intp]:
    """Return the first row of each key."""
    return segments(column_of(table, KEY_COLUMN))[1] if table.num_rows else np.zeros(0, np.intp)


def _first_key(table: pa.Table) -> pa.Scalar:
    return column_of(table, KEY_COLUMN)[0]


def _whole(tables: list[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()


def _before(table: pa.Table, others: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield table
    yield from others
