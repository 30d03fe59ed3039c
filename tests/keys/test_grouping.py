"""Group numbers: equal rows share one, distinct rows do not, and numbers follow first appearance."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mixedmode.keys import Groups, distinct_max, group_codes, grouping
from mixedmode.keys.sample import HASH_FACTOR

SMALL: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-3, 3),
    pa.int64(): st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes().map(lambda t: t.replace(year=2000)),
    pa.decimal128(20, 2): st.integers(-3, 3).map(lambda n: Decimal(n).scaleb(-2)),
    pa.float64(): st.sampled_from([0.0, -0.0, math.nan, -math.nan, 1.5, math.inf]),
    pa.float32(): st.sampled_from([0.0, -0.0, math.nan, 1.5]),
    pa.string(): st.sampled_from(["", "a", "b", "\x00"]),
    pa.large_binary(): st.binary(max_size=2),
}


@st.composite
def group_columns(draw: st.DrawFn) -> list[pa.Array]:
    types = draw(st.lists(st.sampled_from(list(SMALL)), min_size=1, max_size=4))
    rows, skipped = draw(st.integers(0, 30)), draw(st.integers(0, 2))
    count = rows + skipped
    nullable = draw(st.booleans())
    values = {t: (st.none() | SMALL[t]) if nullable else SMALL[t] for t in types}
    return [pa.array(draw(st.lists(values[t], min_size=count, max_size=count)), t)[skipped:] for t in types]


def _canonical(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def _by_dictionary(columns: list[pa.Array]) -> tuple[list[int], list[int]]:
    numbers: dict[Any, int] = {}
    codes, first_row = [], []
    for i, row in enumerate(zip(*(c.to_pylist() for c in columns), strict=True)):
        key = tuple(_canonical(v) for v in row)
        if key not in numbers:
            numbers[key] = len(numbers)
            first_row.append(i)
        codes.append(numbers[key])
    return codes, first_row


def _check(found: Groups, columns: list[pa.Array]) -> None:
    codes, first_row = _by_dictionary(columns)
    assert found.codes.tolist() == codes, "codes follow first appearance"
    assert found.first_row.tolist() == first_row, "first_row[c] is the first row with code c"
    assert found.codes.dtype == np.int32, "the type does not depend on the data"
    assert found.first_row.dtype == np.int64, "the type does not depend on the data"


@pytest.fixture(params=["as it is", "always sorted"], autouse=True)
def sorting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "always sorted":  # else only of many values
        monkeypatch.setattr(grouping, "_HASHED_VALUES_MAX", -1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # it is the same for all examples
@given(group_columns())
def test_groups_equal_those_of_a_dictionary_of_tuples(columns: list[pa.Array]) -> None:
    _check(group_codes(columns), columns)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    columns=st.lists(st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 12)), max_size=20), min_size=1, max_size=3)
)
def test_equal_integers_in_a_row_are_in_the_groups_of_the_others(columns: list[list[tuple[int, int]]]) -> None:
    repeated = [np.repeat(*np.array(runs or np.zeros((0, 2)), np.int64).T) for runs in columns]
    rows = min(map(len, repeated))
    found = [pa.array(values[:rows] * 2**40) for values in repeated]
    _check(group_codes(found), found)


@pytest.mark.parametrize("data_type", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.text(st.sampled_from("ab\x00é"), max_size=9)), skipped=st.integers(0, 3))
def test_short_words_are_told_apart_by_all_of_their_bytes(
    words: list[str], skipped: int, data_type: pa.DataType
) -> None:
    for some in (words, [word.replace("\x00", "c") for word in words], ["a" * min(len(word), 8) for word in words]):
        values = some if "string" in str(data_type) else [word.encode() for word in some]
        column = pa.array(values, data_type)[skipped:]
        _check(group_codes([column]), [column])


@pytest.mark.parametrize("last", ["1", "", "longer than eight", "\x00"], ids=repr)
def test_words_are_looked_at_in_blocks(last: str) -> None:
    column = pa.array([str(number % 70_000) for number in range(100_000)] + [last])
    _check(group_codes([column]), [column])


@pytest.mark.parametrize("spread", [1, 2**40])
def test_dense_and_sparse_integers_give_the_same_groups(spread: int) -> None:
    values = np.random.default_rng(3).integers(-500, 500, 5_000)
    _check(group_codes([pa.array(values * spread)]), [pa.array(values)])


def test_many_wide_columns_do_not_overflow() -> None:
    rng = np.random.default_rng(5)
    columns = [pa.array(rng.permutation(3_000) * 2**40) for _ in range(8)]
    groups = group_codes(columns)
    assert groups.codes.tolist() == list(range(3_000)), "all rows differ, so each is its own group"


def test_timestamps_without_null_group_by_value() -> None:
    stamps = pa.array([5, 5, 2**40, -1], pa.timestamp("us", "UTC"))
    assert group_codes([stamps]).codes.tolist() == [0, 0, 1, 2]


def test_extreme_integers_group_without_overflow() -> None:
    values = pa.array([2**63 - 1, -(2**63), 2**63 - 1])
    assert group_codes([values]).codes.tolist() == [0, 1, 0]


@pytest.mark.parametrize("distinct", [3, 300_000])
def test_many_integers_over_a_wide_range(distinct: int) -> None:
    numbers = np.random.default_rng(7).integers(0, distinct, 400_000)
    groups = group_codes([pa.array(numbers * 2**40 + 7)])
    assert (numbers[groups.first_row][groups.codes] == numbers).all(), "rows of a group are equal"
    assert len(groups.first_row) == len(np.unique(numbers)), "and no two groups are"
    assert (np.diff(groups.first_row) > 0).all(), "groups come in order of first appearance"


def test_values_whose_hashes_begin_alike_are_told_apart() -> None:
    inverse = pow(int(HASH_FACTOR), -1, 2**64)
    hashes = [(high << 40) + low for high in (1, 2, 2**23) for low in range(5)]
    values = np.array([hashed * inverse % 2**64 for hashed in hashes], np.uint64).view(np.int64)
    column = pa.array(np.random.default_rng(9).choice(values, 1000))
    _check(group_codes([column]), [column])


@given(group_columns())
def test_there_are_at_most_as_many_groups_as_the_bound_says(columns: list[pa.Array]) -> None:
    assert len(group_codes(columns).first_row) <= distinct_max(columns) <= len(columns[0])


def test_the_bound_of_integers_is_the_length_of_their_range() -> None:
    assert distinct_max([pa.array([7, 9, 7, 7, 7])]) == 3
    assert distinct_max([pa.array([-(2**63), 2**63 - 1, 0])]) == 3
    assert distinct_max([pa.array([7, None, 7, 7, 7])]) == 5
