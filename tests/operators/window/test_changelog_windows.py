"""Windows over rows that are retracted before their windows fire, against plain Python."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.testing import AggregateHarness
from tests.differential.timelines import flat

MS = 1000
SCHEMA = "k string, v bigint, t timestamp, _weight bigint"
#: (key, value, milliseconds within its epoch, how many epochs later it is retracted; None: never)
rows = st.tuples(
    st.sampled_from("ab"), st.none() | st.integers(-9, 9), st.integers(0, 9), st.sampled_from([None, 0, 1])
)


def harness_of(**settings: Any) -> AggregateHarness:
    calls = {"n": "count(*)", "s": "sum(v)"}
    given = {"key_by": "k", "window": {"tumbling": "5ms"}, "aggregate": calls, **settings}
    return AggregateHarness(schema=SCHEMA, event_time="t", out_of_orderness="25ms", **given)


@given(
    epochs=st.lists(st.lists(rows, max_size=6), min_size=1, max_size=6),
    parallelism=st.sampled_from([1, 2]),
    has_backlog=st.booleans(),
)
def test_a_window_has_the_rows_that_were_not_retracted(
    epochs: list[list[tuple[str, int | None, int, int | None]]], parallelism: int, has_backlog: bool
) -> None:
    harness = harness_of(parallelism=parallelism, backlog=has_backlog)
    arriving: list[list[dict[str, Any]]] = [[] for _ in range(len(epochs) + 1)]
    left: dict[tuple[int, str], list[int | None]] = {}
    for number, epoch in enumerate(epochs):
        for k, v, ms, retracted_after in epoch:
            time_us = (10 * number + ms) * MS
            record = {"k": k, "v": v, "t": time_us}
            arriving[number].append({**record, "_weight": 1})
            if retracted_after is None:
                left.setdefault((time_us // (5 * MS), k), []).append(v)
            else:
                arriving[number + retracted_after].append({**record, "_weight": -1})
    for number, records in enumerate(arriving):
        harness.feed(records)
        if has_backlog and number == 0:
            harness.flip()
    harness.end()
    values = {window: [v for v in own if v is not None] for window, own in left.items()}
    expected = Counter(
        (5 * MS * start, 5 * MS * (start + 1), k, len(left[start, k]), sum(own) if own else None, "insert")
        for (start, k), own in values.items()
    )
    assert Counter(flat(harness.take())) == expected
    assert harness.state_entries == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"window": {"session": "5ms"}},
        {"window": {"tumbling": "5ms", "allowed_lateness": "1ms"}},
        {"window": {"tumbling": "5ms", "early_results_every": "1s"}},
        {"aggregate": {"most": "max(v)"}},
        {"aggregate": {"latest": "last(v)"}},
    ],
)
def test_windows_that_cannot_retract_a_row_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidJobError, match="the step before emits rows that change later, and this window cannot"):
        harness_of(**settings)
