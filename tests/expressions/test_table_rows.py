"""Rows of a table that a query joins: each key finds its row, whatever the index; equal keys are refused."""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import LeftToSparkError
from mixedmode.expressions import Column, Match, Query, Table, TableRows, Taken, evaluate, is_key_type

#: hostile values of each type, among them those that are near, and those that are as far apart as they can be
VALUES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int8(): [-128, -1, 0, 1, 127],
    pa.int32(): [-(2**31), -1, 0, 1, 2, 3, 2**31 - 1],
    pa.int64(): [-(2**63), -(2**63) + 1, -1, 0, 1, 2, 2**63 - 2, 2**63 - 1],
    pa.float64(): [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan],
    pa.string(): ["", "a", "a\0", "ä", "a" * 40],
    pa.binary(): [b"", b"\0", b"\xff", b"\xff\0"],
    pa.date32(): [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)],
    pa.timestamp("us", "UTC"): [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(2024, 1, 1, tzinfo=UTC)],
    pa.decimal128(20, 2): [Decimal("-0.01"), Decimal("0.00"), Decimal("999999999999999999.99")],
}


def plain(value: Any) -> Any:
    """Return a value that Python compares as SQL does."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def keys_of(rows: Sequence[tuple[Any, ...]], types: Sequence[pa.DataType]) -> list[pa.Array]:
    return [pa.array([row[n] for row in rows], data_type) for n, data_type in enumerate(types)]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[pa.DataType], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    row = st.tuples(*(st.one_of(st.none(), st.sampled_from(VALUES[data_type])) for data_type in types))
    return types, draw(st.lists(row, max_size=12)), draw(st.lists(row, max_size=20))


@given(tables(), st.booleans())
def test_each_row_finds_the_row_with_its_keys(
    case: tuple[list[pa.DataType], list[tuple[Any, ...]], list[tuple[Any, ...]]], is_set: bool
) -> None:
    types, rows, wanted = case
    table = pa.table(
        [*keys_of(rows, types), pa.array(range(len(rows)), pa.int64())],
        names=[*(f"k{n}" for n in range(len(types))), "number"],
    )
    known = [tuple(map(plain, row)) for row in rows if None not in row]
    if not is_set and len(set(known)) < len(known):
        with pytest.raises(LeftToSparkError, match="equal keys"):
            TableRows.of(table, len(types))
        return
    found = TableRows.of(table, len(types), is_set=is_set)
    matches = found.matches(keys_of(wanted, types))
    expected = [None not in row and tuple(map(plain, row)) in known for row in wanted]
    assert matches.is_valid().to_pylist() == expected
    numbers = found.columns["number"].take(matches).to_pylist()
    for row, number in zip(wanted, numbers, strict=True):
        assert number is None or tuple(map(plain, rows[number])) == tuple(map(plain, row))


@given(st.sets(st.integers(-60, 60), min_size=1), st.lists(st.integers(-200, 200)), st.sampled_from([1, 1000]))
def test_integers_are_found_with_gaps_and_without(keys: set[int], wanted: list[int], factor: int) -> None:
    rows = TableRows.of(pa.table({"k": pa.array([factor * key for key in keys], pa.int64())}), 1)
    matches = rows.matches([pa.array(wanted, pa.int64())])
    assert matches.is_valid().to_pylist() == [one % factor == 0 and one // factor in keys for one in wanted]


def test_nested_types_are_no_keys() -> None:
    assert all(is_key_type(data_type) for data_type in VALUES)
    assert not is_key_type(pa.list_(pa.int32()))


def test_long_values_of_many_rows_are_joined_in_pieces() -> None:
    """So a value of some KB cannot make a batch of a million rows one of gigabytes."""
    text = "x" * 2**20
    table = TableRows.of(pa.table({"key": ["a", "b"], "text": [text, None]}), 1)
    query = Query(
        (Column("k", pa.string()), Match(0, (0,)), Taken(0, "text", (1,), pa.string())),
        (),
        (("k", 0), ("text", 2)),
        (Table("t", Query((), (), ()), 1, rows=table),),
    )
    keys = ["a", "b", "c"] * 100
    found = list(evaluate([query], [pa.record_batch({"k": keys})]))
    assert [key for batch in found for key in batch["k"].to_pylist()] == keys
    lengths = [length for batch in found for length in pc.binary_length(batch["text"]).to_pylist()]
    assert lengths == [len(text), None, None] * 100
    assert max(batch.num_rows for batch in found) == 64
