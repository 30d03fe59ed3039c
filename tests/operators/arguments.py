"""Argument columns for the tests of aggregates: every type an argument may have, with the values where types end."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """The decimal `unscaled / 10**scale`, exactly: Python's arithmetic on decimals would round to 28 digits."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def integers(bits: int) -> st.SearchStrategy[int]:
    """All integers of a type, its ends and neighbours of zero often."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.sampled_from([low, low + 1, -1, 0, 1, high - 1, high]) | st.integers(low, high)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    """All decimals of a type, its ends often."""
    highest = 10**precision - 1
    unscaled = st.sampled_from([-highest, -1, 0, 1, highest]) | st.integers(-highest, highest)
    return unscaled.map(lambda n: decimal_of(n, scale))


def doubles(limit: float = 1e150) -> st.SearchStrategy[float]:
    """Doubles of all kinds. Beyond `limit` the squares that a variance adds up are infinite, in Spark too."""
    special = st.sampled_from([0.0, -0.0, float("nan"), float("inf"), float("-inf"), 0.1, 1e16, -limit, 5e-324])
    return special | st.floats(-limit, limit)


_NAIVE = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))  # noqa: DTZ001 (a timestamp without a time zone)
_TEXT = st.text(st.sampled_from("\x00az\u00ff\u20ac\U0001f600"), max_size=4)
_BYTES = st.lists(st.sampled_from([b"\x00", b"\xff", b"a"]), max_size=4).map(b"".join)

ARGUMENTS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): integers(8),
    pa.int16(): integers(16),
    pa.int32(): integers(32),
    pa.int64(): integers(64),
    pa.float32(): st.floats(width=32, min_value=-(2.0**60), max_value=2.0**60) | st.sampled_from([float("nan"), -0.0]),
    pa.float64(): doubles(),
    pa.decimal128(5, 2): decimals(5, 2),
    pa.decimal128(18, 18): decimals(18, 18),
    pa.decimal128(19, 0): decimals(19, 0),
    pa.decimal128(28, 4): decimals(28, 4),
    pa.decimal128(38, 10): decimals(38, 10),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates() | st.sampled_from([date.min, date.max]),
    pa.timestamp("us"): _NAIVE,
    pa.timestamp("us", "UTC"): _NAIVE.map(lambda t: t.replace(tzinfo=UTC)),
    pa.string(): _TEXT,
    pa.large_string(): _TEXT,
    pa.binary(): _BYTES,
    pa.large_binary(): _BYTES,
}
#: types with parts that Spark orders, and one that it does not
STRUCT = pa.struct([("a", pa.float64()), ("b", pa.string()), ("c", pa.list_(pa.int8()))])
ORDERED = [*ARGUMENTS, STRUCT, pa.list_(pa.float32()), pa.list_(pa.struct([("x", pa.bool_())]))]
STORED = [*ORDERED, pa.map_(pa.string(), STRUCT)]
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
FLOATS = [pa.float32(), pa.float64()]
DECIMALS = [t for t in ARGUMENTS if pa.types.is_decimal(t)]
NUMBERS = [*INTEGERS, *FLOATS, *DECIMALS]


def column(values: Sequence[Any], data_type: pa.DataType, *, skipped: int = 0) -> pa.Array:
    """An array of `values` that starts `skipped` rows into its buffers, as slices of a batch do."""
    head = [None if i % 2 else value for i, value in enumerate(list(values)[:1] * skipped)]
    return pa.array([*head, *values], data_type).slice(len(head))


@st.composite
def columns(
    draw: st.DrawFn, types: Sequence[pa.DataType] = tuple(ARGUMENTS), max_size: int = 12, *, is_nested: bool = False
) -> pa.Array:
    """A column of one of the types, with NULLs, repeats and an offset.  is_nested: its type may have parts."""
    data_type = draw(nested_types() if is_nested else st.sampled_from(list(types)))
    pool = draw(st.lists(values_of(data_type), min_size=1, max_size=4))
    value = st.none() | st.sampled_from(pool) | values_of(data_type)
    return column(draw(st.lists(value, max_size=max_size)), data_type, skipped=draw(st.integers(0, 3)))


def nested_types() -> st.SearchStrategy[pa.DataType]:
    """Types of any depth: structs, arrays and maps of all scalar ones, and those themselves."""
    scalars = st.sampled_from([one for one in ARGUMENTS if not pa.types.is_large_string(one)])
    return st.recursive(scalars, _nested, max_leaves=4)


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    structs = st.lists(inner, max_size=3).map(lambda types: pa.struct([(f"f{i}", one) for i, one in enumerate(types)]))
    return structs | inner.map(pa.list_) | st.tuples(inner, inner).map(lambda types: pa.map_(*types))


def values_of(data_type: pa.DataType) -> st.SearchStrategy[Any]:
    """The values of a type of `nested_types`, other than NULL."""
    if pa.types.is_struct(data_type):
        names = [field.name for field in data_type]
        parts = st.tuples(*(st.none() | values_of(field.type) for field in data_type))
        return parts.map(lambda values: dict(zip(names, values, strict=True)))  # in the order of the fields
    if pa.types.is_list(data_type):
        return st.lists(st.none() | values_of(data_type.value_type), max_size=3)
    if pa.types.is_map(data_type):
        entries = st.tuples(values_of(data_type.key_type), st.none() | values_of(data_type.item_type))
        return st.lists(entries, max_size=3)
    return ARGUMENTS[data_type]
