"""The interface between a table sink and a database: a transaction over the table, its rows, and the ledger
beside it.
"""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from mixedmode.checkpoint.types import Epoch
from mixedmode.sinks.tables.history import HistoryTable
from mixedmode.sinks.tables.ledger import Entry
from mixedmode.time.window_range import ReplacedRows

#: the column that says how a row with a key is applied, and its value for rows that are deleted
OP_COLUMN, DELETE = "_op", "delete"


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of the table that the job writes, and the columns among them that are its key.

    A table without a key has EPOCH_COLUMN among them, so that rows of later epochs can be deleted.
    """

    fields: tuple[pa.Field, ...]
    key_columns: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The names of all columns, in order."""
        return [field.name for field in self.fields]

    @property
    def saved_names(self) -> list[str]:
        """The columns that the table's history has: all columns of a table with a key, none of a table without one."""
        return self.names if self.key_columns else []


#: the error for a statement that was possible when the job started
CHANGED = (
    "a table of this output was dropped or changed while the job runs, so nothing of the epoch is in it. Put it back, "
    "and start the job again: the start names what is missing, and the epoch, which is committed, is written then. "
    "cause={cause}, table={place}"
)


class LostConnectionError(Exception):
    """The connection cannot be opened, or broke: the transaction was applied completely, or not at all."""


class RefusedError(Exception):
    """The database refuses some rows of a call; the call changed nothing. `str` is the database's own message."""

    def __init__(self, why: str, *, constraint: str | None = None, column: str | None = None) -> None:
        super().__init__(why)
        self.constraint = constraint
        self.column = column


class Transaction(Protocol):
    """One transaction. Any method may raise LostConnectionError, or InvalidJobError for a forbidden operation."""

    @property
    @abstractmethod
    def history(self) -> HistoryTable:
        """Return the table's history, which must exist when it is used."""

    @abstractmethod
    def history_names(self) -> Sequence[str] | None:
        """Return the columns of the table that its history has; None if there is no history, or one of other types."""

    @abstractmethod
    def history_ddl(self, shape: Shape) -> Sequence[str]:
        """Return the statements that create a history for `shape`, replacing any other history.
        The table must exist.
        """

    @abstractmethod
    def execute(self, statement: str) -> object:
        """Run a statement without parameters."""

    @abstractmethod
    def has_table(self) -> bool:
        """Return whether the table exists."""

    @abstractmethod
    def differences(self, shape: Shape) -> Sequence[str] | None:
        """Return all differences between the table and what `shape` requires; None if there is no table."""

    @abstractmethod
    def create(self, shape: Shape) -> None:
        """Create the table."""

    @abstractmethod
    def has_ledger(self) -> bool:
        """Return whether the bookkeeping table exists."""

    @abstractmethod
    def create_ledger(self) -> None:
        """Create the bookkeeping table."""

    @abstractmethod
    def entry(self) -> Entry | None:
        """Return the table's row in the bookkeeping table, locked until the transaction ends; None if it has no row.
        The bookkeeping table must exist.
        """

    @abstractmethod
    def put(self, entry: Entry) -> None:
        """Write the table's row in the bookkeeping table."""

    @abstractmethod
    def has_rows(self) -> bool:
        """Return whether the table has a row. The table must exist."""

    @abstractmethod
    def clear(self) -> int:
        """Delete all rows; return their number."""

    @abstractmethod
    def delete_after(self, epoch: Epoch) -> int:
        """Delete the rows of later epochs from a table without a key; return their number."""

    @abstractmethod
    def delete_windows(self, replaced: ReplacedRows) -> None:
        """Delete the rows of the windows in a range."""

    @abstractmethod
    def begin(self, shape: Shape, *, saves: Epoch | None) -> None:
        """Prepare for `apply`; called once, before the first `apply`. saves: the epoch in whose history `apply` saves
        what it replaces.
        """

    @abstractmethod
    def apply(self, rows: pa.Table) -> None:
        """Insert rows with the shape's columns. With a key, apply them by key and `_op`; each key occurs at most once.

        Raises RefusedError, and then has changed nothing.
        """


class Database(Protocol):
    """One table of one database."""

    place: str  #: for messages, without secrets
    ledger_ddl: str  #: the statement that creates the bookkeeping table

    @abstractmethod
    def transaction(self, *, creates: bool = False) -> AbstractContextManager[Transaction]:
        """Open a transaction that is committed durably at the end of the block, and rolled back if the block raises.

        `creates`: the block may create tables. Raises LostConnectionError, also if the answer to a commit was lost,
        and RefusedError for rows that are refused only at the commit.
        """

    @abstractmethod
    def is_there(self) -> bool:
        """Return whether the database may have a table. A file that does not exist is not created by this check."""
