"""The outputs of a harness: rows that were not taken yet, and the current table of an upsert output."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from mixedmode.errors import InternalError
from mixedmode.operators.interface import DELETE, INSERT, OP_COLUMN
from mixedmode.testing.epoch import EpochOutput

Row = dict[str, Any]


class Outputs:
    """Collects the tables of each epoch, and makes Python rows of them on request.

    `keys` are the key columns of the main output: with them, it consists of upserts. `is_strict`: check that an
    insert's key is new, and that the row of an update or delete exists.
    """

    def __init__(self, keys: Sequence[str], *, is_strict: bool, table: Sequence[Row] = ()) -> None:
        self._keys = tuple(keys)
        self._is_strict = is_strict
        self._new: list[pa.Table] = []  #: not yet taken
        self._unapplied: list[pa.Table] = []  #: not yet in `_table`
        self._table: dict[tuple[Any, ...], Row] = {}  #: {key: row}; by number where rows have no key
        self._sides: dict[str, list[pa.Table]] = {}
        self._late: list[pa.Table] = []
        for row in table:
            self._table[self._key(row)] = dict(row)

    def add(self, output: EpochOutput) -> None:
        """Add the output of an epoch."""
        self._new += output.main
        self._unapplied += output.main
        self._late += output.late
        for tag, tables in output.sides.items():
            self._sides.setdefault(tag, []).extend(tables)

    def take(self) -> list[Row]:
        """Return the rows of the main output since the last call; upserts have `_op`."""
        tables, self._new = self._new, []
        return [row for table in tables for row in self._rows(table)]

    def take_side(self, tag: str) -> list[Row]:
        """Return the rows of a side output since the last call."""
        return [row for table in self._sides.pop(tag, []) for row in table.to_pylist()]

    def take_late(self) -> list[Row]:
        """Return the late records since the last call."""
        tables, self._late = self._late, []
        return [row for table in tables for row in table.to_pylist()]

    def table(self) -> list[Row]:
        """Return the rows that the sink has now. Raises InternalError for a change of a row that does not exist."""
        tables, self._unapplied = self._unapplied, []
        for table in tables:
            for row in self._rows(table):
                self._apply(row)
        return [dict(row) for row in self._table.values()]

    def _rows(self, table: pa.Table) -> list[Row]:
        rows: list[Row] = (table if self._keys else table.drop_columns([OP_COLUMN])).to_pylist()
        return rows

    def _key(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        if not self._keys:
            return (len(self._table),)
        return tuple("NaN" if row[name] != row[name] else row[name] for name in self._keys)  # NaN is one key

    def _apply(self, row: Row) -> None:
        key, operation = self._key(row), row.pop(OP_COLUMN, INSERT)
        # e.g. an insert of a key that exists (True == True), or a delete of one that does not (False == False)
        if self._is_strict and (operation == INSERT) == (key in self._table):
            msg = (
                "the output changes a row that is not there, or inserts one that is. This is a defect of the operator; "
                f"report it. operation={operation}, row={row}"
            )
            raise InternalError(msg)
        if operation == DELETE:
            self._table.pop(key, None)
        else:
            self._table[key] = row
