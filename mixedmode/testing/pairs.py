"""The records of two inputs as rows of one table, for a harness of a function over two inputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from mixedmode.config.arguments import of_type
from mixedmode.errors import InvalidJobError
from mixedmode.operators.interface import SIDE_COLUMN
from mixedmode.testing.step import Rows, column_type, table_of

__all__ = ["PairOfInputs"]


@dataclass(frozen=True, slots=True)
class PairOfInputs:
    """The columns of a left and a right input.

    `shared`: the key columns and the event-time column, which both have. A row has them, its side, the columns of its
    side as `left.NAME` or `right.NAME`, and NULL in those of the other one.
    """

    left: pa.Schema
    right: pa.Schema
    shared: tuple[str, ...]
    where: str

    @classmethod
    def checked(
        cls, left: pa.Schema, right: pa.Schema, keys: Sequence[str], event_time: str | None, *, where: str
    ) -> Self:
        """Return the pair. Raise InvalidJobError unless both have the same key columns and event-time column."""
        if event_time is None:
            msg = f"{where}: event_time is missing: a function over two inputs sees their records in its order."
            raise InvalidJobError(msg)
        of_type(event_time, str, f"{where}: event_time", "the name of a column")
        shared = tuple(dict.fromkeys([*keys, event_time]))
        for name in shared:
            own, other = (
                column_type(left, name, where=f"{where}: schema"),
                column_type(right, name, where=f"{where}: schema[1]"),
            )
            if own != other:
                msg = f"{where}: both inputs need this column with one type. column={name}, types={own}, {other}"
                raise InvalidJobError(msg)
        return cls(left, right, shared, where)

    @property
    def record_fields(self) -> tuple[pa.Field, ...]:
        """The columns of the left, then those of the right."""
        return (*self.left, *self.right)

    @property
    def arguments(self) -> list[str]:
        """The names of these columns in the table."""
        return [*(f"left.{name}" for name in self.left.names), *(f"right.{name}" for name in self.right.names)]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        both = zip(self.arguments, self.record_fields, strict=True)
        shared = [self.left.field(name) for name in self.shared]
        return pa.schema([*shared, pa.field(SIDE_COLUMN, pa.int8()), *(pa.field(name, f.type) for name, f in both)])

    def table(self, left: Rows, right: Rows) -> pa.Table:
        """Return the records of both. Raise InvalidJobError for one that does not fit its input."""
        tables = [
            table_of(rows, schema, where=f"{self.where}: {side}")
            for rows, schema, side in ((left, self.left, "left"), (right, self.right, "right"))
        ]
        return pa.concat_tables([self._of_side(number, table) for number, table in enumerate(tables)])

    def _of_side(self, number: int, table: pa.Table) -> pa.Table:
        columns = [table.column(name) for name in self.shared]
        columns.append(pa.array(np.full(table.num_rows, number, np.int8)))
        for side, schema in enumerate((self.left, self.right)):
            own = side == number
            columns += [table.column(f.name) if own else pa.nulls(table.num_rows, f.type) for f in schema]
        return pa.table(columns, schema=self.schema)
