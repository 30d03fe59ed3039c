"""The rows that are no duplicates, compared with a loop over the rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.operators.deduplicate.picks import picked

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 30)), max_size=20).map(sorted)
KNOWN = st.dictionaries(st.integers(0, 3), st.integers(-10, 30))


@given(rows=ROWS, known=KNOWN, within=st.none() | st.integers(1, 12))
def test_a_row_is_picked_unless_an_earlier_pick_is_too_near(
    rows: list[tuple[int, int]], known: dict[int, int], within: int | None
) -> None:
    last, wanted = dict(known), []
    for code, time in rows:
        is_pick = code not in last or (within is not None and time >= last[code] + within)
        wanted.append(is_pick)
        if is_pick:
            last[code] = time
    codes, times = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    keys = sorted(known)
    found = picked(codes, times, 4, np.array(keys, np.intp), np.array([known[k] for k in keys], np.int64), within)
    assert found.tolist() == wanted


def test_the_example_of_the_docstring() -> None:
    times = np.array([0, 4, 9, 10, 15, 21])
    none = np.empty(0, np.int64)
    found = picked(np.zeros(6, np.int64), times, 1, none, none, 10)
    assert times[found].tolist() == [0, 10, 21]
