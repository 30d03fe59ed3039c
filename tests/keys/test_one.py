"""One key as bytes: the same as a column of one key, and the same key group."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.keys.one import encode_integer, encode_text, key_group


def the_column(value: object, kind: pa.DataType) -> pa.Array:
    return encode_keys([pa.array([value], kind)], KeySchema((pa.field("k", kind),)))


@given(st.sampled_from([8, 16, 32, 64]), st.data())
def test_an_integer_is_encoded_as_a_column_of_it(bits: int, data: st.DataObject) -> None:
    value = data.draw(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    kind = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]
    assert encode_integer(value, bits=bits) == the_column(value, kind)[0].as_py()


@given(st.integers(2**31) | st.integers(max_value=-(2**31) - 1))
def test_an_integer_beyond_the_type_is_refused(value: int) -> None:
    with pytest.raises(OverflowError):
        encode_integer(value, bits=32)


@given(st.text(), st.integers(1, 2**15))
def test_a_text_is_encoded_as_a_column_of_it_and_has_its_key_group(value: str, max_parallelism: int) -> None:
    keys = the_column(value, pa.string())
    assert encode_text(value) == keys[0].as_py()
    groups = key_groups(keys, max_parallelism=max_parallelism)
    assert key_group(encode_text(value), max_parallelism=max_parallelism) == groups[0]
