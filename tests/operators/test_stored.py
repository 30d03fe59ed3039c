"""The whole stored table given once: for a step or an output that begins behind an aggregate which has state."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import AggregateOperator, KeyedChanges, MultisetAggregateOperator
from tests.operators.changelogs import LogEpoch, Row, changelogs
from tests.operators.epochs import MemoryState, State, changelog_of, context_of, map_side, run_epoch
from tests.operators.partials import aggregator_of
from tests.random_cases import random_cases

TEXT_KEY = KeySchema((pa.field("k", pa.string()),))
WIDE_KEY = KeySchema((pa.field("k", pa.string()), pa.field("n", pa.int32()), pa.field("t", pa.string())))
NAMES = st.sampled_from([None, "", "a", "b", "ab", "a\x00", "c", "d", "e"])
ROW = st.tuples(NAMES, st.none() | st.integers(-3, 3))
Kept = AggregateOperator | MultisetAggregateOperator
KINDS = ["added only", "retracted", "rows kept"]


def operator_of(kind: str, schema: KeySchema = TEXT_KEY) -> Kept:
    if kind == "rows kept":
        aggregator = aggregator_of(("max", pa.int64()), counts_rows=True)
        return MultisetAggregateOperator(aggregator, schema, (pa.int64(),), emits_retractions=True)
    aggregator = aggregator_of(("sum", pa.int64()), counts_rows=kind == "retracted")
    return AggregateOperator(aggregator, schema, is_changelog=kind == "retracted", emits_retractions=True)


def run(operator: Kept, state: State, epoch: LogEpoch) -> list[KeyedChanges]:
    keys = [pa.array([row[0] for row in epoch.rows], pa.string())]
    if len(operator.key_schema.fields) > 1:  # the wide key has a column that is often NULL, and the same text again
        keys += [pa.array([len(row[0] or "") or None for row in epoch.rows], pa.int32()), keys[0]]
    values = pa.array([row[1] for row in epoch.rows], pa.int64())
    weights = epoch.weights if getattr(operator, "is_changelog", True) else None
    return run_epoch(operator, state, map_side(operator, keys, [values], weights=weights, times_us=None))


def only_added(epochs: Sequence[LogEpoch]) -> list[LogEpoch]:
    """The same epochs without the rows that are retracted."""
    kept, present = [], list[Row]()
    for epoch in epochs:
        rows = [row for row, weight in zip(epoch.rows, epoch.weights, strict=True) if weight > 0]
        present = [*present, *rows]
        kept.append(LogEpoch(rows, [1] * len(rows), present))
    return kept


def table_after(changes: Sequence[KeyedChanges], before: dict[Any, Any]) -> dict[Any, Any]:
    table = dict(before)
    for change in changes:
        for row in change.upserts().to_pylist():
            key, operation = (row["k"], row.get("n"), row.get("t")), row.pop("_op")
            if operation == "delete":
                del table[key]
            else:
                table[key] = row
    return table


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("schema", [TEXT_KEY, WIDE_KEY], ids=["one column", "three columns"])
@settings(max_examples=random_cases(12))
@given(epochs=changelogs(ROW, max_epochs=5), at=st.integers(0, 4))
def test_the_table_that_is_given_once_is_the_one_that_all_changes_make(
    new_state: Callable[[], State], kind: str, schema: KeySchema, epochs: list[LogEpoch], at: int
) -> None:
    operator, state = operator_of(kind, schema), new_state()
    epochs = only_added(epochs) if kind == "added only" else epochs
    table: dict[Any, Any] = {}
    twin, twin_state = operator_of(kind, schema), MemoryState()
    for number, epoch in enumerate(epochs):
        table = table_after(run(twin, twin_state, epoch), table)
        if number != at:
            run(operator, state, epoch)
            continue
        given_once = run(replace(operator, emits_full_snapshot=True), state, epoch)
        upserts = [row for change in given_once for row in change.upserts().to_pylist()]
        assert {row["_op"] for row in upserts} <= {"insert"}
        assert len(upserts) == len(table), "each key once"
        assert table_after(given_once, {}) == table
        log = changelog_of(operator, given_once)
        assert set(log.column("_weight").to_pylist()) <= {1}, "nothing is retracted that was never given"
        assert log.num_rows == len(table)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=random_cases(10))
@given(epochs=changelogs(ROW, max_epochs=5), at=st.integers(0, 4))
def test_a_step_that_is_added_behind_it_is_exact_from_then_on(
    new_state: Callable[[], State], kind: str, epochs: list[LogEpoch], at: int
) -> None:
    """The rows of a changelog, summed up, are those that are there: what a step behind would keep."""
    operator, state, behind = operator_of(kind), new_state(), Counter[tuple[Any, ...]]()
    epochs = only_added(epochs) if kind == "added only" else epochs
    table: dict[Any, Any] = {}
    for number, epoch in enumerate(epochs):
        changes = run(replace(operator, emits_full_snapshot=number == at), state, epoch)
        table = table_after(changes, {} if number == at else table)
        if number >= at:
            for row in changelog_of(operator, changes).to_pylist():
                behind[tuple(row.values())[:-1]] += row["_weight"]
            assert +behind == Counter(tuple(row.values()) for row in table.values())
            assert min(behind.values(), default=0) >= 0


def test_every_value_of_a_key_with_records_is_given_and_the_first_one_as_new() -> None:
    operator = AggregateOperator(
        aggregator_of(("sum", pa.int64())), TEXT_KEY, is_changelog=False, emits_retractions=True
    )
    state = MemoryState()
    run(operator, state, LogEpoch([("a", 1), ("b", 10)], [1, 1], []))
    every = replace(operator, emits_full_snapshot=True, emits_running_results=True)
    keys, values = pa.array(["b", "b", "c"]), pa.array([1, 2, 5])
    changes = run_epoch(every, state, map_side(every, [keys], [values], times_us=[0, 1, 2]))
    rows = [tuple(row.values()) for change in changes for row in change.upserts().to_pylist()]
    assert sorted(rows) == [("a", 1, "insert"), ("b", 11, "insert"), ("b", 13, "update"), ("c", 5, "insert")]


def test_giving_the_stored_table_writes_nothing_for_keys_without_a_record() -> None:
    operator, state = operator_of("added only"), MemoryState()
    run(operator, state, LogEpoch([("a", 1), ("b", 2), ("c", 3)], [1, 1, 1], []))
    given = replace(operator, emits_full_snapshot=True)
    with state.epoch() as backend:
        written: list[bytes] = []
        backend_write = backend.write
        backend.write = lambda state_id, keys, values: written.extend(keys)  # type: ignore[method-assign]
        table = map_side(given, [pa.array(["b"])], [pa.array([5])])
        assert len(list(given.process(iter([table]), context_of(backend)))) == 3
        backend.write = backend_write  # type: ignore[method-assign]
    assert len(written) == 1
