r"""Maps Arrow columns to PostgreSQL: the type of a created column, other types that hold it, and its CSV text.

    Arrow                   created as          also accepted
    bool                    boolean
    int8, int16             smallint            integer, bigint, numeric
    int32                   integer             bigint, numeric
    int64                   bigint              numeric
    float                   real                double precision
    double                  double precision
    decimal(p, s)           numeric(p, s)       numeric of at least this width
    string                  text                varchar, char, citext, uuid, json, jsonb, xml, inet, cidr, enums
    binary                  bytea
    date32                  date
    timestamp, with a zone  timestamptz
    timestamp, without      timestamp
    time64                  time
    duration                interval
    list, struct, map       jsonb               json

A domain is treated as its base type. Text is UTF-8; the server refuses the character 0 in it.

In the CSV, NULL is an empty field, and every string is in quotes, so that an empty string is "".
"""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from mixedmode.errors import InvalidJobError
from mixedmode.sinks.tables.text import as_text, is_nested

__all__ = ["CLOCKS", "TEXTS", "ActualType", "created_as", "csv_bytes", "holds"]

CLOCKS = ("timestamptz", "timestamp", "time", "interval")
_CLOCK_DIGITS = 6  # of seconds, in Arrow
TEXTS = ("text", "varchar", "bpchar", "citext", "uuid", "json", "jsonb", "xml", "inet", "cidr")
_WRITE = pyarrow.csv.WriteOptions(include_header=False)

Is = Callable[[pa.DataType], bool]


@dataclass(frozen=True, slots=True)
class ActualType:
    """A column's type in the database: its name in the catalogue, and its display name.

    precision, scale: of numeric(p, s). precision: of times, the digits of seconds; None if not limited.
    """

    name: str
    shown: str
    is_enum: bool = False
    precision: int | None = None
    scale: int | None = None


#: (predicate over Arrow types, type of a created column, catalogue names of the types that hold it)
_TYPES: tuple[tuple[Is, str, tuple[str, ...]], ...] = (
    (pa.types.is_boolean, "boolean", ("bool",)),
    (pa.types.is_int8, "smallint", ("int2", "int4", "int8", "numeric")),
    (pa.types.is_int16, "smallint", ("int2", "int4", "int8", "numeric")),
    (pa.types.is_int32, "integer", ("int4", "int8", "numeric")),
    (pa.types.is_int64, "bigint", ("int8", "numeric")),
    (pa.types.is_float32, "real", ("float4", "float8")),
    (pa.types.is_float64, "double precision", ("float8",)),
    (pa.types.is_decimal, "numeric", ("numeric",)),
    (pa.types.is_string, "text", TEXTS),
    (pa.types.is_large_string, "text", TEXTS),
    (pa.types.is_binary, "bytea", ("bytea",)),
    (pa.types.is_large_binary, "bytea", ("bytea",)),
    (pa.types.is_date32, "date", ("date",)),
    (lambda t: pa.types.is_timestamp(t) and t.tz is not None, "timestamptz", ("timestamptz",)),
    (lambda t: pa.types.is_timestamp(t) and t.tz is None, "timestamp", ("timestamp",)),
    (pa.types.is_time64, "time", ("time",)),
    (pa.types.is_duration, "interval", ("interval",)),
    (is_nested, "jsonb", ("jsonb", "json")),
)
_INTEGER_DIGITS: Mapping[str, int] = {"smallint": 5, "integer": 10, "bigint": 19}


def created_as(field: pa.Field) -> str:
    """Return the type that a column is created with. Raises InvalidJobError for a type that PostgreSQL cannot store."""
    created = _kind_of(field)[1]
    return f"numeric({field.type.precision}, {field.type.scale})" if created == "numeric" else created


def holds(actual: ActualType, field: pa.Field) -> bool:
    """Return whether a column of a user's own table stores every value of an Arrow column unchanged. A text type may
    be too short, or restrict its form: then the server refuses the value.
    """
    _, created, names = _kind_of(field)
    if actual.is_enum:
        return created == "text"
    if actual.name not in names:
        return False
    if actual.name in CLOCKS:
        return actual.precision is None or actual.precision >= _CLOCK_DIGITS
    if actual.name != "numeric" or actual.precision is None or actual.scale is None:
        return True
    digits, scale = _INTEGER_DIGITS.get(created, 0), 0
    if created == "numeric":
        digits, scale = field.type.precision - field.type.scale, field.type.scale
    return actual.scale >= scale and actual.precision - actual.scale >= digits


def csv_bytes(rows: pa.Table) -> memoryview:
    """Return the CSV that COPY ... FROM STDIN (FORMAT csv) reads for these rows."""
    names = rows.column_names
    columns = [_csv_column(rows.column(name)) for name in names]
    out = io.BytesIO()
    pyarrow.csv.write_csv(pa.table(columns, names=names), out, _WRITE)
    return out.getbuffer()


def _csv_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert the column to a form that Arrow's CSV writer can write and the server can read."""
    data_type = column.type
    if pa.types.is_duration(data_type):
        texts = [pc.binary_join_element_wise(as_text(chunk), " microseconds", "") for chunk in column.chunks]
        return pa.chunked_array(texts, pa.string())
    is_binary = pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type)
    is_moment = pa.types.is_date32(data_type) or pa.types.is_timestamp(data_type)
    if is_binary or is_moment or is_nested(data_type):
        return pa.chunked_array([as_text(chunk) for chunk in column.chunks], pa.string())
    return column


def _kind_of(field: pa.Field) -> tuple[Is, str, tuple[str, ...]]:
    found = next((kind for kind in _TYPES if kind[0](field.type)), None)
    if found is None:
        msg = (
            "PostgreSQL has no type for a column of this output. Cast it in a sql step, to a string for example. "
            f"column={field.name}, type={field.type}"
        )
        raise InvalidJobError(msg)
    return found
