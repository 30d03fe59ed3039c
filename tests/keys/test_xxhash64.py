"""xxHash64 over arrays: bit-equal to the xxhash library, whatever the lengths, the Arrow type or the slice."""

import random

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.keys import key_groups, xxhash64

ROWS = st.lists(st.binary(max_size=140), max_size=60)


def _expected(rows: list[bytes], seed: int = 42) -> list[int]:
    return [xxhash.xxh64(row, seed=seed).intdigest() for row in rows]


@given(ROWS, st.integers(0, 2**64 - 1))
def test_hash_equals_the_library_for_any_lengths_and_seed(rows: list[bytes], seed: int) -> None:
    for type_ in (pa.binary(), pa.large_binary()):
        assert xxhash64(pa.array(rows, type_), seed=seed).tolist() == _expected(rows, seed), type_


@given(st.integers(1, 100), st.data())
def test_hash_of_fixed_size_rows_equals_the_library(width: int, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.binary(min_size=width, max_size=width), max_size=20))
    assert xxhash64(pa.array(rows, pa.binary(width))).tolist() == _expected(rows)


@given(ROWS, st.integers(0, 60), st.integers(0, 60))
def test_hash_of_a_slice_is_the_slice_of_the_hashes(rows: list[bytes], start: int, count: int) -> None:
    begin = min(start, len(rows))
    sliced = pa.array(rows, pa.large_binary()).slice(begin, count)
    assert xxhash64(sliced).tolist() == _expected(rows[start : start + count])
    of_width = [row[:9].ljust(9, b"\0") for row in rows]
    sliced = pa.array(of_width, pa.binary(9)).slice(begin, count)
    assert xxhash64(sliced).tolist() == _expected(of_width[start : start + count])


def test_every_length_up_to_300_and_giant_rows_hash_as_the_library_does() -> None:
    rng = random.Random(7)
    rows = [rng.randbytes(length) for length in [*range(300), 4095, 4096, 4097, 100_000]]
    rng.shuffle(rows)
    assert xxhash64(pa.array(rows)).tolist() == _expected(rows)


def test_rows_of_several_blocks_hash_as_the_library_does() -> None:
    rows = [index.to_bytes(9, "big") for index in range(150_000)]
    assert xxhash64(pa.array(rows, pa.binary(9))).tolist() == _expected(rows)


@given(
    st.lists(st.binary(max_size=20), max_size=50),
    st.one_of(st.integers(1, 2**15), st.integers(0, 15).map(lambda power: 2**power)),
)
def test_key_group_is_the_positive_remainder_of_the_signed_hash(rows: list[bytes], max_parallelism: int) -> None:
    groups = key_groups(pa.array(rows, pa.large_binary()), max_parallelism=max_parallelism)
    signed = [h - 2**64 if h >= 2**63 else h for h in _expected(rows)]
    assert groups.dtype == np.uint16, "key groups are stored as uint16"
    assert groups.tolist() == [h % max_parallelism for h in signed], "Python's % is Spark's pmod for a positive divisor"


def test_hash_of_a_string_is_the_one_in_sparks_documentation() -> None:
    # https://spark.apache.org/docs/latest/api/python/reference/pyspark.sql/api/pyspark.sql.functions.xxhash64.html
    assert xxhash64(pa.array([b"ABC"])).view(np.int64).tolist() == [4105715581806190027]


def test_key_groups_refuse_a_wrong_max_parallelism() -> None:
    with pytest.raises(InvalidJobError, match=r"max_parallelism=0$"):
        key_groups(pa.array([b"a"]), max_parallelism=0)


def test_null_rows_are_a_defect_of_the_caller() -> None:
    with pytest.raises(AssertionError):
        xxhash64(pa.array([b"a", None]))
