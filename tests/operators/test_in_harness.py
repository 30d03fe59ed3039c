"""Aggregates over changelogs in the users' test harness: whatever is added and retracted, wherever the state lives.

The sort is real here, and so are slices, subtasks and restores in between; the oracle remembers every row.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.testing import AggregateHarness
from tests.random_cases import random_cases

Pair = tuple[str, int | None]
Epoch = list[tuple[Pair, int]]  #: rows and weights
INVERTIBLE = {"n": "count(*)", "s": "sum(v)", "c": "count(v)"}
KEPT = INVERTIBLE | {"low": "min(v)", "kinds": "count(distinct v)"}  # these need the rows themselves


@st.composite
def changelogs(draw: st.DrawFn) -> list[Epoch]:
    """Epochs of a changelog: a row is retracted only where it was added before, or in the same epoch."""
    pairs = st.tuples(st.sampled_from(["a", "b", "c\0", "d"]), st.none() | st.integers(-5, 5))
    rows, epochs = Counter[Pair](), list[Epoch]()
    for _ in range(draw(st.integers(1, 4))):
        added = draw(st.lists(pairs, max_size=8))
        rows.update(added)
        gone = draw(st.lists(st.sampled_from(sorted(rows.elements(), key=str)), max_size=6)) if rows.total() else []
        gone = [pair for number, pair in enumerate(gone) if gone[:number].count(pair) < rows[pair]]
        rows.subtract(gone)
        epochs.append(draw(st.permutations([*((pair, 1) for pair in added), *((pair, -1) for pair in gone)])))
    return epochs


def expected(epochs: Sequence[Epoch], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    rows = Counter[Pair]()
    for epoch in epochs:
        for pair, weight in epoch:
            rows[pair] += weight
    by_key = defaultdict[str, list[int | None]](list)
    for key, value in rows.elements():
        by_key[key].append(value)
    table = {}
    for key, values in by_key.items():
        known = [value for value in values if value is not None]
        found = {
            "n": len(values),
            "s": sum(known) if known else None,
            "c": len(known),
            "low": min(known, default=None),
            "kinds": len(set(known)),
        }
        table[key] = {"k": key} | {name: found[name] for name in names}
    return table


@given(
    epochs=changelogs(),
    calls=st.sampled_from([INVERTIBLE, KEPT]),
    layout=st.tuples(st.sampled_from([1, 2, 4]), st.integers(1, 3), st.sampled_from(["1KB", "64MB"])),
    restores=st.dictionaries(st.integers(0, 3), st.sampled_from([1, 2, 4]), max_size=2),
    has_backlog=st.booleans(),
)
@settings(max_examples=random_cases(75))
def test_after_every_epoch_the_table_is_that_of_the_rows_that_are_left(
    epochs: list[Epoch],
    calls: dict[str, str],
    layout: tuple[int, int, str],
    restores: dict[int, int],
    has_backlog: bool,
) -> None:
    parallelism, slices, sort_memory = layout
    harness = AggregateHarness(
        key_by="k",
        schema="k string, v bigint, _weight bigint",
        aggregate=calls,
        parallelism=parallelism,
        slices=slices,
        sort_memory=sort_memory,
        max_parallelism=4,
        backlog=has_backlog,
    )
    for number, epoch in enumerate(epochs):
        harness.feed([{"k": k, "v": v, "_weight": weight} for (k, v), weight in epoch])
        if harness.is_backlog:
            harness.flip()
        table = {row["k"]: row for row in harness.table()}
        assert table == expected(epochs[: number + 1], list(calls)), f"after epoch {number}"
        if number in restores:
            harness = harness.restore(harness.snapshot(), parallelism=restores[number])
    if calls is INVERTIBLE:
        assert harness.state_entries == len(harness.table()), "one row of state per key that is there"
