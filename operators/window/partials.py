"""Windows as columns, in the sorter and in the state: their registers, and marks that say what the output holds.

Each row carries marks for its contents. So the sorter may merge a stored window with the new records of an
epoch. The operator still knows afterwards that a window was stored, and what the output holds of it.

    NEW       the row contains records of this epoch
    STORED    the row contains the stored window
    GIVEN     an early result of the window has been emitted     (kept in the state)
    CHANGED   the window has changed since it was last emitted   (kept in the state)

With early results and another keyed step downstream, a row also holds the registers of the last emitted result. They
are needed to retract this result. They are NULL if nothing was emitted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.aggregate import Aggregator
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.tables import column_of

NEW, STORED, GIVEN, CHANGED = (np.uint8(1 << bit) for bit in range(4))
_KEPT = np.uint8(GIVEN | CHANGED)
_MARKS = "_marks"

Marks = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64] | npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Partials:
    """Windows as columns of (n,) each. `given`: the registers as last emitted; empty if the operator keeps none."""

    registers: list[pa.Array]
    marks: Marks
    given: list[pa.Array]

    def has(self, marks: np.uint8) -> Bools:
        """Return (n,) True where any of `marks` is set."""
        found: Bools = (self.marks & marks) != 0
        return found

    def take(self, rows: Positions) -> "Partials":
        """Return the windows at `rows` (m,), in that order."""
        return Partials(take_all(self.registers, rows), self.marks[rows], take_all(self.given, rows))


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a window.

    `keeps_marks` is set with early results; `keeps_given` is set if, in addition, another keyed step is downstream.
    """

    aggregator: Aggregator
    keeps_marks: bool
    keeps_given: bool

    @classmethod
    def of(cls, aggregator: Aggregator, *, shows_early: bool, is_followed: bool) -> Self:
        """Return the layout for an operator with early results (`shows_early`) or a downstream step (`is_followed`)."""
        return cls(aggregator, shows_early, shows_early and is_followed)

    @property
    def given_fields(self) -> tuple[pa.Field, ...]:
        """The registers as they were when last emitted."""
        fields = self.aggregator.state_fields if self.keeps_given else ()
        return tuple(pa.field(f"_given{field.name}", field.type) for field in fields)

    @property
    def table_fields(self) -> tuple[pa.Field, ...]:
        """The columns of a window in the sorter."""
        return (*self.aggregator.state_fields, pa.field(_MARKS, pa.uint8()), *self.given_fields)

    @property
    def state_fields(self) -> tuple[pa.Field, ...]:
        """The columns of a window in the state."""
        marks = (pa.field(_MARKS, pa.int64()),) if self.keeps_marks else ()
        return (*self.aggregator.state_fields, *marks, *self.given_fields)

    def new(self, registers: list[pa.Array]) -> Partials:
        """Return windows that contain only records of this epoch."""
        rows = len(registers[0])
        given = [pa.nulls(rows, field.type) for field in self.given_fields]
        return Partials(registers, np.full(rows, NEW), given)

    def from_table(self, table: pa.Table) -> Partials:
        """Return the windows of a table of `table_fields`."""
        return Partials(
            [column_of(table, field.name) for field in self.aggregator.state_fields],
            column_of(table, _MARKS).to_numpy(),
            [column_of(table, field.name) for field in self.given_fields],
        )

    def table_columns(self, partials: Partials) -> list[pa.Array]:
        """Return the columns of `table_fields`."""
        return [*partials.registers, pa.array(partials.marks), *partials.given]

    def from_state(self, columns: Sequence[pa.Array]) -> Partials:
        """Return the windows of columns of `state_fields`."""
        count = len(self.aggregator.state_fields)
        marks = np.full(len(columns[0]), STORED)
        if self.keeps_marks:
            marks |= columns[count].to_numpy().astype(np.uint8)
        return Partials(list(columns[:count]), marks, list(columns[count + 1 :]))

    def state_columns(self, partials: Partials) -> list[pa.Array]:
        """Return the columns of `state_fields`."""
        marks = [pa.array((partials.marks & _KEPT).astype(np.int64))] if self.keeps_marks else []
        return [*partials.registers, *marks, *partials.given]

    def after(self, windows: Partials, is_given: Bools) -> Partials:
        """Return the windows to store; `is_given` (n,) says which of them were emitted in this epoch.

        A window that was emitted gets GIVEN and loses CHANGED. Another window with new records gets CHANGED.
        """
        changed = np.where(windows.has(NEW), windows.marks | CHANGED, windows.marks)
        marks = np.where(is_given, (windows.marks | GIVEN) & ~CHANGED, changed)
        if not self.keeps_given or not is_given.any():
            return Partials(windows.registers, marks, windows.given)
        mask = pa.array(is_given)
        given = [pc.if_else(mask, *pair) for pair in zip(windows.registers, windows.given, strict=True)]
        return Partials(windows.registers, marks, given)

    def merge(self, grouping: Grouping, partials: Partials) -> Partials:
        """Merge the rows of each group into one window. At most one row of a group is STORED."""
        marks = _all_marks(grouping, partials.marks)
        stored = np.full(grouping.size, -1)
        stored_rows = np.flatnonzero(partials.has(STORED))
        stored[grouping.codes[stored_rows]] = stored_rows
        return Partials(self.aggregator.merge(grouping, partials.registers), marks, take_all(partials.given, stored))


def _all_marks(grouping: Grouping, marks: Marks) -> Marks:
    """Return the union (size,) of the marks of each group's rows. Every group has at least one row."""
    union = np.zeros(grouping.size, np.uint8)
    for mark in (NEW, STORED, GIVEN, CHANGED):
        is_set = (marks & mark) != 0
        if is_set.all():
            union |= mark
        elif is_set.any():
            union[grouping.codes[is_set]] |= mark
    return union


def concat(parts: Sequence[Partials]) -> Partials:
    """Concatenate the windows of all parts, in order."""
    return Partials(
        [pa.concat_arrays(columns) for columns in zip(*(part.registers for part in parts), strict=True)],
        np.concatenate([part.marks for part in parts]),
        [pa.concat_arrays(columns) for columns in zip(*(part.given for part in parts), strict=True)],
    )


def take_all(columns: Sequence[pa.Array], rows: Positions) -> list[pa.Array]:
    """Return the values at `rows` (m,) of each column; a negative row gives NULL."""
    if not columns:
        return []
    lacking = rows < 0
    positions = pa.array(rows, mask=lacking if lacking.any() else None)
    return [column.take(positions) for column in columns]
