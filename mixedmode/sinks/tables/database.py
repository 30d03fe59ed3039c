"""What a table sink asks of a database: a transaction, and in it the table, its rows, and the ledger beside it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from mixedmode.checkpoint.types import Epoch
from mixedmode.sinks.tables.history import HistoryTable
from mixedmode.sinks.tables.ledger import Entry

#: of rows that get there by key; `delete` removes one
OP_COLUMN, DELETE = "_op", "delete"


@dataclass(frozen=True, slots=True)
class Shape:
    """Columns of the table that the job writes, and those of them that are its key.

    A table without a key has EPOCH_COLUMN among them, so that rows of later epochs can be taken back.
    """

    fields: tuple[pa.Field, ...]
    key_columns: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Of all columns, in order."""
        return [field.name for field in self.fields]

    @property
    def saved_names(self) -> list[str]:
        """The columns that the table's history has: all of a table with a key, none of one without."""
        return self.names if self.key_columns else []


class LostConnectionError(Exception):
    """The database cannot be reached, or went away: the transaction is in it as a whole, or not at all."""


class RefusedError(Exception):
    """The database does not take some rows of a call; those before it are as they were. `str` is its own words."""

    def __init__(self, why: str, *, constraint: str | None = None, column: str | None = None) -> None:
        super().__init__(why)
        self.constraint = constraint
        self.column = column


class Transaction(Protocol):
    """One transaction. Any method may raise LostConnectionError, and InvalidJobError where the database forbids it."""

    @property
    def history(self) -> HistoryTable:
        """The table's history, which has to be there when it is used."""

    def history_names(self) -> Sequence[str] | None:
        """The columns of the table that its history has; None if there is no history."""

    def history_ddl(self, shape: Shape) -> Sequence[str]:
        """The statements that create a history for `shape`, in the place of any other. The table has to be there."""

    def execute(self, statement: str) -> object:
        """Run a statement without parameters."""

    def has_table(self) -> bool:
        """Whether the table is there."""

    def differences(self, shape: Shape) -> Sequence[str] | None:
        """What the table is not as `shape` needs it, all of it; None if there is no table."""

    def create(self, shape: Shape) -> None:
        """Create the table."""

    def has_ledger(self) -> bool:
        """Whether the bookkeeping table is there."""

    def create_ledger(self) -> None:
        """Create it."""

    def entry(self) -> Entry | None:
        """The table's row in the bookkeeping, locked until the end; None if it has none. There has to be a ledger."""

    def put(self, entry: Entry) -> None:
        """Write that row."""

    def has_rows(self) -> bool:
        """Whether the table, which has to be there, has a row."""

    def clear(self) -> int:
        """Delete all rows; how many."""

    def delete_after(self, epoch: Epoch) -> int:
        """Delete the rows of later epochs from a table without a key; how many."""

    def begin(self, shape: Shape, *, saves: Epoch | None) -> None:
        """Called once, before the first `apply`. saves: what `apply` replaces is saved in the history of this epoch."""

    def apply(self, rows: pa.Table) -> None:
        """Insert rows of the shape's columns; by key and `_op` if it has a key, which is there once at most.

        Raises RefusedError, and has changed nothing then.
        """


class Database(Protocol):
    """One table of one database."""

    place: str  #: for messages, without secrets
    ledger_ddl: str  #: the statement that creates the bookkeeping table

    def transaction(self, *, creates: bool = False) -> AbstractContextManager[Transaction]:
        """Committed at the end of the block, durably; rolled back when it raises. `creates`: it may make tables.

        Raises LostConnectionError, also for a commit of which the answer was lost, and RefusedError for rows that are
        refused only at the commit.
        """

    def is_there(self) -> bool:
        """Whether there may be a table: a file that does not exist is not created by looking."""
