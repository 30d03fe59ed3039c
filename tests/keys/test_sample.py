"""The sample: all rows of a key or none, about one key in 64, and what it says of how often keys repeat."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from mixedmode.keys import distinct_part, group_codes
from mixedmode.keys.arrow import I64
from mixedmode.keys.sample import SAMPLED_KEYS, sampled_rows
from tests.keys.test_grouping import group_columns

ROWS = 200_000


@given(group_columns())
def test_rows_with_equal_keys_are_in_it_together(columns: list[pa.Array]) -> None:
    codes = group_codes(columns).codes
    rows = sampled_rows(columns)
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert rows.tolist() == np.flatnonzero(np.isin(codes, codes[rows])).tolist()


def test_a_value_is_in_it_wherever_it_stands() -> None:
    """A short value among long ones, and NULL among either, in blocks of their own and in mixed ones."""
    values = [None if n % 7 == 0 else f"{n % 5000}" + " and more" * (n % 2) for n in range(ROWS)]
    column = pa.array(values, pa.string())
    found = {values[row] for row in sampled_rows([column]).tolist()}
    assert 0 < len(found) < 1000
    assert sampled_rows([column]).tolist() == [row for row, value in enumerate(values) if value in found]


def keys_of(kind: str, numbers: I64) -> list[pa.Array]:
    integers = pa.array(numbers)
    match kind:
        case "integers":
            return [integers]
        case "doubles":
            return [pa.array(numbers * 0.1)]
        case "mail addresses":
            return [pa.array([f"{number}@example.com" for number in numbers.tolist()])]
        case "URLs":
            return [pa.array([f"https://www.example.com/shop/{number}/index.html" for number in numbers.tolist()])]
        case _:
            return [pa.array(numbers % 7), pa.array([f"c{number // 7}" for number in numbers.tolist()])]


@pytest.mark.parametrize("kind", ["integers", "doubles", "mail addresses", "URLs", "two columns"])
@pytest.mark.parametrize("repeats", [1, 2, 10])
def test_it_tells_how_often_keys_repeat(kind: str, repeats: int) -> None:
    numbers = np.random.default_rng(1).permutation(np.repeat(np.arange(ROWS // repeats), repeats))
    columns = keys_of(kind, numbers)
    assert distinct_part(columns) == pytest.approx(1 / repeats, rel=0.2)
    assert len(sampled_rows(columns)) == pytest.approx(ROWS / SAMPLED_KEYS, rel=0.2)


@pytest.mark.parametrize("hot", [None, -7], ids=["in the sample", "outside it"])
def test_a_key_with_most_of_the_rows_counts_once(hot: int | None) -> None:
    numbers = list(range(ROWS // 10)) + [hot] * (ROWS - ROWS // 10)
    columns = [pa.array(numbers, pa.int64())]
    assert (hot in {numbers[row] for row in sampled_rows(columns).tolist()}) == (hot is None)
    assert distinct_part(columns) == pytest.approx(0.1, rel=0.2)


def test_nothing_has_no_distinct_part() -> None:
    assert distinct_part([pa.array([], pa.int64())]) == 0.0
