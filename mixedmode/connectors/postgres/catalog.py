"""Compares a table in PostgreSQL's catalogue with what a job writes, and reports all differences at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from mixedmode.connectors.postgres.spec import CUT_OFF, is_cut_off
from mixedmode.connectors.postgres.types import CLOCKS, ActualType, created_as, holds
from mixedmode.errors import InvalidJobError
from mixedmode.sinks.tables.database import Shape

__all__ = ["ActualColumn", "check_columns", "columns_of", "differences", "has_unique_key", "types_of"]

_COLUMNS = """
SELECT a.attname, coalesce(b.typname, t.typname), format_type(a.atttypid, a.atttypmod),
       coalesce(b.typtype, t.typtype) = 'e',
       CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END,
       a.attgenerated <> '' OR a.attidentity = 'a',
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
ORDER BY a.attnum
"""
# a domain may refuse NULL, but the history must store NULL; -1: without a length or precision, which may change
_TYPES = """
SELECT a.attname, format_type(CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE a.atttypid END, -1)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
WHERE n.nspname = %s AND c.relname = %s
"""
# only indexes that ON CONFLICT can use: no expression, no predicate, not deferrable. It uses all of them, so each one
# must distinguish all keys: citext, and a collation that is not deterministic, take `a` and `A` for one
_UNIQUE_KEYS = """
SELECT array_agg(a.attname::text), bool_and(coalesce(b.typname, t.typname) <> 'citext' AND NOT EXISTS (
           SELECT FROM pg_collation l
           WHERE l.oid IN (a.attcollation, i.indcollation[(k.place - 1)::int]) AND NOT l.collisdeterministic))
FROM pg_index i
JOIN pg_class c ON c.oid = i.indrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k (attnum, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
WHERE n.nspname = %s AND c.relname = %s AND k.place <= i.indnkeyatts
  AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid
"""


_WITH_SECONDS = 1 << 12  # of the fields of an interval


@dataclass(frozen=True, slots=True)
class ActualColumn:
    """A column of the table. is_computed: the server computes its value. is_needed: a value is required."""

    name: str
    type: ActualType
    is_computed: bool
    is_needed: bool


def check_columns(names: Sequence[str]) -> None:
    """Raise InvalidJobError for the name of a column that the server would truncate."""
    for name in names:
        if is_cut_off(name):
            msg = f"the name of a column {CUT_OFF}. Give the column a shorter one in a sql step. name={name}"
            raise InvalidJobError(msg)


def columns_of(connection: psycopg.Connection, schema: str, table: str) -> tuple[ActualColumn, ...] | None:
    """Return the columns of a table, in order; None if the table does not exist."""
    rows = connection.execute(_COLUMNS, [schema, table]).fetchall()
    return tuple(_column(*row) for row in rows) or None


def types_of(connection: psycopg.Connection, schema: str, table: str) -> dict[str, str]:
    """Return {column: its type as SQL, without length and precision}; for a domain, the type below it."""
    return dict(connection.execute(_TYPES, [schema, table]).fetchall())


def has_unique_key(connection: psycopg.Connection, schema: str, table: str, columns: Sequence[str]) -> bool:
    """Return whether exactly these columns are the primary key of the table, or have a unique constraint, and no such
    key takes two texts for one.
    """
    rows = connection.execute(_UNIQUE_KEYS, [schema, table]).fetchall()
    found = [is_exact for names, is_exact in rows if set(names) == set(columns)]
    return bool(found) and all(found)


def differences(actual: Sequence[ActualColumn], shape: Shape, *, has_key: bool) -> list[str]:
    """Return all differences between the table and `shape`, each with the statement or type that corrects it. Pure."""
    by_name = {column.name: column for column in actual}
    found = []
    for field in shape.fields:
        column = by_name.get(field.name)
        if column is None:
            found.append(f'column {field.name} is missing (ADD COLUMN "{field.name}" {created_as(field)})')
        elif column.is_computed:
            found.append(f"column {field.name} is computed by the database, and the job writes it")
        elif not holds(column.type, field):
            found.append(f"column {field.name} is {column.type.shown} and has to be {created_as(field)}")
    found += [
        f"column {column.name}, which the job does not write, is NOT NULL without a default"
        for column in actual
        if column.is_needed and not column.is_computed and column.name not in shape.names
    ]
    if shape.key_columns and not has_key:
        listed = ", ".join(f'"{name}"' for name in shape.key_columns)
        found.append(
            "no primary key or unique constraint, of types and collations that distinguish all texts, is on exactly "
            f"the key columns (ADD UNIQUE ({listed}))"
        )
    return found


def _column(*row: Any) -> ActualColumn:
    name, type_name, shown, is_enum, modifier, is_computed, is_needed = row
    precision = scale = None
    if type_name == "numeric" and modifier >= 4:  # the catalogue packs precision and scale, and adds 4
        precision, scale = (modifier - 4) >> 16, ((modifier - 4) & 0x7FF ^ 1024) - 1024
    elif type_name == "interval" and modifier >= 0:  # it packs the fields and the digits of seconds
        precision = modifier & 0xFFFF if modifier >> 16 & _WITH_SECONDS else 0
    elif type_name in CLOCKS and modifier >= 0:
        precision = modifier
    return ActualColumn(name, ActualType(type_name, shown, is_enum, precision, scale), is_computed, is_needed)
