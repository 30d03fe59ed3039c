"""Rows that may be among the best of their keys: none of the best is dropped, and of distinct values no other stays."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.keys import KeySchema
from mixedmode.operators.top.candidates import Candidates, candidates
from mixedmode.operators.top.rows import OrderColumn, RowLayout

VALUES = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3))),
    "float64": (pa.float64(), st.floats()),
    "decimal": (pa.decimal128(38, 3), st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}e-3"))),
    "timestamp": (pa.timestamp("us"), st.integers(-(2**63), 2**63 - 1)),
    "bool": (pa.bool_(), st.booleans()),
}


@given(data=st.data(), name=st.sampled_from(list(VALUES)), descending=st.booleans(), n=st.integers(1, 4))
def test_the_best_rows_of_each_key_remain(data: st.DataObject, name: str, descending: bool, n: int) -> None:
    data_type, values = VALUES[name]
    rows = data.draw(st.lists(st.tuples(st.sampled_from(["a", "b", None]), values), max_size=30))
    keys, column = pa.array([key for key, _ in rows], pa.string()), pa.array([v for _, v in rows], data_type)
    by = OrderColumn(data_type, descending, nulls_first=True)
    kept = candidates([keys], column, by, n)
    remaining = set(range(len(rows)) if kept.rows is None else kept.rows.tolist())
    layout = RowLayout(KeySchema((pa.field("k", pa.string()),)), (by,), ())
    packed = layout.pack([keys], [column], [])[1].to_pylist()
    for key in {key for key, _ in rows}:
        members = [place for place, row in enumerate(rows) if row[0] == key]
        worst = sorted(packed[place] for place in members)[:n][-1]
        assert {place for place in members if packed[place] <= worst} <= remaining


def test_of_many_rows_of_a_key_only_the_best_and_their_equals_remain() -> None:
    keys = pa.array([0] * 500 + [1] * 500, pa.int64())
    column = pa.array([*range(500), *[7] * 500], pa.int64())
    kept = candidates([keys], column, OrderColumn(pa.int64(), descending=True, nulls_first=True), 3)
    assert kept.rows is not None
    assert np.array_equal(kept.rows, [497, 498, 499, *range(500, 1000)])
    assert kept.has_more, "500 equal rows, of which 3 remain"


def test_of_distinct_values_hardly_a_row_is_left_to_drop() -> None:
    keys, column = pa.array([0, 1] * 500, pa.int64()), pa.array([*range(1000)], pa.int64())
    kept = candidates([keys], column, OrderColumn(pa.int64(), descending=False, nulls_first=True), 5)
    assert kept.rows is not None
    assert np.array_equal(kept.rows, range(10))
    assert not kept.has_more


def test_a_key_with_most_of_the_rows_is_pruned_among_keys_that_do_not_repeat() -> None:
    keys = pa.array([*range(1000), *[-7] * 9000], pa.int64())
    column = pa.array(np.arange(10_000), pa.int64())
    kept = candidates([keys], column, OrderColumn(pa.int64(), descending=True, nulls_first=True), 1)
    assert kept.rows is not None
    assert np.array_equal(kept.rows, [*range(1000), 9999])


@pytest.mark.parametrize(
    ("keys", "column", "has_more"),
    [([1, 1, 1], [1, None, 2], True), (list(range(300)), list(range(300)), False), ([], [], False)],
    ids=["NULL", "keys that do not repeat", "no rows"],
)
def test_nothing_is_dropped_where_it_is_not_known_or_does_not_pay(
    keys: list[int], column: list[int | None], has_more: bool
) -> None:
    order = OrderColumn(pa.int64(), descending=False, nulls_first=True)
    found = candidates([pa.array(keys, pa.int64())], pa.array(column, pa.int64()), order, 1)
    assert found == Candidates(None, has_more)


def test_texts_have_no_words() -> None:
    by = OrderColumn(pa.string(), descending=False, nulls_first=True)
    assert candidates([pa.array([1, 1])], pa.array(["a", "b"]), by, 1) == Candidates(None, has_more=True)
