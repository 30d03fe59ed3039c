"""Reads the lines that json_lines wrote, with the types of the output's columns: the inverse of writing.

Invariant (tests/sinks/test_json_rows.py): every value of a type with a JSON form is read as it was written
"""

import base64
import json
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

__all__ = ["read_json_rows"]

_Parse = Callable[[Any], Any]
_DURATION = re.compile(r"(?:(-?\d+) days?, )?(\d+):(\d+):(\d+)(?:\.(\d+))?")  # as Python writes a timedelta


def read_json_rows(data: bytes, fields: Sequence[pa.Field]) -> pa.Table:
    """Return the rows of a file, with those of `fields` that it has. The type null is a guess by the values."""
    rows = [json.loads(line) for line in data.splitlines()]
    every = [field for field in fields if rows and field.name in rows[0]]  # only upserts have `_op`
    columns = [_column([row[field.name] for row in rows], field.type) for field in every]
    return pa.table(columns, names=[field.name for field in every])


def _column(values: list[Any], data_type: pa.DataType) -> pa.Array:
    if pa.types.is_null(data_type):
        return pa.array(values)
    return pa.array(list(map(_parser(data_type), values)), data_type)


def _parser(data_type: pa.DataType) -> _Parse:
    """Return a function that makes a value of what JSON has for it; None stays None."""
    parse = _parser_of_values(data_type)
    return lambda value: None if value is None else parse(value)


def _parser_of_values(data_type: pa.DataType) -> _Parse:
    if pa.types.is_map(data_type):
        key, item = _parser_of_keys(data_type.key_type), _parser(data_type.item_type)
        return lambda value: [(key(name), item(one)) for name, one in value.items()]
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        item = _parser(data_type.value_type)
        return lambda value: [item(one) for one in value]
    if pa.types.is_struct(data_type):
        parsers = {field.name: _parser(field.type) for field in data_type}
        return lambda value: {name: parse(value[name]) for name, parse in parsers.items()}
    return next((parse for is_kind, parse in _PARSERS if is_kind(data_type)), _as_it_is)


def _parser_of_keys(data_type: pa.DataType) -> _Parse:
    """Return the parser of the keys of a map, which are strings in JSON."""
    if pa.types.is_boolean(data_type):
        return lambda text: bool(text == "true")
    return int if pa.types.is_integer(data_type) else _parser_of_values(data_type)


def _as_it_is(value: Any) -> Any:
    return value


def _duration_us(text: str) -> int:
    """Return microseconds, of which Arrow takes the last ones of int64, too."""
    found = _DURATION.fullmatch(text)
    assert found is not None, text
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    return timedelta(days, seconds, int(found[5] or 0), minutes=minutes, hours=hours) // timedelta(microseconds=1)


_PARSERS: Sequence[tuple[Callable[[pa.DataType], bool], _Parse]] = (
    (pa.types.is_decimal, Decimal),
    (pa.types.is_timestamp, datetime.fromisoformat),
    (pa.types.is_date, date.fromisoformat),
    (pa.types.is_time, time.fromisoformat),
    (pa.types.is_duration, _duration_us),
    (pa.types.is_binary, base64.b64decode),
    (pa.types.is_large_binary, base64.b64decode),
    (pa.types.is_floating, float),
)
