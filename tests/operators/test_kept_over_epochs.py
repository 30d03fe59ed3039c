"""Distinct counts, kept values, sketches and filters through state from epoch to epoch, and over changelogs."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import (
    AggregateOperator,
    Aggregator,
    KeyedChanges,
    MultisetAggregateOperator,
    aggregator_for,
)
from tests.operators.calls import Asked, expected, same
from tests.operators.calls import Row as Record
from tests.operators.changelogs import Row, changelogs
from tests.operators.epochs import MemoryState, State, map_side, run_epoch
from tests.random_cases import random_cases

KEYS = KeySchema((pa.field("k", pa.string()),))
#: the columns after the key: two values and a condition
TYPES = (pa.float64(), pa.string(), pa.bool_())
NAMES = st.sampled_from(["", "a", "b"])
DOUBLES = st.none() | st.sampled_from([0.0, -0.0, 0.5, 1.0, float("nan"), 1e300])
TEXTS = st.none() | st.sampled_from(["", "x", "y", "x\x00"])
ROW = st.tuples(NAMES, DOUBLES, TEXTS, st.none() | st.booleans())


def asked_of(*, has_event_time: bool) -> dict[str, Asked]:
    """Every way of keeping values, with and without a condition."""
    plain = {
        "distinct": Asked("count_distinct", TYPES),
        "about": Asked("approx_count_distinct", TYPES),
        "mode": Asked("mode", TYPES),
        "sum_once": Asked("sum_distinct", TYPES),
        "median": Asked("approx_percentile", TYPES, parameters=(0.5,)),
        "least": Asked("min_by", TYPES, by=1),
        "most": Asked("max_by", TYPES, by=1),
        "list": Asked("collect_list", TYPES, parameters=(3,), has_event_time=has_event_time),
        "set": Asked("collect_set", TYPES, parameters=(2,)),
    }
    chosen = {
        f"{name}_where": Asked(a.function, TYPES, a.by, a.parameters, 2, a.has_event_time) for name, a in plain.items()
    }
    return {**plain, **chosen}


def aggregator_of(asked: dict[str, Asked], *, counts_rows: bool) -> Aggregator:
    functions = {name: call.built for name, call in asked.items()}
    return aggregator_for(functions, arguments=len(TYPES), counts_rows=counts_rows)


def columns_of(rows: Sequence[Row]) -> tuple[pa.Array, list[pa.Array]]:
    keys = pa.array([row[0] for row in rows], pa.string())
    return keys, [pa.array([row[1 + i] for row in rows], data_type) for i, data_type in enumerate(TYPES)]


def check(asked: dict[str, Asked], given: dict[str, Any], records: Sequence[Record]) -> None:
    for name, call in asked.items():
        wanted = expected(call, records)[0]
        assert same(given[name], wanted), (name, given[name], wanted, records)


@settings(max_examples=random_cases(10))
@given(epochs=st.lists(st.lists(st.tuples(ROW, st.integers(0, 3)), max_size=8), max_size=4))
def test_after_every_epoch_what_is_kept_is_what_all_rows_say(
    new_state: Callable[[], State], epochs: list[list[tuple[Row, int]]]
) -> None:
    asked = asked_of(has_event_time=True)
    aggregator = aggregator_of(asked, counts_rows=False)
    operator = AggregateOperator(aggregator, KEYS, is_changelog=False, emits_retractions=True)
    state, table, records = new_state(), dict[str, dict[str, Any]](), dict[str, list[Record]]()
    for epoch in epochs:
        for row, time in epoch:
            records.setdefault(row[0], []).append(Record(0, time, row[1:]))
        keys, arguments = columns_of([row for row, _ in epoch])
        changes = run_epoch(operator, state, map_side(operator, [keys], arguments, times_us=[t for _, t in epoch]))
        follow(table, changes)
        for key, members in records.items():
            check(asked, table[key], members)


@settings(max_examples=random_cases(13))
@given(epochs=changelogs(ROW))
def test_after_every_epoch_of_a_changelog_what_is_kept_is_what_the_rows_that_are_there_say(
    new_state: Callable[[], State], epochs: list[Any]
) -> None:
    asked = asked_of(has_event_time=False)
    aggregator = aggregator_of(asked, counts_rows=True)
    assert not aggregator.is_invertible, "so the plan keeps the rows"
    operator = MultisetAggregateOperator(aggregator, KEYS, TYPES, emits_retractions=True)
    state, table = new_state(), dict[str, dict[str, Any]]()
    for epoch in epochs:
        keys, arguments = columns_of(epoch.rows)
        follow(table, run_epoch(operator, state, map_side(operator, [keys], arguments, weights=epoch.weights)))
        assert table.keys() == {row[0] for row in epoch.present}
        for key, found in table.items():
            check(asked, found, [Record(0, 0, row[1:]) for row in epoch.present if row[0] == key])


def follow(table: dict[str, dict[str, Any]], changes: Sequence[KeyedChanges]) -> None:
    """Apply upserts to a table; what the changelog retracts must be what stood there, to the last bit."""
    for change in changes:
        for row in change.changelog().to_pylist():
            if row["_weight"] < 0:
                stood = table[row["k"]]
                assert all(same(row[name], stood[name]) for name in stood), (row, stood)
        for row in change.upserts().to_pylist():
            operation = row.pop("_op")
            assert (row["k"] in table) == (operation != "insert")
            if operation == "delete":
                assert all(value is None for name, value in row.items() if name != "k")
                del table[row["k"]]
            else:
                table[row["k"]] = row


@pytest.mark.parametrize("function", ["count_distinct", "approx_count_distinct", "approx_percentile", "collect_set"])
def test_a_key_may_grow_over_many_epochs_until_its_values_are_many(function: str) -> None:
    parameters = {"approx_percentile": (0.5, 10), "collect_set": (40,), "approx_count_distinct": (0.3,)}
    asked = Asked(function, (pa.int64(),), parameters=parameters.get(function, ()))
    aggregator = aggregator_for({"a": asked.built}, arguments=1, counts_rows=False)
    operator = AggregateOperator(aggregator, KEYS, is_changelog=False, emits_retractions=True)
    state, last = MemoryState(), dict[str, Any]()
    for epoch in range(30):
        values = pa.array([*range(10 * epoch, 10 * epoch + 10), 0])
        keys = pa.array(["a"] * len(values))
        (change,) = run_epoch(operator, state, map_side(operator, [keys], [values], times_us=[0] * len(values)))
        rows = change.changelog().to_pylist()
        assert [row["a"] for row in rows if row["_weight"] < 0] == list(last.values()), "as it was given"
        last = {"a": rows[-1]["a"]}
    (answer,) = last.values()
    if function == "collect_set":
        assert answer == list(range(40))
    elif function == "count_distinct":
        assert answer == 300
    elif function == "approx_count_distinct":
        assert 150 < answer < 450, "a sketch of 128 registers"
    else:
        assert 100 < answer < 200, "a sketch with an accuracy of a tenth"
