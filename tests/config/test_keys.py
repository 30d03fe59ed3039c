"""The key of a keyed step: columns, and expressions with a name."""

from typing import Any

import pytest

from mixedmode.config import KeyedAggregateStep
from tests.config.refusals import messages

COUNT = {"n": "count(*)"}


@pytest.mark.parametrize(
    ("key_by", "columns", "expressions"),
    [
        ("k", ("k",), {}),
        (["k", "day"], ("k", "day"), {}),
        (["k", "date(at) AS day"], ("k", "day"), {"day": "date(at)"}),
        ("cast(a as string) as b", ("b",), {"b": "cast(a as string)"}),
        ("x  aS  y", ("y",), {"y": "x"}),
        (["as", "asas b", "x as y z"], ("as", "asas b", "x as y z"), {}),
    ],
)
def test_an_entry_is_a_column_or_an_expression_with_its_name(
    key_by: Any, columns: tuple[str, ...], expressions: dict[str, str]
) -> None:
    step = KeyedAggregateStep.model_validate({"key-by": key_by, "aggregate": COUNT})
    assert (step.key_columns, step.key_expressions) == (columns, expressions)


@pytest.mark.parametrize(
    ("key_by", "expected"),
    [
        (["day", "date(at) AS Day"], "key-by names a column twice. Remove one. found=Day"),
        (["date(at) AS _day"], "key-by: names that start with _ are kept. Choose another. found=_day"),
        (["a + 1 AS n"], "aggregate.n: a key column has this name already (case does not count). Choose another."),
    ],
)
def test_a_name_is_new_and_used_once(key_by: list[str], expected: str) -> None:
    assert messages(KeyedAggregateStep, {"key-by": key_by, "aggregate": COUNT}) == [expected]
