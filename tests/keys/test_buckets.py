"""Buckets of rows by key: equal keys are in one bucket, whatever their type."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.keys import BUCKETS, Division, division_of, group_codes

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[object]]] = {
    "integers near each other": (pa.int64(), st.integers(0, 40)),
    "integers": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small integers": (pa.int8(), st.integers(-128, 127)),
    "integers with NULL": (pa.int32(), st.none() | st.integers(0, 5)),
    "doubles": (pa.float64(), st.none() | st.floats() | st.sampled_from([0.0, -0.0, float("nan")])),
    "text": (pa.string(), st.none() | st.text(max_size=12)),
    "booleans": (pa.bool_(), st.none() | st.booleans()),
}


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_rows_with_equal_keys_are_in_one_bucket(kind: str, data: st.DataObject) -> None:
    type_, values = VALUES[kind]
    parts = data.draw(st.lists(st.lists(values, min_size=1, max_size=30), min_size=1, max_size=4))
    columns = [[pa.array(part, type_)] for part in parts]
    codes = group_codes([pa.array([value for part in parts for value in part], type_)]).codes
    division = division_of(columns, distinct=float(codes.max() + 1))
    buckets = np.concatenate([division.buckets(part) for part in columns])
    for code in np.unique(codes):
        assert len(np.unique(buckets[codes == code])) == 1


@given(values=st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=30), width=st.integers(1, 5_000))
def test_values_that_nearly_fill_a_range_are_divided_by_value(values: list[int], width: int) -> None:
    keys = values[0] + np.array([value % width for value in values])
    division = division_of([[pa.array(keys)]], distinct=float(width))
    buckets = division.buckets([pa.array(np.sort(keys))])
    assert division.low == keys.min()
    assert (np.diff(buckets.astype(np.int64)) >= 0).all()


def test_values_with_gaps_and_keys_of_several_columns_are_divided_by_hash() -> None:
    far_apart, near = pa.array([0, 2**40]), pa.array([0, 1])
    assert division_of([[far_apart]], distinct=2.0) == Division()
    assert division_of([[near, near]], distinct=2.0) == Division()
    assert division_of([[near], [pa.array([0, None])]], distinct=2.0) == Division()


def test_a_hash_uses_all_buckets_about_equally() -> None:
    buckets = Division().buckets([pa.array(np.arange(BUCKETS * 1_000) * 4096)])
    counts = np.bincount(buckets, minlength=BUCKETS)
    assert 800 < counts.min() < counts.max() < 1_200
