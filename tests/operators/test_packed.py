"""Packed lists: the way there and back, their bytes, and the sorting behind them."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.operators.aggregate.packed import (
    Lists,
    distinct_by,
    earliest_by,
    list_counts,
    order_by,
    pack,
    packed_fields,
    positions,
    sorted_by,
    unpack,
)
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.values import Values
from mixedmode.state import RowCodec

GROUPS = 4
WIDE = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])
NARROW = st.integers(-3, 3)
BYTES = st.lists(st.sampled_from([b"\x00", b"a", b"\xff"]), max_size=3).map(b"".join)
#: kind -> values without NULL; narrow integers are sorted as one number together with their group
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "narrow": (pa.int64(), NARROW),
    "wide": (pa.int64(), WIDE),
    "bytes": (pa.large_binary(), BYTES),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def values_of(rows: list[Any], kind: str) -> Values:
    return Values.from_arrow(pa.array(rows, KINDS[kind][0]))


def listed(lists: Lists) -> list[list[Any]]:
    flat = iter(lists.values.to_arrow().to_pylist())
    return [[next(flat) for _ in range(count)] for count in lists.counts.tolist()]


def pairs_of(kind: str) -> st.SearchStrategy[list[tuple[int, Any]]]:
    return st.lists(st.tuples(st.integers(0, GROUPS - 1), st.none() | KINDS[kind][1]), max_size=20)


@kinds
@given(data=st.data())
def test_lists_come_back_from_the_state_as_they_were(kind: str, data: st.DataObject) -> None:
    data_type, value = KINDS[kind]
    rows = data.draw(st.lists(st.lists(value, max_size=4), min_size=1, max_size=6))
    lists = Lists(np.array([len(row) for row in rows], np.int64), values_of([v for row in rows for v in row], kind))
    parts = pack(lists)
    assert tuple(part.to_arrow().type for part in parts) == packed_fields(data_type)
    codec = RowCodec(tuple(pa.field(f"c{i}", t) for i, t in enumerate(packed_fields(data_type))))
    columns = codec.unpack(codec.pack([part.to_arrow() for part in parts]))
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(rows)), st.integers(0, len(rows)))))
    part = [Values.from_arrow(column.slice(start, end - start)) for column in columns]
    assert listed(unpack(part)) == rows[start:end], "also from a slice of a column"
    assert list_counts(part).tolist() == [len(row) for row in rows[start:end]]


def test_the_bytes_of_packed_lists_are_pinned() -> None:
    (numbers,) = pack(Lists(np.array([2, 0, 1]), Values(np.array([1, -1, 258]))))
    assert numbers.to_arrow().to_pylist() == [b"\x01" + b"\0" * 7 + b"\xff" * 8, b"", b"\x02\x01" + b"\0" * 6]
    texts = pa.array([b"ab", b"", b"c"], pa.large_binary())
    lengths, data = pack(Lists(np.array([2, 0, 1]), Values(texts)))
    assert lengths.to_arrow().to_pylist() == [b"\x02\0\0\0\0\0\0\0", b"", b"\x01\0\0\0"]
    assert data.to_arrow().to_pylist() == [b"ab", b"", b"c"]


@kinds
@given(data=st.data())
def test_distinct_values_are_those_of_a_set_in_order(kind: str, data: st.DataObject) -> None:
    rows = data.draw(pairs_of(kind))
    grouping = Grouping(np.array([group for group, _ in rows], np.int32), GROUPS)
    found = distinct_by(grouping, values_of([value for _, value in rows], kind))
    assert listed(found) == [sorted({v for g, v in rows if g == group and v is not None}) for group in range(GROUPS)]


@given(st.lists(st.tuples(st.integers(0, GROUPS - 1), WIDE | NARROW), max_size=20))
def test_sorted_numbers_are_those_of_a_list(rows: list[tuple[int, int]]) -> None:
    grouping = Grouping(np.array([group for group, _ in rows], np.int64), GROUPS)
    found = sorted_by(grouping, np.array([value for _, value in rows], np.int64))
    assert listed(found) == [sorted(v for g, v in rows if g == group) for group in range(GROUPS)]


@kinds
@pytest.mark.parametrize("weighted", [True, False])
@given(data=st.data(), limit=st.sampled_from([1, 2, 100]))
def test_the_earliest_values_are_those_of_a_sorted_list(
    kind: str, weighted: bool, data: st.DataObject, limit: int
) -> None:
    rows = data.draw(pairs_of(kind))
    times = data.draw(st.lists(NARROW | WIDE, min_size=len(rows), max_size=len(rows)))
    weights = data.draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows))) if weighted else None
    codes = np.array([group for group, _ in rows], np.int64)
    grouping = Grouping(codes, GROUPS, None if weights is None else np.array(weights, np.int64))
    values = values_of([value for _, value in rows], kind)
    lists, kept = earliest_by(grouping, np.array(times, np.int64), values, limit)
    times_of = listed(Lists(lists.counts, Values(kept)))
    for group in range(GROUPS):
        wanted = sorted(
            (time, value)
            for (g, value), time, weight in zip(rows, times, weights or [1] * len(rows), strict=True)
            for _ in range(weight)
            if g == group and value is not None
        )[:limit]
        assert list(zip(times_of[group], listed(lists)[group], strict=True)) == wanted


@given(st.lists(st.tuples(st.integers(0, GROUPS - 1), WIDE | NARROW, NARROW | WIDE), max_size=20))
def test_rows_are_ordered_by_group_and_then_column_by_column(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array([row[i] for row in rows], np.int64) for i in range(3)]
    order = order_by(Grouping(columns[0], GROUPS), columns[1:])
    assert [rows[i] for i in order] == sorted(rows)


def test_lists_are_thinned_value_by_value() -> None:
    lists = Lists(np.array([2, 0, 2]), Values(np.array([1, 2, 3, 4])))
    assert listed(lists.where(np.array([False, True, False, True]))) == [[2], [], [4]]
    assert lists.owners.tolist() == [0, 0, 2, 2]
    assert positions(lists.owners, 3).tolist() == [0, 1, 0, 1]


def test_there_may_be_no_group_at_all() -> None:
    nothing = Grouping(np.empty(0, np.int64), 0)
    assert listed(sorted_by(nothing, np.empty(0, np.int64))) == []
    assert listed(unpack(pack(distinct_by(nothing, values_of([], "bytes"))))) == []
