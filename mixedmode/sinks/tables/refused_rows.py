"""Rows that a table does not take: which one it is, and what its error says."""

import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.checkpoint.types import Epoch
from mixedmode.errors import InvalidJobError
from mixedmode.secrets import hidden
from mixedmode.sinks.shown import shown_rows
from mixedmode.sinks.tables.database import RefusedError, Shape, Transaction

__all__ = ["check_keys", "first_refused", "refused"]

_SHOWN_MAX = 200  # of a value, in characters


def check_keys(rows: pa.Table, shape: Shape, epoch: Epoch, place: str) -> None:
    """Raise InvalidJobError for a NULL key: in SQL, NULL equals no other key, so the key would be stored twice."""
    for name in shape.key_columns:
        column = rows.column(name)
        if column.null_count:
            row = rows.slice(pc.index(column.is_valid(), False).as_py(), 1)
            msg = (
                "a key column of an output is NULL, and NULL equals no other key in SQL, so the row could not be found "
                "again. Nothing of its epoch is in the table. Leave such rows out before the output, or replace the "
                "NULL (`coalesce`); then start the job anew, or from a savepoint before this epoch. "
                f"column={name}, row={_shown(row)}, epoch={epoch}, table={place}"
            )
            raise InvalidJobError(msg)


def first_refused(
    transaction: Transaction, rows: pa.Table, error: RefusedError
) -> tuple[RefusedError, pa.Table | None]:
    """Find the first row that is refused, by bisection; the row is None if each row alone is accepted.

    The transaction is lost.
    """
    while True:
        first = rows.slice(0, (rows.num_rows + 1) // 2)
        try:
            transaction.apply(first)
        except RefusedError as found:
            if rows.num_rows == 1:
                return found, rows
            rows, error = first, found
        else:
            rows = rows.slice(first.num_rows)
            if not rows.num_rows:
                return error, None


def refused(error: RefusedError, epoch: Epoch, place: str, row: pa.Table | None = None) -> InvalidJobError:
    """Return the error for rows that the database refuses.  row: the first of them, if it is known."""
    values = {
        "constraint": error.constraint,
        "column": error.column,
        "row": None if row is None else _shown(row),
        "epoch": epoch,
        "table": place,
    }
    shown = ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)
    return InvalidJobError(
        f"the table refuses a row: {hidden(str(error))}. Nothing of its epoch is in the table. With checkpoints, the "
        "epoch itself is committed, and is written when the job is started again. So change the table (its "
        "constraints, types or the rows they refer to), and start the job again; or go back to a savepoint, with a job "
        f"that does not emit such a row. {shown}"
    )


def _shown(row: pa.Table) -> str:
    values = shown_rows(row.drop_columns([n for n in ("_op",) if n in row.column_names]))[0]
    texts = {name: str(value) if isinstance(value, int | float) else repr(value) for name, value in values.items()}
    return "{" + ", ".join(f"{name}: {text[:_SHOWN_MAX]}" for name, text in texts.items()) + "}"
