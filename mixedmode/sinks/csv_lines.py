"""Writes rows as CSV (RFC 4180, with a header line), column by column, and reads them back.

Text is always quoted, and a quotation mark in it is doubled. NULL is an empty field, so it differs from the empty
text, which is `""`. Binary is base64. NaN and the infinities are NaN, Inf and -Inf, as Spark writes them. Nested types
cannot be written as CSV (`has_csv_form`).
"""

import base64
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv

from mixedmode.sinks.arrow_memory import reader_of
from mixedmode.sinks.line_values import check_values

_NON_FINITE = (("nan", "NaN"), ("inf", "Inf"), ("-inf", "-Inf"))
_HAVE_A_FORM = (
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_date32, pa.types.is_timestamp),
    *(pa.types.is_decimal, pa.types.is_string, pa.types.is_large_string, pa.types.is_binary),
    pa.types.is_large_binary,
)


def has_csv_form(kind: pa.DataType) -> bool:
    """Return whether values of a type can be written as CSV, and read back."""
    return any(is_kind(kind) for is_kind in _HAVE_A_FORM)


def csv_lines(table: pa.Table, *, header: bool) -> pa.Buffer:
    """Return the bytes of all rows; header: begin with the line of column names.

    Raises InvalidJobError for a value that CSV cannot hold (line_values.py).
    """
    for name, column in zip(table.column_names, table.columns, strict=True):
        check_values(name, column)
    columns = [_plain(column) for column in table.columns]
    sink = pa.BufferOutputStream()
    pc_csv.write_csv(pa.table(columns, names=table.column_names), sink, pc_csv.WriteOptions(include_header=header))
    return sink.getvalue()


def read_csv_rows(data: bytes, fields: Sequence[pa.Field]) -> pa.Table:
    """Return the rows of a file that `csv_lines` wrote, with the file's columns and the types of `fields`."""
    types = {field.name: _read_as(field.type) for field in fields}
    options = pc_csv.ConvertOptions(
        column_types=types,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    parsing = pc_csv.ParseOptions(newlines_in_values=True)
    block = max(1 << 20, min(len(data), 1 << 30))  # a text with line ends may not be cut
    reading = pc_csv.ReadOptions(block_size=block, use_threads=False)
    rows = pc_csv.read_csv(reader_of(data), reading, parsing, options)
    wanted = {field.name: field.type for field in fields}
    return pa.table([_as(rows.column(name), wanted[name]) for name in rows.column_names], names=rows.column_names)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        texts = [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    if pa.types.is_floating(kind) and pc.all(pc.is_finite(column)).as_py() is False:
        texts = column.cast(pa.string())
        for found, name in _NON_FINITE:
            texts = pc.if_else(pc.equal(texts, found), name, texts)
        return texts
    return column


def _read_as(kind: pa.DataType) -> pa.DataType:
    """Return the type that Arrow's reader is asked for; `_as` converts it to the final type."""
    is_read = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind)
    return kind if is_read or pa.types.is_date32(kind) else pa.large_string()


def _as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        values = [None if text is None else base64.b64decode(text) for text in column.to_pylist()]
        return pa.chunked_array([pa.array(values, kind)])
    if pa.types.is_floating(kind):
        for written, found in (("NaN", "nan"), ("Inf", "inf"), ("-Inf", "-inf")):
            column = pc.if_else(pc.equal(column, written), found, column)
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return column.cast(pa.timestamp("us"))
    return column.cast(kind)
