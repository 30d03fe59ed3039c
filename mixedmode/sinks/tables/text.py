r"""Converts Arrow columns to text and JSON, column by column, for values that have no type in the database.

    decimal     plain digits, never with an exponent             0.0000000001
    binary      hexadecimal, as PostgreSQL writes it             \x00ff
    date, time  ISO; a timestamp with a zone is UTC, ends in Z   2024-01-01 08:05:00.000000Z
    duration    microseconds
    struct, map an object; a list is an array. In them, NULL is null, numbers and booleans are kept, all else is a
                string; NaN and infinities are the strings "NaN", "Infinity", "-Infinity"; keys of a map are strings

Invariant (tests/tables/test_types.py): json.loads returns the values of a column, as plain Python writes them
"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["as_json", "as_text", "is_nested"]

_HEX = np.frombuffer(bytes(range(256)).hex().encode(), "u2")  # the two digits of each byte, side by side
_MUST_ESCAPE = r"[\x00-\x1f]"
_DAY_US = 86_400_000_000
_DAYS = (-12_687_428, 11_248_737)  # since 1970, of the years -32,767 to 32,767: those of Arrow have 16 bits


def is_nested(data_type: pa.DataType) -> bool:
    """Return whether JSON is the text of such a column."""
    return bool(pa.types.is_nested(data_type))


def as_text(column: pa.Array) -> pa.Array:
    """Convert (n,) of any type to (n,) string, NULL where the value is NULL; nested values become JSON."""
    data_type = column.type
    if is_nested(data_type):
        return pc.if_else(column.is_valid(), as_json(column), None)
    if pa.types.is_decimal(data_type):
        return _plain_decimals(column)
    if pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type):
        return _hex(column)
    if pa.types.is_duration(data_type):
        column = column.cast(pa.duration("us")).cast(pa.int64())
    if pa.types.is_date32(data_type) or pa.types.is_timestamp(data_type):
        return _moments(column)
    return column.cast(pa.string())


def as_json(column: pa.Array) -> pa.Array:
    """Convert (n,) of any type to (n,) JSON strings without NULLs: NULL becomes the text null."""
    data_type = column.type
    if pa.types.is_map(data_type):
        keys = column.keys
        keys = _quoted(as_json(keys) if is_nested(keys.type) else as_text(keys))
        entries = pc.binary_join_element_wise(keys, as_json(column.items), ":")
        text = _joined(column, entries, "{", "}")
    elif pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        text = _joined(column, as_json(column.values), "[", "]")
    elif pa.types.is_struct(data_type):
        text = _object(column)
    elif pa.types.is_integer(data_type) or pa.types.is_boolean(data_type):
        text = column.cast(pa.string())
    elif pa.types.is_floating(data_type):
        text = _json_floats(column)
    else:
        text = _quoted(as_text(column))
    return pc.if_else(column.is_valid(), text, "null").fill_null("null")


def _joined(column: pa.Array, items: pa.Array, begin: str, end: str) -> pa.Array:
    """Return one text per list: its items between brackets. `items`: the texts of the whole child array of `column`."""
    large = pa.types.is_large_list(column.type)
    lists = (pa.LargeListArray if large else pa.ListArray).from_arrays(column.offsets, items)
    return pc.binary_join_element_wise(begin, pc.binary_join(lists, ","), end, "")


def _object(column: pa.Array) -> pa.Array:
    parts: list[pa.Array | str] = []
    for field, values in zip(column.type, column.flatten(), strict=True):
        parts += [f"{',' if parts else '{'}{json.dumps(field.name, ensure_ascii=False)}:", as_json(values)]
    if not parts:
        return pa.array(["{}"] * len(column))
    return pc.binary_join_element_wise(*parts, "}", "")


def _quoted(text: pa.Array) -> pa.Array:
    """Return text as JSON strings; NULL stays NULL."""
    text = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(text, _MUST_ESCAPE)).as_py():  # rare, and 32 passes
        for code in range(32):
            text = pc.replace_substring(text, chr(code), f"\\u{code:04x}")
    return pc.binary_join_element_wise('"', text, '"', "")


def _json_floats(column: pa.Array) -> pa.Array:
    text = column.cast(pa.string())
    if pc.all(pc.is_finite(column)).as_py():
        return text
    for is_it, name in (
        (pc.is_nan(column), '"NaN"'),
        (pc.equal(column, float("inf")), '"Infinity"'),
        (pc.equal(column, float("-inf")), '"-Infinity"'),
    ):
        text = pc.if_else(is_it, name, text)
    return text


def _plain_decimals(column: pa.Array) -> pa.Array:
    """Return decimals without exponents.
    Arrow writes very small numbers with an exponent; Python rewrites only those.
    """
    text = column.cast(pa.string())
    with_exponent = pc.match_substring(text, "E")
    if not pc.any(with_exponent).as_py():
        return text
    plain = [format(value, "f") for value in column.filter(with_exponent).to_pylist() if value is not None]
    return pc.replace_with_mask(text, with_exponent.fill_null(False), pa.array(plain, pa.string()))


def _moments(column: pa.Array) -> pa.Array:
    """Return dates or timestamps as text. Arrow cannot write years that have more than 16 bits, and numpy can."""
    is_date, zone = pa.types.is_date32(column.type), getattr(column.type, "tz", None)
    numbers = column.cast(pa.int32() if is_date else pa.timestamp("us", zone)).cast(pa.int64())
    unit = 1 if is_date else _DAY_US
    far = pc.or_(pc.less(numbers, _DAYS[0] * unit), pc.greater_equal(numbers, (_DAYS[1] + 1) * unit)).fill_null(False)
    if not pc.any(far).as_py():
        return column.cast(pa.string())
    text = pc.if_else(far, None, column).cast(pa.string())
    days, clock = np.divmod(numbers.filter(far).to_numpy(), unit)
    written = pa.array(np.datetime_as_string(days.astype("M8[D]")).tolist(), pa.string())
    if not is_date:
        clock = pa.array(clock, pa.int64()).cast(pa.time64("us")).cast(pa.string())
        written = pc.binary_join_element_wise(written, clock, " ")
    return pc.replace_with_mask(text, far, pc.binary_join_element_wise(written, "" if zone is None else "Z", ""))


def _hex(column: pa.Array) -> pa.Array:
    column = column.cast(pa.large_binary())
    _, offsets_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offsets_buffer, "i8", len(column) + 1, column.offset * 8)
    data = np.frombuffer(data_buffer or b"", "u1")[offsets[0] : offsets[-1]]
    digits = pa.LargeStringArray.from_buffers(
        len(column),
        pa.py_buffer(((offsets - offsets[0]) * 2).tobytes()),
        pa.py_buffer(_HEX[data].tobytes()),
    )
    text = pc.binary_join_element_wise("\\x", digits.cast(pa.string()), "")
    return pc.if_else(column.is_valid(), text, None)
