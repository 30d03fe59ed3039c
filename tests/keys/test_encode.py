"""Encoded keys: byte order is value order, decoding gives the values back, and no key is a prefix of another."""

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.keys import KeySchema, decode_keys, encode_keys, key_widths


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    highest = 10**precision - 1
    return st.integers(-highest, highest).map(lambda n: Decimal(n).scaleb(-scale))


#: few letters, with NUL and 0xFF often, so that escapes, prefixes and ties happen
_BYTES = st.lists(st.sampled_from([b"\x00", b"\xff", b"a", b"\x01"]), max_size=6).map(b"".join) | st.binary(max_size=20)
_TEXT = st.text(st.sampled_from("\x00\x01az\u00ff\u20ac"), max_size=6) | st.text(max_size=10)
_NAIVE = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))  # noqa: DTZ001 (a timestamp without a time zone)

TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): _integers(8),
    pa.int16(): _integers(16),
    pa.int32(): _integers(32),
    pa.int64(): _integers(64),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us"): _NAIVE,
    pa.timestamp("us", "UTC"): _NAIVE.map(lambda t: t.replace(tzinfo=UTC)),
    pa.decimal128(38, 10): st.integers(1, 28).flatmap(lambda p: _decimals(p, 10)),
    pa.decimal128(5, 2): _decimals(5, 2),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): _TEXT,
    pa.large_string(): _TEXT,
    pa.binary(): _BYTES,
    pa.large_binary(): _BYTES,
}


@st.composite
def key_columns(draw: st.DrawFn) -> tuple[list[pa.Array], KeySchema]:
    """1 to 3 columns of the same length, NULLs included, each a slice of a longer array."""
    types = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=3))
    rows, skipped = draw(st.integers(0, 12)), draw(st.integers(0, 3))
    count = rows + skipped + 1
    columns = [
        pa.array(draw(st.lists(st.none() | TYPES[t], min_size=count, max_size=count)), t)[skipped : skipped + rows]
        for t in types
    ]
    return columns, KeySchema(tuple(pa.field(f"c{i}", t) for i, t in enumerate(types)))


def _sort_key(value: Any) -> tuple[Any, ...]:
    """Python order with NULL first, NaN last, strings by their UTF-8 bytes."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, 1, 0.0) if math.isnan(value) else (1, 0, value)
    return (1, value.encode() if isinstance(value, str) else value)


def _tuples(columns: list[pa.Array]) -> list[tuple[Any, ...]]:
    return [tuple(_sort_key(v) for v in row) for row in zip(*(c.to_pylist() for c in columns), strict=True)]


def _key_bytes(columns: list[pa.Array], schema: KeySchema) -> list[Any]:
    found: list[Any] = encode_keys(columns, schema).to_pylist()
    return found


@given(key_columns())
def test_byte_order_of_keys_is_the_order_of_their_values_with_null_first(
    case: tuple[list[pa.Array], KeySchema],
) -> None:
    columns, schema = case
    encoded, values = _key_bytes(columns, schema), _tuples(columns)
    for i, a in enumerate(encoded):
        for j, b in enumerate(encoded):
            assert (a < b) == (values[i] < values[j]), (values[i], values[j])
            assert (a == b) == (values[i] == values[j]), (values[i], values[j])


@given(key_columns())
def test_decoding_gives_back_the_values_and_the_types(case: tuple[list[pa.Array], KeySchema]) -> None:
    columns, schema = case
    decoded = decode_keys(encode_keys(columns, schema), schema)
    assert [c.type for c in decoded] == [f.type for f in schema.fields], "types are exactly those of the schema"
    assert _tuples(decoded) == _tuples(columns)
    for column in decoded:
        column.validate(full=True)


@given(key_columns())
def test_no_key_is_a_proper_prefix_of_another(case: tuple[list[pa.Array], KeySchema]) -> None:
    columns, schema = case
    encoded = set(_key_bytes(columns, schema))
    assert not [(a, b) for a in encoded for b in encoded if a != b and b.startswith(a)]


@given(key_columns(), st.integers(0, 12), st.integers(0, 12))
def test_a_slice_of_keys_decodes_to_the_slice_of_the_columns(
    case: tuple[list[pa.Array], KeySchema], start: int, count: int
) -> None:
    columns, schema = case
    start = min(start, len(columns[0]))
    part = decode_keys(encode_keys(columns, schema).slice(start, count), schema)
    assert _tuples(part) == _tuples([c.slice(start, count) for c in columns])


@given(key_columns())
def test_width_is_that_of_every_key_when_all_columns_are_fixed(case: tuple[list[pa.Array], KeySchema]) -> None:
    columns, schema = case
    keys = encode_keys(columns, schema)
    variable = {pa.string(), pa.large_string(), pa.binary(), pa.large_binary()}
    assert schema.is_fixed_width == variable.isdisjoint(f.type for f in schema.fields)
    assert keys.type == (pa.large_binary() if schema.width is None else pa.binary(schema.width))
    assert keys.null_count == 0, "a NULL column is bytes like any other"
    assert (schema.width is None) is not schema.is_fixed_width, "only keys of one width have one"


def _one(type_: pa.DataType, value: Any) -> bytes:
    key: bytes = encode_keys([pa.array([value], type_)], KeySchema((pa.field("k", type_),)))[0].as_py()
    return key


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (pa.int8(), -1, "01 7f"),
        (pa.int16(), 1, "01 8001"),
        (pa.int32(), None, "00 00000000"),
        (pa.int64(), 258, "01 8000000000000102"),
        (pa.bool_(), True, "01 01"),
        (pa.date32(), date(1970, 1, 2), "01 80000001"),
        (pa.timestamp("us", "UTC"), datetime(1970, 1, 1, tzinfo=UTC), "01 8000000000000000"),
        (pa.decimal128(10, 2), Decimal("-0.01"), "01 7fffffffffffffffffffffffffffffff"),
        (pa.float64(), -0.0, "01 8000000000000000"),
        (pa.float64(), math.nan, "01 fff8000000000000"),
        (pa.float32(), -1.0, "01 407fffff"),
        (pa.string(), "a", "01 61 0000"),
        (pa.string(), "", "01 0000"),
        (pa.string(), None, "00"),
        (pa.binary(), b"\x00\xff", "01 00ffff 0000"),
    ],
)
def test_stored_bytes_of_each_type_are_pinned(type_: pa.DataType, value: Any, expected: str) -> None:
    assert _one(type_, value) == bytes.fromhex(expected), "checkpoints hold these bytes: a change breaks them"


@given(case=key_columns(), before=st.integers(0, 3), rest=st.lists(_BYTES, min_size=1, max_size=4))
def test_where_a_key_ends_can_be_told_whatever_follows_it(
    case: tuple[list[pa.Array], KeySchema], before: int, rest: list[bytes]
) -> None:
    columns, schema = case
    keys = encode_keys(columns, schema).to_pylist()
    rows = [b"\x00" * before + key + rest[number % len(rest)] for number, key in enumerate(keys)]
    widths = key_widths(pa.array(rows, pa.large_binary()), schema, after=before)
    assert widths.tolist() == list(map(len, keys))


def test_bytes_that_end_within_a_key_are_no_key() -> None:
    schema = KeySchema((pa.field("k", pa.string()), pa.field("n", pa.int64())))
    key = encode_keys([pa.array(["ab"]), pa.array([7])], schema)[0].as_py()
    for end in range(len(key)):
        with pytest.raises(CorruptStateError, match="stored key bytes do not fit the key columns"):
            key_widths(pa.array([key[:end]], pa.large_binary()), schema, after=0)


def test_stored_bytes_of_a_mixed_key_are_pinned() -> None:
    schema = KeySchema((pa.field("a", pa.string()), pa.field("b", pa.int16()), pa.field("c", pa.binary())))
    columns: list[Any] = [pa.array(["x", None]), pa.array([1, None], pa.int16()), pa.array([None, b"y"])]
    assert encode_keys(columns, schema).to_pylist() == [
        bytes.fromhex("01 78 0000  01 8001  00"),
        bytes.fromhex("00  00 0000  01 79 0000"),
    ]


def test_values_under_a_null_do_not_reach_the_key() -> None:
    values = pa.array([7, 8]).buffers()[1]
    masked = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x02"), values])
    first, _ = encode_keys([masked], KeySchema((pa.field("k", pa.int64()),))).to_pylist()
    assert first == bytes(9), "row 0 is NULL, although its slot holds 7"


def test_all_bit_patterns_of_nan_are_one_key() -> None:
    patterns = pa.array([0x7FF8000000000000, -1, 0x7FF0000000000001], pa.int64()).view(pa.float64())
    assert len(set(encode_keys([patterns], KeySchema((pa.field("k", pa.float64()),))).to_pylist())) == 1


@pytest.mark.parametrize("type_", [pa.timestamp("ns"), pa.uint8(), pa.list_(pa.int8()), pa.decimal256(40, 0)])
def test_a_type_without_a_byte_order_is_refused(type_: pa.DataType) -> None:
    with pytest.raises(InvalidJobError) as caught:
        KeySchema((pa.field("k", type_),))
    assert str(caught.value) == (
        "a column of this type cannot be part of a key, because it has no defined byte order here. "
        "Cast it in a `sql` step to an integer, boolean, string, binary, date, timestamp (microseconds), decimal "
        f"(up to 38 digits) or floating-point type. column=k, type={type_}"
    )


def test_a_key_without_columns_is_refused() -> None:
    with pytest.raises(InvalidJobError) as caught:
        KeySchema(())
    assert str(caught.value) == (
        "a key needs at least one column, because rows are grouped by it. Name one in `key-by`. fields=()"
    )


_INT = KeySchema((pa.field("k", pa.int64()),))
_TWO = KeySchema((pa.field("a", pa.string()), pa.field("b", pa.string())))


@pytest.mark.parametrize(
    ("schema", "damage"),
    [
        (_INT, lambda key: key[:-1]),
        (_INT, lambda key: key + b"\x00"),
        (_TWO, lambda key: key[:-1]),
        (_TWO, lambda key: key[:4]),
        (_TWO, lambda key: key[:-2] + b"zz"),
        (_TWO, lambda _: b""),
        (_TWO, lambda _: b"\x01"),
        (_TWO, lambda key: key.replace(b"x", b"\xc3")),
    ],
)
def test_bytes_which_do_not_fit_the_schema_are_refused(schema: KeySchema, damage: Callable[[bytes], bytes]) -> None:
    columns: list[Any] = [pa.array(["x"]), pa.array(["y"])] if schema is _TWO else [pa.array([5])]
    good = encode_keys(columns, schema)[0].as_py()
    with pytest.raises(CorruptStateError) as caught:
        decode_keys(pa.array([good, damage(good)], pa.large_binary()), schema)
    assert str(caught.value) == (
        "stored key bytes do not fit the key columns, so state and job disagree or the bytes are damaged. "
        "Restore from an older checkpoint, or start the job with the key columns that wrote it. "
        f"columns={[f'{f.name}: {f.type}' for f in schema.fields]}"
    )


def test_a_marker_which_is_neither_null_nor_value_is_refused() -> None:
    with pytest.raises(CorruptStateError) as caught:
        decode_keys(pa.array([b"\x07" + bytes(8)], pa.binary(9)), _INT)
    assert str(caught.value) == (
        "a key column starts with a byte that is neither NULL nor value, so these bytes are no encoded keys. "
        "Restore from an older checkpoint. marker=7"
    )


@given(st.lists(st.binary(max_size=12), max_size=8))
def test_arbitrary_bytes_decode_or_are_refused_and_never_anything_else(rows: list[bytes]) -> None:
    schema = KeySchema((pa.field("a", pa.binary()), pa.field("b", pa.int8()), pa.field("c", pa.binary())))
    try:
        decoded = decode_keys(pa.array(rows, pa.large_binary()), schema)
    except CorruptStateError:
        return
    for column in decoded:
        column.validate(full=True)
