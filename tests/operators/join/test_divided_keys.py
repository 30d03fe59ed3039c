"""Joins whose rows of one key come in several tables: the results and the state are those of one table."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.operators.join import AsOfJoinOperator, IntervalJoinOperator
from mixedmode.testing.snapshot import Snapshot
from tests.operators.join.test_operators import as_of, harness_of, interval, left, right
from tests.random_cases import random_cases

#: so little that hardly more than two rows are in a table; so little that the stored rows of two keys do not fit
TINY, SMALL, AMPLE = "200B", "8KB", "64MB"

some_key = st.sampled_from(["a", "a", "a", "b", None])
some_row = st.builds(left, st.integers(0, 3), st.integers(0, 30), some_key) | st.builds(
    right, st.integers(0, 3), st.integers(0, 30), some_key, gone=st.sampled_from([None, None, True])
)
some_join = st.one_of(
    st.builds(
        as_of,
        keeps_left=st.booleans(),
        strictly=st.booleans(),
        tolerance_us=st.sampled_from([None, 4]),
        tie_break=st.just((0, 1)),
        deleted=st.sampled_from([None, 1]),
    ),
    st.builds(
        interval,
        st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]),
        st.integers(-6, 0),
        st.integers(0, 6),
    ),
)


def played(join: AsOfJoinOperator | IntervalJoinOperator, epochs: list[list[dict[str, Any]]], memory: str) -> list[Any]:
    """A backlog, live epochs, and the end. Return the rows of each, and the state after it."""
    harness = harness_of(join, backlog=True, sort_memory=memory)
    found: list[Any] = []
    for number, rows in enumerate(epochs):
        harness.feed(rows, watermark=8 * number + 4)
        if number == 0:
            harness.flip()
        found.append((Counter(map(repr, harness.take())), Snapshot.decode(harness.snapshot()).entries))
    harness.end()
    return [*found, Counter(map(repr, harness.take()))]


@settings(max_examples=random_cases(10))
@given(some_join, st.lists(st.lists(some_row, max_size=24), min_size=1, max_size=3))
def test_a_table_may_end_within_a_key(
    join: AsOfJoinOperator | IntervalJoinOperator, epochs: list[list[dict[str, Any]]]
) -> None:
    expected = played(join, epochs, AMPLE)
    assert played(join, epochs, TINY) == expected
    assert played(join, epochs, SMALL) == expected
