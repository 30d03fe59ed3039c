"""The ranks of weighted rows, against loops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.operators.top.ranks import best_of, places_of

WEIGHTED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 4)), max_size=12).map(sorted)


def expanded(codes: list[int], weights: list[int], n: int) -> dict[int, list[int]]:
    """{key: the row at each of its ranks}."""
    found: dict[int, list[int]] = {code: [] for code in codes}
    for row, (code, weight) in enumerate(zip(codes, weights, strict=True)):
        found[code] += [row] * weight
    return {code: rows[:n] for code, rows in found.items()}


@given(rows=WEIGHTED, n=st.integers(1, 5))
def test_a_row_occupies_as_many_ranks_as_its_weight_up_to_the_last_one(
    rows: list[tuple[int, int, int]], n: int
) -> None:
    codes, weights = [row[0] for row in rows], [row[1] for row in rows]
    found = best_of(np.array(codes, np.int64), np.array(weights, np.int64), n)
    wanted = [sum(place == row for place in expanded(codes, weights, n)[code]) for row, code in enumerate(codes)]
    assert found.tolist() == wanted


@given(rows=WEIGHTED, n=st.integers(1, 5))
def test_each_rank_has_its_row_before_and_after(rows: list[tuple[int, int, int]], n: int) -> None:
    codes = [row[0] for row in rows]
    before, after = (expanded(codes, [row[i] for row in rows], n) for i in (1, 2))
    array = np.array(codes, np.int64)
    old, new = (best_of(array, np.array([row[i] for row in rows], np.int64), n) for i in (1, 2))
    found = places_of(array, 4, old, new)
    wanted = []
    for code in sorted(before):
        for rank in range(max(len(before[code]), len(after[code]))):
            was, now = (ranked[code][rank] if rank < len(ranked[code]) else -1 for ranked in (before, after))
            wanted.append((code, rank + 1, was, now))
    columns = (found.codes, found.ranks, found.old, found.new)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == wanted
