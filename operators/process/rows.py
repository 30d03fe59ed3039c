"""Conversion of the rows that a function emits to Arrow tables of the declared columns.

Rows are collected unchecked. They are checked column by column when a batch is full, because Arrow does this fast. Only
if a batch does not fit, the code searches for the row that does not.

A row fits if it has exactly the declared columns, and Arrow can convert each value to the column's type without loss.
Examples: an int fits a double, but text does not fit a number; microseconds or a datetime fit a timestamp.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import GeneratorType
from typing import Any

import numpy as np
import pyarrow as pa

from mixedmode.keys.arrow import cast
from mixedmode.operators.process.context import Record
from mixedmode.operators.process.values import UNFIT, array_of

_GLANCES: dict[pa.DataType, Callable[[Any], bool]] = {
    pa.int64(): lambda value: value.__class__ is int and -(2**63) <= value < 2**63,
    pa.float64(): lambda value: value.__class__ is float,
    pa.string(): lambda value: value.__class__ is str and value.isascii(),  # other text may not be valid UTF-8
    pa.bool_(): lambda value: value.__class__ is bool,
}


class RowMismatchError(Exception):
    """A row or table does not have the declared columns. `index` is the row's index in the batch; None for a table."""

    def __init__(self, reason: str, index: int | None = None) -> None:
        super().__init__(reason)
        self.index = index


class RowCollector:
    """The rows of one output since the last `take`. The caller may append to `rows`."""

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self.schema = pa.schema(list(fields))
        self.rows: list[Record] = []
        self.sealed_rows = 0  #: number of rows in `_tables`
        self._tables: list[pa.Table] = []  #: older than `rows`
        self.owned: Callable[[Any], Record] = owned_row if any(map(_is_nested, fields)) else dict  #: a copy of a row
        self._glances = [(field.name, _GLANCES.get(field.type)) for field in fields]

    def add(self, result: Any) -> None:
        """Add the result of a method, a row or rows, but not None. Raise whatever an iterator of rows raises.

        Rows are copied, because a function may change a row, or a list in it, after it emitted the row.
        """
        if result.__class__ is dict:
            result = (result,)
        elif result.__class__ is not GeneratorType:
            result = (result,) if isinstance(result, Mapping) else _several(result)
        try:
            self.rows.extend(map(self.owned, result))
        except (TypeError, ValueError) as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # by `dict`, not by the rows
                msg = f"a row must be a mapping of field to value: {error}"
                raise RowMismatchError(msg) from error
            raise

    def add_frames(self, result: Any) -> None:
        """Add and seal a result of process_rows: a table, record batch, frame or row, or several of these; not None."""
        is_one = isinstance(result, Mapping) or _is_frame(result)
        for each in (result,) if is_one else _several(result):
            if _is_frame(each):
                self.seal()
                self._hold(_conformed(_as_table(each), self.schema))
            else:
                self.add((each,))
        self.seal()

    def check(self, mark: tuple[int, int]) -> None:
        """Raise RowMismatchError unless all rows since `mark` fit."""
        rows = self.rows[mark[0] :]
        if not all(map(self._fits_at_a_glance, rows)):
            to_table(rows, self.schema)

    def _fits_at_a_glance(self, row: Record) -> bool:
        """Return True if a row certainly fits, because its values have exactly the expected classes."""
        if len(row) != len(self._glances):
            return False
        return all(name in row and fits is not None and fits(row[name]) for name, fits in self._glances)

    def seal(self) -> None:
        """Convert `rows` to a table. Raise RowMismatchError for the first row that does not fit."""
        if self.rows:
            table = to_table(self.rows, self.schema)
            self.rows.clear()
            self._hold(table)

    def take(self) -> pa.Table:
        """Remove all sealed rows, and return them as one table."""
        tables, self._tables, self.sealed_rows = self._tables, [], 0
        return pa.concat_tables([self.schema.empty_table(), *tables]).combine_chunks()

    def mark(self) -> tuple[int, int]:
        """Return the current position of the collector, for `check` and `back_to`."""
        return len(self.rows), len(self._tables)

    def back_to(self, mark: tuple[int, int]) -> None:
        """Drop the rows added since `mark`. The rows before `mark` must not have been sealed or taken since."""
        rows, tables = mark
        self.sealed_rows -= sum(table.num_rows for table in self._tables[tables:])
        del self.rows[rows:], self._tables[tables:]

    def _hold(self, table: pa.Table) -> None:
        self._tables.append(table)
        self.sealed_rows += table.num_rows


def _is_nested(field: pa.Field) -> bool:
    return bool(pa.types.is_nested(field.type))


def owned_row(row: Any) -> Record:
    """Return a copy of a row whose lists and dictionaries are its own."""
    return {name: _copied(value) for name, value in dict(row).items()}


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(part) for name, part in value.items()}
    if isinstance(value, list | tuple):  # the pairs of a map are tuples
        return tuple(map(_copied, value)) if isinstance(value, tuple) else list(map(_copied, value))
    return value.copy() if isinstance(value, np.ndarray) else value


def to_table(rows: Sequence[Record], schema: pa.Schema) -> pa.Table:
    """Return the rows as a table of `schema`. Raise RowMismatchError for the first row that does not fit."""
    try:
        return _to_table(rows, schema)
    except UNFIT:
        for index, row in enumerate(rows):
            reason = _mismatch(row, schema)
            if reason is not None:
                raise RowMismatchError(reason, index) from None
        raise


def _to_table(rows: Sequence[Record], schema: pa.Schema) -> pa.Table:
    columns = []
    if set(map(len, rows)) - {len(schema)}:
        raise ValueError(len(schema))
    for field in schema:
        name = field.name
        column = array_of([row[name] for row in rows], field.type)
        if column.null_count and not field.nullable:
            raise ValueError(name)
        columns.append(column)
    return pa.table(columns, schema=schema)


def _mismatch(row: Record, schema: pa.Schema) -> str | None:
    """Return the reason why a row does not fit, or None."""
    missing = [name for name in schema.names if name not in row]
    if missing:
        return f"the row lacks the field `{missing[0]}`; set it to None for NULL. row={row!r:.200}"
    unknown = [name for name in row if name not in schema.names]
    if unknown:
        return f"the output has no field `{unknown[0]}`; it has {', '.join(schema.names)}. row={row!r:.200}"
    for field in schema:
        value = row[field.name]
        if value is None and not field.nullable:
            return f"the field `{field.name}` is declared not null. row={row!r:.200}"
        try:
            array_of([value], field.type)
        except UNFIT as error:
            return (
                f"the field `{field.name}` is declared {field.type}, and the value does not fit: {error}. "
                f"value={value!r:.100}"
            )
    return None


def _several(result: Any) -> Iterable[Any]:
    if isinstance(result, str) or not isinstance(result, Iterable):
        msg = (
            f"a method must return a row, rows, or nothing, and it returned a {type(result).__name__}: {result!r:.100}"
        )
        raise RowMismatchError(msg)
    return result


def _is_frame(result: Any) -> bool:
    """Return whether `result` is a table, a record batch or a pandas frame. This does not import pandas."""
    is_pandas = type(result).__module__.partition(".")[0] == "pandas" and hasattr(result, "columns")
    return is_pandas or isinstance(result, pa.Table | pa.RecordBatch)


def _as_table(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        msg = f"the frame cannot be made a table: {error}"
        raise RowMismatchError(msg) from error


def as_frame(rows: pa.Table) -> Any:
    """Return rows as a pandas frame whose columns have Arrow's types: exact, whatever NULLs are among the values."""
    import pandas as pd  # noqa: PLC0415 - only for functions that ask for it

    return rows.to_pandas(types_mapper=pd.ArrowDtype)


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    if sorted(table.column_names) != sorted(schema.names):
        msg = f"the table has the columns {', '.join(table.column_names)}; the output has {', '.join(schema.names)}"
        raise RowMismatchError(msg)
    columns = []
    for field in schema:
        column = table.column(field.name)
        if column.null_count and not field.nullable:
            msg = f"the field `{field.name}` is declared not null, and the table has a NULL there"
            raise RowMismatchError(msg)
        try:
            columns.append(cast(column, field.type))
        except pa.ArrowException as error:
            msg = f"the field `{field.name}` is declared {field.type}, and {column.type} does not fit: {error}"
            raise RowMismatchError(msg) from error
    return pa.table(columns, schema=schema)
