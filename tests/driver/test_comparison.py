"""The differences of two tables are those that plain Python finds."""

import math
from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.driver.comparison import differences

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("x", pa.float64())])
VALUES = st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.sampled_from([None, 0.0, 1.5, math.nan, math.inf]))
TABLES = st.dictionaries(st.one_of(st.none(), st.sampled_from("abcd")), VALUES, max_size=5)
Table = dict[str | None, tuple[int | None, float | None]]


def table(rows: Table) -> pa.Table:
    found = [{"k": key, "n": n, "x": x} for key, (n, x) in rows.items()]
    return pa.Table.from_pylist(found, SCHEMA)


@given(expected=TABLES, found=TABLES)
def test_tables_with_a_key_are_compared_key_by_key(expected: Table, found: Table) -> None:
    result = differences(table(expected), table(found), ["k"])
    assert (result.missing, result.unexpected) == (
        len(expected.keys() - found.keys()),
        len(found.keys() - expected.keys()),
    )
    different = {key for key in expected.keys() & found.keys() if repr(expected[key]) != repr(found[key])}
    assert {one.key["k"] for one in result.first if one.kind == "different"} == different
    assert result.compared == len(expected.keys() | found.keys())
    assert result.are_none == (repr(sorted(expected.items(), key=repr)) == repr(sorted(found.items(), key=repr)))


@given(expected=st.lists(st.sampled_from("ab")), found=st.lists(st.sampled_from("ab")))
def test_tables_without_a_key_are_compared_as_multisets(expected: list[str], found: list[str]) -> None:
    one, other = (pa.table({"k": pa.array(rows, pa.string())}) for rows in (expected, found))
    missing, unexpected = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    result = differences(one, other, [])
    assert (result.missing, result.unexpected, result.different) == (len(missing), len(unexpected), 0)


def test_doubles_may_differ_in_their_last_bits_and_nothing_else_may() -> None:
    def found(value: Any) -> bool:
        return differences(table({"a": (1, 0.1 + 0.2)}), table({"a": (1, value)}), ["k"]).are_none

    assert [found(value) for value in (0.3, 0.300001, None, math.nan)] == [True, False, False, False]


def test_a_difference_has_both_rows() -> None:
    (one,) = differences(table({"a": (1, None)}), table({"a": (2, None)}), ["k"]).first
    assert (one.key, one.expected, one.found) == (
        {"k": "a"},
        {"k": "a", "n": 1, "x": None},
        {"k": "a", "n": 2, "x": None},
    )
