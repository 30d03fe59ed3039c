"""A keyed step under test: its operator, and the conversion of a test's rows to the operator's batches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.config.arguments import of_type
from mixedmode.config.calls import is_column
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.interface import SIDE_COLUMN, WEIGHT_COLUMN, Batch, KeyedOperator
from mixedmode.operators.process.values import UNFIT, array_of
from mixedmode.operators.running import checked_event_times
from mixedmode.operators.tables import column_of
from mixedmode.plan.fingerprint import Fingerprint
from mixedmode.plan.keyed_operators import Where

#: records: {column: value} each, where a missing column is NULL; or a table with the columns of the schema
Rows: TypeAlias = "Iterable[Mapping[str, Any]] | pa.Table"

_INSTANT = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Step:
    """A keyed step. `schema` is that of the rows; `key_by`, `arguments` and `event_time` name columns of it.

    `identity` is the fingerprint of the state.
    """

    operator: KeyedOperator
    schema: pa.Schema
    key_by: tuple[str, ...]
    arguments: tuple[str, ...]
    event_time: str | None
    identity: Fingerprint
    where: str  #: the call that created the step, for messages

    @classmethod
    def checked(
        cls,
        operator: KeyedOperator,
        schema: pa.Schema,
        *,
        key_by: Sequence[str],
        arguments: Sequence[str],
        event_time: str | None,
        identity: Fingerprint,
        where: str,
    ) -> Self:
        """Return the step. Raises InvalidJobError for columns that the schema does not have."""
        for name in (*key_by, *arguments):
            column_type(schema, name, where=where)
        if event_time is not None:
            check_event_time(schema, event_time, where=f"{where}: event_time")
        return cls(operator, schema, tuple(key_by), tuple(arguments), event_time, identity, where)

    def table(self, rows: Rows) -> pa.Table:
        """Return rows as a table of the schema. Raises InvalidJobError for a row that does not fit it."""
        return table_of(rows, self.schema, where=self.where)

    def batch(self, table: pa.Table) -> Batch:
        """Return a slice of the records as the map side passes it to the operator.

        Raises InvalidJobError for a NULL time.
        """
        has_weights, has_sides = (name in self.schema.names for name in (WEIGHT_COLUMN, SIDE_COLUMN))
        return Batch(
            keys=[column_of(table, name) for name in self.key_by],
            arguments=[column_of(table, name) for name in self.arguments],
            times_us=self.times_us(table),
            weights=column_of(table, WEIGHT_COLUMN).to_numpy().astype(np.int64) if has_weights else None,
            sides=column_of(table, SIDE_COLUMN).to_numpy().astype(np.uint8) if has_sides else None,
        )

    def times_us(self, table: pa.Table) -> npt.NDArray[np.int64] | None:
        """Return the event times of records (n,), or None if the step has none. Raises InvalidJobError for a NULL."""
        if self.event_time is None:
            return None
        times = column_of(table, self.event_time).cast(_INSTANT).cast(pa.int64())
        return checked_event_times(times, column=self.event_time)


def table_of(rows: Rows, schema: pa.Schema, *, where: str) -> pa.Table:
    """Return rows as a table of a schema.

    Raises InvalidJobError, beginning with `where`, for a row that does not fit it.
    """
    if isinstance(rows, pa.Table):
        return _conformed(rows, schema, where)
    if not isinstance(rows, Iterable) or isinstance(rows, str | bytes | Mapping):
        msg = f"{where}: rows must be a list of {{column: value}}, or a pyarrow.Table. found={type(rows).__name__}"
        raise InvalidJobError(msg)
    held = list(rows)
    try:
        columns = [array_of([row.get(field.name) for row in held], field.type) for field in schema]
    except UNFIT as error:
        raise _misfit(held, schema, where) from error
    known = frozenset(schema.names)
    if any(not known.issuperset(row) for row in held):
        raise _misfit(held, schema, where)
    return pa.table(columns, schema=schema)


def _conformed(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    try:
        return table.select(schema.names).cast(schema)
    except (KeyError, pa.ArrowException) as error:
        msg = (
            f"{where}: the table does not have the columns of `schema`: {error}. Give one that can be cast to "
            f"them. schema={_shown(schema)}, found={_shown(table.schema)}"
        )
        raise InvalidJobError(msg) from error


def _misfit(rows: Sequence[Mapping[str, Any]], schema: pa.Schema, where: str) -> InvalidJobError:
    """Return the error for the first row that does not fit."""
    for number, row in enumerate(rows):
        problem = _problem(row, schema)
        if problem is not None:
            return InvalidJobError(f"{where}: row {number} does not fit `schema`: {problem}. row={row!r:.200}")
    return InvalidJobError(f"{where}: the rows do not fit `schema`. schema={_shown(schema)}")


def places(where: str) -> Where:
    """Return a function that names a place in the step, for messages that begin with `where`."""
    return lambda *path: ": ".join([where, *map(str, path)])


def columns_of(names: str | Sequence[str], *, where: str) -> tuple[str, ...]:
    """Return the names as a tuple: one name, or several, each once. Raises InvalidJobError, beginning with `where`."""
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        msg = f"{where} must be one column or a list of columns. found={names!r:.200}"
        raise InvalidJobError(msg)
    if len(set(names)) < len(names):
        msg = f"{where} has a column twice. Name it once. found={names!r}"
        raise InvalidJobError(msg)
    return tuple(names)


def key_fields(schema: pa.Schema, names: Sequence[str], *, where: str) -> tuple[pa.Field, ...]:
    """Return the key columns. Raises InvalidJobError, beginning with `where`, for a column that cannot be a key."""
    for name in names:
        column_type(schema, name, where=where)
    fields = tuple(schema.field(name) for name in names)
    try:
        KeySchema(fields)
    except InvalidJobError as error:
        msg = f"{where}: {error}"
        raise InvalidJobError(msg) from error
    return fields


def column_type(schema: pa.Schema, name: str, *, where: str) -> pa.DataType:
    """Return the type of a column. Raises InvalidJobError, beginning with `where`, if there is no such column."""
    if name not in schema.names:
        of_type(name, str, where, "the name of a column")
        hint = did_you_mean(name, schema.names)
        msg = f"{where}: there is no column {name}.{hint} Columns here: {', '.join(schema.names)}."
        raise InvalidJobError(msg)
    return schema.field(name).type


def argument_type(schema: pa.Schema, text: str, *, where: str) -> pa.DataType:
    """Return the type of a column. Raises InvalidJobError, beginning with `where`, for any other expression."""
    if not is_column(text):
        msg = (
            f"{where}: `{text}` is an SQL expression, which Spark computes, and the harness runs without Spark. Name a "
            "column, and give the rows of the test the value that the expression would have."
        )
        raise InvalidJobError(msg)
    return column_type(schema, text, where=where)


def check_event_time(schema: pa.Schema, name: str, *, where: str) -> None:
    """Raise InvalidJobError, beginning with `where`, unless the column has a type of times."""
    found = column_type(schema, name, where=where)
    if not (pa.types.is_timestamp(found) or pa.types.is_date32(found)):
        msg = (
            f"{where}: event time must be a timestamp. Give the column the type timestamp in `schema`; its values may "
            f"still be ints, of microseconds since 1970. column={name}, type={found}"
        )
        raise InvalidJobError(msg)


def _problem(row: object, schema: pa.Schema) -> str | None:
    if not isinstance(row, Mapping):
        return f"a row is a mapping of column to value, and this is a {type(row).__name__}"
    for name in row:
        if name not in schema.names:
            hint = did_you_mean(str(name), schema.names)
            return f"there is no column {name}.{hint} Columns here: {', '.join(schema.names)}"
    for field in schema:
        try:
            array_of([row.get(field.name)], field.type)
        except UNFIT as error:
            return f"the column `{field.name}` is {field.type}: {error}"
    return None


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
