"""A condition is computed on pieces of pairs that have few bytes, with the result of all pairs at once."""

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.expressions import Call, Column, Query, evaluate_here
from mixedmode.operators.join import conditions
from mixedmode.operators.join.conditions import Condition
from mixedmode.operators.join.layout import LEFT, RIGHT, OutputColumn
from mixedmode.operators.pieces import pieces_of
from tests.random_cases import random_cases

TEXT = pa.string()
SAME = Condition(
    "left.text <= right.text",
    Query((Column("l", TEXT), Column("r", TEXT), Call("LessThanOrEqual", (0, 1), pa.bool_())), (), (("c", 2),)),
    (OutputColumn("l", LEFT, 1), OutputColumn("r", RIGHT, 0)),
)
TEXTS = st.lists(st.one_of(st.none(), st.text("ab", max_size=30)), min_size=1, max_size=8)


@settings(max_examples=random_cases(100))
@given(lefts=TEXTS, rights=TEXTS, pairs=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=40))
def test_pairs_with_long_values_are_computed_in_pieces(
    lefts: list[str | None], rights: list[str | None], pairs: list[tuple[int, int]]
) -> None:
    sizes: list[int] = []

    def counted(queries: Any, batches: Any) -> Any:
        sizes.extend(batch.nbytes for batch in batches if batch.num_rows > 1)
        return evaluate_here(queries, batches)

    sides = ([pa.nulls(len(lefts)), pa.array(lefts, TEXT)], [pa.array(rights, TEXT)])
    of_left = np.array([left % len(lefts) for left, _ in pairs], np.int64)
    of_right = np.array([right % len(rights) for _, right in pairs], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conditions, "pieces_of", partial(pieces_of, bytes_max=50))
        patch.setattr(conditions, "evaluate_here", counted)
        holds = SAME.holds(sides, of_left, of_right)
    expected = []
    for left, right in zip(of_left.tolist(), of_right.tolist(), strict=True):
        a, b = lefts[left], rights[right]
        expected.append(a is not None and b is not None and a <= b)
    assert holds.tolist() == expected
    offsets = 8 * 60 + 2  # of two columns of at most 60 values, and their bits of NULL
    assert max(sizes, default=0) <= 50 + 2 * offsets


def test_the_bytes_of_values_that_no_row_takes_do_not_count() -> None:
    values = pa.array([*["x" * 1000] * 5, "a", None, "b", "x" * 1000])
    rows = np.array([5, -1, 7, 6], np.int64)
    assert list(pieces_of(4, [(values, rows)], 2)) == [slice(0, 4)]
    assert list(pieces_of(4, [(values, rows)], 1)) == [slice(0, 2), slice(2, 4)]
    assert list(pieces_of(2, [(values, np.array([-1, -1]))], 1)) == [slice(0, 2)]
