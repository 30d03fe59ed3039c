"""Writes rows as lines of JSON, column by column: each column becomes texts in Arrow, and a line concatenates them.

Decimals, dates and timestamps are strings, binary is base64, NULL is null, and maps are objects. NaN and the
infinities are the strings that Spark reads as such ("NaN", "Infinity", "-Infinity"). Text is UTF-8; all characters
that some reader takes for a line end are escaped. Only nested, binary and rare types are converted value by value.
"""

import base64
import json
import math
from collections.abc import Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.sinks.column_types import has_keys_with_parts, has_plain_names
from mixedmode.sinks.line_values import check_values

#: what JSON requires to be escaped, except quotation mark and backslash, and the line ends of `str.splitlines`
_ESCAPED = {chr(code): f"\\u{code:04x}" for code in (*range(0x20), 0x85, 0x2028, 0x2029)}
_NEEDS_ESCAPE = '["\\\\\\x00-\\x1f\\x{85}\\x{2028}\\x{2029}]'
_ROWS_AT_ONCE = 100_000  # a few tens of megabytes of text
_TRUE, _FALSE = pa.scalar("true"), pa.scalar("false")


def json_problem(kind: pa.DataType) -> str | None:
    """Return why values of a type cannot be written as JSON and read back, and what to do; None if they can."""
    if has_keys_with_parts(kind):
        return (
            "a key of a map is a text in JSON, and a struct, array or map is none. Make the map a list of its entries "
            "with map_entries(...) in a sql step"
        )
    if not has_plain_names(kind):
        return "a field of a struct has a colon and a space in its name. Give it another name in a sql step"
    return None


def json_lines(table: pa.Table) -> Sequence[pa.Buffer]:
    """Return the bytes of all rows, one line per row, in chunks.

    Raises InvalidJobError for a value that JSON cannot hold (line_values.py).
    """
    pieces = []
    for start in range(0, table.num_rows, _ROWS_AT_ONCE):
        rows = table.slice(start, _ROWS_AT_ONCE).combine_chunks()
        parts: list[Any] = []
        for number, name in enumerate(rows.column_names):
            check_values(name, rows.column(number))
            parts.append(_scalar(f"{', ' if number else '{'}{json.dumps(name, ensure_ascii=False)}: "))
            parts.append(_texts(rows.column(number)))
        lines = _joined(*parts, _scalar("}\n"))
        pieces += [_bytes(chunk) for chunk in lines.chunks]
    return pieces


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the JSON text of each value of a column, as large_string, without NULLs."""
    return pc.fill_null(_valid_texts(column).cast(pa.large_string()), _scalar("null"))


def _valid_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.string())
    if pa.types.is_boolean(kind):
        return pc.if_else(column, _TRUE, _FALSE)
    if pa.types.is_floating(kind):
        return _float_texts(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _quoted(_escaped(column.cast(pa.large_string())))
    if pa.types.is_date32(kind):
        return _quoted(column.cast(pa.string()))
    if pa.types.is_timestamp(kind) and kind.tz in {None, "UTC"}:
        return _quoted(_timestamp_texts(column))
    if pa.types.is_decimal(kind):
        texts = column.cast(pa.string())
        if not pc.any(pc.match_substring(texts, "E")).as_py():  # a small number, such as 1E-10
            return _quoted(texts)
    return pa.chunked_array([pa.array([_text(value) for value in column.to_pylist(maps_as_pydicts="strict")])])


def _float_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    texts = column.cast(pa.large_string())
    whole = pc.match_substring_regex(texts, "^-?[0-9]+$")  # a reader that infers types sees a double in every row
    texts = pc.if_else(whole, _joined(texts, _scalar(".0")), texts)
    if pc.all(pc.is_finite(column)).as_py() in {True, None}:
        return texts
    for found, name in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
        texts = pc.if_else(pc.equal(texts, found), _scalar(f'"{name}"'), texts)
    return texts


def _timestamp_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    texts = pc.replace_substring(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.string()), " ", "T")
    if column.type.tz is None:
        return pc.replace_substring_regex(texts, r"\.000000$", "")
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, "Z$", "+00:00"), r"\.000000\+", "+")


def _escaped(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pc.any(pc.match_substring_regex(texts, _NEEDS_ESCAPE)).as_py():
        return texts
    texts = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    for sign, escape in _ESCAPED.items():
        if pc.any(pc.match_substring(texts, sign)).as_py():
            texts = pc.replace_substring(texts, sign, escape)
    return texts


def _quoted(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return _joined(_scalar('"'), texts.cast(pa.large_string()), _scalar('"'))


def _joined(*texts: Any) -> pa.ChunkedArray:
    """Concatenate texts row by row; NULL where any of them is NULL.
    In large_string, because a slice may exceed 2 GB.
    """
    return pc.binary_join_element_wise(*texts, _scalar(""))


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _bytes(lines: pa.Array) -> pa.Buffer:
    """Return the values of a text array as one buffer, in order."""
    if len(lines) == 0:
        return pa.py_buffer(b"")
    offsets = memoryview(lines.buffers()[1]).cast("q")
    start, end = offsets[lines.offset], offsets[lines.offset + len(lines)]
    return lines.buffers()[2].slice(start, end - start)


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(_as_json(value))


def _as_json(value: Any) -> Any:
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {_key(name): _as_json(item) for name, item in value.items()}
    return value


def _key(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(_as_json(value))
