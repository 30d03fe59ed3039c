# ruff: noqa: S608 - only numbers, digests and quoted names are inserted into statements
"""The history of a table, in a table beside it: what each epoch replaced, so that going back restores it.

    _mixedmode_epoch  _mixedmode_kind  _mixedmode_content  columns of the table
    7                 mark             9f3a...                                     epoch 7 is in the table
    7                 row                                  the row that a key had before epoch 7
    7                 absent                               its key only: the table had no row of it before epoch 7

The oldest saved state of a key after epoch N is the state that the key had in N. So going back to N is one delete and
one upsert. For example, if key k was saved in epochs 7 and 9, going back to 6 restores what epoch 7 saved, and going
back to 8 restores what epoch 9 saved. Rows are only added, and numbered (_mixedmode_n): an index by key would cost
more than the rows.

Marks are also kept for tables without a key. They say which epochs led to the contents of the table (`content_after`
in mixedmode/checkpoint/contents.py).

All statements are the same in PostgreSQL and in SQLite. Invariants (tests/tables/test_going_back.py):
  I1  after `go_back(N)`, the table is as it was after N, if there is a mark of N or of an earlier epoch
  I2  there is a mark of N or of an earlier epoch, unless N is older than the epoch given to `prune`
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

from mixedmode.checkpoint.types import Epoch

__all__ = ["HISTORY_COLUMNS", "HistoryTable", "Mark", "history_name", "quoted"]

_NUMBER, _EPOCH, _KIND, _CONTENT = HISTORY_COLUMNS = (
    *("_mixedmode_n", "_mixedmode_epoch", "_mixedmode_kind", "_mixedmode_content"),
)
_PREFIX = "_mixedmode_history_"
_NAME_BYTES_MAX = 63  # the limit of PostgreSQL


class Cursor(Protocol):
    """The result of a statement in both databases."""

    @property
    def rowcount(self) -> int:
        """The number of rows that were changed."""

    def fetchone(self) -> Any:
        """Return the next row."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The record that an epoch is in the table, with the digest of all outputs up to it."""

    epoch: Epoch
    content: str


@dataclass(frozen=True, slots=True)
class HistoryTable:
    """The history of one table, in the transaction of `execute`.
    `table` and `name` are quoted and include the schema.
    """

    execute: Callable[[str], Cursor]
    table: str
    name: str

    def mark(self, mark: Mark) -> None:
        """Record that an epoch is in the table."""
        self.execute(
            f"INSERT INTO {self.name} ({_EPOCH}, {_KIND}, {_CONTENT}) VALUES ({mark.epoch}, 'mark', '{mark.content}')"
        )

    def newest_mark(self, up_to: Epoch) -> Mark | None:
        """Return the newest mark of an epoch up to this one."""
        row = self.execute(
            f"SELECT {_EPOCH}, {_CONTENT} FROM {self.name} WHERE {_KIND} = 'mark' AND {_EPOCH} <= {up_to} "
            f"ORDER BY {_EPOCH} DESC LIMIT 1"
        ).fetchone()
        return None if row is None else Mark(Epoch(row[0]), row[1])

    def save(self, epoch: Epoch, keys: Sequence[str], names: Sequence[str], source: str) -> str:
        """Return the statement that saves the table's rows of the keys in `source` (a table or query) before an epoch
        changes them. If a key is saved again in the same epoch, the first saved state counts.
        """
        listed = _listed([*keys, *(name for name in names if name not in keys)])
        values = ", ".join(f"{'q' if n < len(keys) else 't'}.{name}" for n, name in enumerate(listed))
        same = " AND ".join(f"t.{key} = q.{key}" for key in _listed(keys))
        return (
            f"INSERT INTO {self.name} ({_EPOCH}, {_KIND}, {', '.join(listed)}) "
            f"SELECT {epoch}, CASE WHEN t.{quoted(keys[0])} IS NULL THEN 'absent' ELSE 'row' END, {values} "
            f"FROM {source} AS q LEFT JOIN {self.table} AS t ON {same}"
        )

    def go_back(self, after: Epoch, keys: Sequence[str], names: Sequence[str]) -> int:
        """Restore the table as of an epoch that has a mark at or before it; return the number of changed rows."""
        listed, key_list = ", ".join(_listed(names)), ", ".join(_listed(keys))
        oldest = (
            f"(SELECT {listed}, {_KIND}, "
            f"row_number() OVER (PARTITION BY {key_list} ORDER BY {_NUMBER}) AS _mixedmode_rank FROM {self.name} "
            f"WHERE {_KIND} <> 'mark' AND {_EPOCH} > {after}) AS saved WHERE saved._mixedmode_rank = 1"
        )
        deleted = self.execute(
            f"DELETE FROM {self.table} WHERE ({key_list}) IN (SELECT {key_list} FROM {oldest} AND {_KIND} = 'absent')"
        )
        updates = ", ".join(f"{name} = excluded.{name}" for name in _listed([n for n in names if n not in keys]))
        upserted = self.execute(
            f"INSERT INTO {self.table} ({listed}) SELECT {listed} FROM {oldest} AND {_KIND} = 'row' "
            f"ON CONFLICT ({key_list}) DO {f'UPDATE SET {updates}' if updates else 'NOTHING'}"
        )
        return deleted.rowcount + upserted.rowcount

    def forget(self, after: Epoch) -> None:
        """Delete the history of later epochs, after these epochs were rolled back."""
        self.execute(f"DELETE FROM {self.name} WHERE {_EPOCH} > {after}")

    def prune(self, oldest: Epoch) -> None:
        """Delete history that is needed only to go back to epochs before `oldest`."""
        mark = self.newest_mark(oldest)
        if mark is not None:
            self.execute(
                f"DELETE FROM {self.name} WHERE {_EPOCH} < {mark.epoch} "
                f"OR ({_EPOCH} = {mark.epoch} AND {_KIND} <> 'mark')"
            )

    def clear(self) -> None:
        """Delete the whole history."""
        self.execute(f"DELETE FROM {self.name}")


def history_name(table: str) -> str:
    """Return the name of a table's history, within PostgreSQL's limit for names."""
    name = _PREFIX + table
    return name if len(name.encode()) <= _NAME_BYTES_MAX else _PREFIX + sha256(table.encode()).hexdigest()[:32]


def quoted(name: str) -> str:
    """Return a name quoted for both databases."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _listed(names: Sequence[str]) -> list[str]:
    return [quoted(name) for name in names]
