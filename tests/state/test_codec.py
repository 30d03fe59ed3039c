"""Stored state values: their bytes are pinned, they come back exactly, and damage is refused instead of read."""

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import CorruptStateError
from mixedmode.state import RowCodec

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=True),
    pa.large_binary(): st.binary(max_size=9),
}


def codec_of(*types: pa.DataType) -> RowCodec:
    return RowCodec(tuple(pa.field(f"f{i}", data_type) for i, data_type in enumerate(types)))


@st.composite
def rows(draw: st.DrawFn) -> tuple[RowCodec, list[pa.Array]]:
    """Columns of up to 20 fields, so that the validity bitmap has up to three bytes; each a slice of a longer array."""
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    types = types * draw(st.sampled_from([1, 5]))
    size, skipped = draw(st.integers(0, 8)), draw(st.integers(0, 2))
    count = size + skipped
    columns = [pa.array(draw(st.lists(st.none() | VALUES[t], min_size=count, max_size=count)), t) for t in types]
    return codec_of(*types), [column.slice(skipped) for column in columns]


def bits(value: Any) -> Any:
    """Told apart to the last bit; one NaN is as good as another."""
    if not isinstance(value, float):
        return value
    return "nan" if math.isnan(value) else struct.pack("<d", value)


@given(rows())
def test_values_come_back_exactly(case: tuple[RowCodec, list[pa.Array]]) -> None:
    codec, columns = case
    found = codec.unpack(codec.pack(columns))
    assert [column.type for column in found] == [field.type for field in codec.fields]
    for column, expected in zip(found, columns, strict=True):
        column.validate(full=True)
        assert [bits(v) for v in column.to_pylist()] == [bits(v) for v in expected.to_pylist()]


@given(rows())
def test_a_value_does_not_depend_on_the_values_beside_it(case: tuple[RowCodec, list[pa.Array]]) -> None:
    codec, columns = case
    together = list(codec.pack(columns))
    alone = [codec.pack([column.slice(i, 1) for column in columns])[0] for i in range(len(columns[0]))]
    assert together == alone
    assert all(isinstance(value, bytes) for value in together)
    if codec.is_fixed_width:
        assert {len(value) for value in together} <= {codec.head_bytes}


@pytest.mark.parametrize(
    ("types", "row", "expected"),
    [
        ([pa.int64()], [258], "01 00  01  0201000000000000"),
        ([pa.int64()], [-1], "01 00  01  ffffffffffffffff"),
        ([pa.int64()], [None], "01 00  00  0000000000000000"),
        ([pa.float64()], [-0.0], "01 00  01  0000000000000080"),
        ([pa.large_binary()], [b""], "01 00  01  00000000"),
        ([pa.large_binary()], [None], "01 00  00  00000000"),
        ([pa.large_binary(), pa.int64()], [b"ab", 1], "01 00  03  02000000  0100000000000000  6162"),
        (
            [pa.large_binary(), pa.float64(), pa.large_binary()],
            [b"a", None, b"xyz"],
            "01 00  05  01000000  0000000000000000  03000000  61  78797a",
        ),
        ([pa.int64()] * 9, [None] * 8 + [1], "01 00  0001" + "00" * 64 + "0100000000000000"),
    ],
)
def test_stored_bytes_are_pinned(types: list[pa.DataType], row: list[Any], expected: str) -> None:
    codec = codec_of(*types)
    columns = [pa.array([value], data_type) for value, data_type in zip(row, types, strict=True)]
    assert list(codec.pack(columns)) == [bytes.fromhex(expected)], (
        "checkpoints hold these bytes: a change needs a new version"
    )
    assert [column.to_pylist() for column in codec.unpack([bytes.fromhex(expected)])] == [[value] for value in row]


WHAT = (
    "a stored state value is not in the format that this program reads: it is damaged, or was written by another "
    "version or another job. Restore from an older checkpoint, or use a new checkpointing.dir. "
)
FIXED = codec_of(pa.int64())
VARIABLE = codec_of(pa.large_binary(), pa.int64(), pa.large_binary())


def good(codec: RowCodec) -> bytes:
    samples: dict[pa.DataType, Any] = {pa.int64(): 7, pa.large_binary(): b"abc"}
    return codec.pack([pa.array([samples[field.type]], field.type) for field in codec.fields])[0]


@pytest.mark.parametrize(
    ("codec", "damage", "values"),
    [
        (FIXED, lambda v: v[:-1], "bytes=10, bytes_expected=11"),
        (FIXED, lambda v: v + b"\x00", "bytes=12, bytes_expected=11"),
        (FIXED, lambda _: b"", "bytes=0, bytes_expected=11"),
        (FIXED, lambda v: b"\x02" + v[1:], "version=2, version_expected=1, schema=0, schema_expected=0"),
        (FIXED, lambda v: v[:1] + b"\x09" + v[2:], "version=1, version_expected=1, schema=9, schema_expected=0"),
        (VARIABLE, lambda v: v[:18], "bytes=18, bytes_expected_at_least=19"),
        (VARIABLE, lambda v: v[:-1], "bytes_lacking=1"),
        (VARIABLE, lambda v: v + b"zz", "bytes_left_over=2"),
        (VARIABLE, lambda v: v[:3] + b"\xff\xff\xff\xff" + v[7:], f"bytes_lacking={2**32 - 1 - 6}"),
        (VARIABLE, lambda v: b"\x00" + v[1:], "version=0, version_expected=1, schema=0, schema_expected=0"),
    ],
)
def test_a_damaged_value_is_refused_in_full(codec: RowCodec, damage: Callable[[bytes], bytes], values: str) -> None:
    whole = good(codec)
    for beside in ([damage(whole)], [whole, damage(whole)], [damage(whole), whole]):
        with pytest.raises(CorruptStateError) as caught:
            codec.unpack(beside)
        assert str(caught.value) == WHAT + values


@pytest.mark.parametrize("codec", [FIXED, VARIABLE], ids=["fixed", "variable"])
def test_a_value_that_is_too_short_is_not_made_up_for_by_one_that_is_too_long(codec: RowCodec) -> None:
    whole = good(codec)
    for pair in ([whole[:-1], whole[-1:] + whole], [whole + whole[:1], whole[1:]]):
        assert b"".join(pair) == whole + whole, "together they look like two values"
        with pytest.raises(CorruptStateError):
            codec.unpack(pair)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4), st.sampled_from([FIXED, VARIABLE]))
def test_arbitrary_bytes_are_read_or_refused_and_never_anything_else(values: Sequence[bytes], codec: RowCodec) -> None:
    headed = [b"\x01\x00" + value for value in values]
    for candidate in (values, headed):
        try:
            columns = codec.unpack(candidate)
        except CorruptStateError:
            continue
        for column in columns:
            column.validate(full=True)


@pytest.mark.parametrize("codec", [FIXED, VARIABLE], ids=["fixed", "variable"])
def test_no_values_are_empty_columns(codec: RowCodec) -> None:
    columns = codec.unpack([])
    assert [(len(column), column.type) for column in columns] == [(0, field.type) for field in codec.fields]
    assert list(codec.pack(columns)) == []
