"""The syntax of an order: an expression, a direction, the place of NULL."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.config import OrderBy
from mixedmode.errors import InvalidJobError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("price", OrderBy("price", descending=False, nulls_first=True)),
        ("price ASC", OrderBy("price", descending=False, nulls_first=True)),
        (" price  desc ", OrderBy("price", descending=True, nulls_first=False)),
        ("price nulls last", OrderBy("price", descending=False, nulls_first=False)),
        ("price desc nulls\tfirst", OrderBy("price", descending=True, nulls_first=True)),
        ("a\n+ b Desc Nulls Last", OrderBy("a\n+ b", descending=True, nulls_first=False)),
        ("`price desc`", OrderBy("`price desc`", descending=False, nulls_first=True)),
        ("describe", OrderBy("describe", descending=False, nulls_first=True)),
    ],
)
def test_the_words_after_the_expression_are_its_direction_and_the_place_of_null(text: str, expected: OrderBy) -> None:
    assert OrderBy.parse(text) == expected


@given(
    expression=st.sampled_from(["price", "a + b", "coalesce(a, 'asc')", "`nulls first`"]),
    descending=st.booleans(),
    nulls_first=st.booleans(),
)
def test_an_order_is_written_as_it_is_read(expression: str, descending: bool, nulls_first: bool) -> None:
    order = OrderBy(expression, descending, nulls_first)
    assert OrderBy.parse(str(order)) == order


@pytest.mark.parametrize("text", ["desc", " asc", "nulls first", "NULLS LAST"])
def test_a_direction_without_an_expression_is_refused(text: str) -> None:
    with pytest.raises(InvalidJobError, match="needs an expression before its direction"):
        OrderBy.parse(text)
