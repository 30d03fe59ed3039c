"""The best rows of each key, epoch by epoch, against sorting all rows: added and retracted rows, duplicates, ties."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import KeyedChanges
from mixedmode.operators.interface import DELETE, INSERT
from mixedmode.operators.top import OrderColumn, RowLayout, TopOperator
from tests.operators.changelogs import LogEpoch, Row, changelogs
from tests.operators.epochs import MemoryState, State, context_of, map_side, run_epoch
from tests.operators.ordered import By, in_order
from tests.random_cases import random_cases

TYPES = (pa.int64(), pa.string(), pa.float64())
ROW = st.tuples(
    st.sampled_from(["", "a", "b\x00"]),
    st.none() | st.integers(0, 2),
    st.none() | st.sampled_from(["", "x", "x\x00"]),
    st.none() | st.sampled_from([0.0, -0.0, 1.5, float("nan")]),
)
ORDERS = st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), min_size=1, max_size=2)


def top_of(n: int, by: Sequence[By], *, is_changelog: bool, **more: Any) -> TopOperator:
    order = tuple(OrderColumn(TYPES[index], descending, nulls_first) for index, descending, nulls_first in by)
    fields = tuple(pa.field(f"v{i}", data_type) for i, data_type in enumerate(TYPES))
    layout = RowLayout(KeySchema((pa.field("k", pa.string()),)), order, fields)
    return TopOperator(layout, tuple(index for index, _, _ in by), n, is_changelog=is_changelog, **more)


def sorted_rows(operator: TopOperator, rows: Sequence[Row], weights: Sequence[int] | None = None) -> pa.Table:
    columns = [pa.array([row[1 + i] for row in rows], data_type) for i, data_type in enumerate(TYPES)]
    table = map_side(operator, [pa.array([row[0] for row in rows], pa.string())], columns, weights=weights)
    assert operator.combine is not None
    return operator.combine(table) if table.num_rows else table


def best(rows: Sequence[Row], n: int, by: Sequence[By]) -> dict[tuple[str, int], Row]:
    """{(key, rank): key, rank, row} of the best rows of each key."""
    found = dict[tuple[str, int], Row]()
    for key in {row[0] for row in rows}:
        own = in_order([row[1:] for row in rows if row[0] == key], by)
        found |= {(key, rank): (key, rank, *row) for rank, row in enumerate(own[:n], 1)}
    return found


def follow(table: dict[Any, Row], changes: Sequence[KeyedChanges]) -> None:
    """Apply the changes to a table, once as upserts and once as a changelog, and compare."""
    by_log = {repr(row) for row in table.values()}
    for change in changes:
        for logged in change.changelog().to_pylist():
            row = repr(tuple(logged.values())[:-1])
            assert (row in by_log) == (logged["_weight"] < 0), "a row is retracted if and only if it was emitted"
            by_log ^= {row}
        for upsert in change.upserts().to_pylist():
            key, operation = (upsert["k"], upsert["rank"]), upsert["_op"]
            assert (key in table) == (operation != INSERT), operation
            row_now = tuple(upsert.values())[:-1]
            if operation == DELETE:
                del table[key]
                continue
            assert key not in table or repr(table[key]) != repr(row_now), "a rank whose row is the same is not emitted"
            table[key] = row_now
    assert by_log == {repr(row) for row in table.values()}


@settings(max_examples=random_cases(30))
@given(epochs=changelogs(ROW), by=ORDERS, n=st.integers(1, 3))
def test_over_a_changelog_the_ranks_are_those_of_the_rows_that_are_there(
    new_state: Callable[[], State], epochs: list[LogEpoch], by: list[By], n: int
) -> None:
    operator = top_of(n, by, is_changelog=True, emits_retractions=True)
    state, table = new_state(), dict[Any, Row]()
    for epoch in epochs:
        changes = run_epoch(operator, state, sorted_rows(operator, epoch.rows, epoch.weights))
        follow(table, changes)
        assert repr(sorted(table.items())) == repr(sorted(best(epoch.present, n, by).items()))


@settings(max_examples=random_cases(30))
@given(epochs=st.lists(st.lists(ROW, max_size=8), max_size=4), by=ORDERS, n=st.integers(1, 3))
def test_over_added_rows_the_ranks_are_those_of_all_rows_and_the_state_is_no_more(
    new_state: Callable[[], State], epochs: list[list[Row]], by: list[By], n: int
) -> None:
    operator = top_of(n, by, is_changelog=False, emits_retractions=True)
    state, table, rows = new_state(), dict[Any, Row](), list[Row]()
    for epoch in epochs:
        rows += epoch
        follow(table, run_epoch(operator, state, sorted_rows(operator, epoch)))
        assert repr(sorted(table.items())) == repr(sorted(best(rows, n, by).items()))
        if isinstance(state, MemoryState):
            distinct = len({repr((row[0], row[2:])) for row in table.values()})
            assert len(state.entries) == distinct, "the state has the best rows, each once"


@settings(max_examples=random_cases(15))
@given(epochs=changelogs(ROW), by=ORDERS, n=st.integers(1, 3), is_changelog=st.booleans())
def test_a_full_snapshot_is_the_whole_table_as_inserts(
    new_state: Callable[[], State], epochs: list[LogEpoch], by: list[By], n: int, is_changelog: bool
) -> None:
    operator = top_of(n, by, is_changelog=is_changelog)
    state, rows = new_state(), list[Row]()
    for epoch in epochs:
        added = [row for row, weight in zip(epoch.rows, epoch.weights, strict=True) if weight > 0]
        weights = epoch.weights if is_changelog else None
        given_rows = epoch.rows if is_changelog else added
        rows = epoch.present if is_changelog else [*rows, *added]
        whole = replace(operator, emits_full_snapshot=epoch is epochs[-1])
        changes = run_epoch(whole, state, sorted_rows(operator, given_rows, weights))
    if epochs:
        emitted = [row for change in changes for row in change.upserts().to_pylist()]
        assert {row["_op"] for row in emitted} <= {INSERT}
        found = {(row["k"], row["rank"]): tuple(row.values())[:-1] for row in emitted}
        assert len(found) == len(emitted), "each rank once"
        assert repr(sorted(found.items())) == repr(sorted(best(rows, n, by).items()))


def test_without_a_rank_the_output_is_one_row_per_key() -> None:
    operator = top_of(1, [(0, True, False)], is_changelog=False, has_rank=False)
    (change,) = run_epoch(operator, MemoryState(), sorted_rows(operator, [("a", 1, "x", None), ("a", 2, "y", None)]))
    assert change.upserts().to_pylist() == [{"k": "a", "v0": 2, "v1": "y", "v2": None, "_op": INSERT}]
    assert [field.name for field in operator.output_key] == ["k"]


def test_a_key_of_many_rows_sends_and_keeps_only_its_best() -> None:
    operator = top_of(2, [(0, False, True)], is_changelog=False)
    rows: list[Row] = [("a", number, None, None) for number in range(1000, 0, -1)]
    table = sorted_rows(operator, rows)
    assert table.num_rows == 2, "of one batch, the map side keeps the best"
    state = MemoryState()
    pieces = pa.concat_tables([sorted_rows(operator, rows[at : at + 2]) for at in range(0, 1000, 2)])
    (change,) = run_epoch(operator, state, pieces.sort_by("_key"), piece_rows=7)
    assert [row["v0"] for row in change.upserts().to_pylist()] == [1, 2]
    assert len(state.entries) == 2


def test_a_retraction_reads_only_the_rows_that_may_move_up() -> None:
    operator = top_of(2, [(0, False, True)], is_changelog=True)
    state = MemoryState()
    rows: list[Row] = [("a", number, None, None) for number in range(1000)]
    run_epoch(operator, state, sorted_rows(operator, rows, [1] * 1000))
    with state.epoch() as backend:
        found = list[int]()
        scan = backend.scan_prefixes

        def counted(*given: Any, **limits: Any) -> Any:
            rows_read = scan(*given, **limits)
            found.append(len(rows_read.keys))
            return rows_read

        backend.scan_prefixes = counted  # type: ignore[method-assign]
        (change,) = operator.process(iter([sorted_rows(operator, rows[:1], [-1])]), context_of(backend))
    assert [row["v0"] for row in change.upserts().to_pylist()] == [1, 2]
    assert found == [3], "two ranks, and one row for the retracted one"


def _context(backend: Any) -> Any:
    from tests.operators.epochs import context_of

    return context_of(backend)


def test_a_row_that_was_never_there_cannot_be_retracted() -> None:
    operator = top_of(2, [(0, False, True)], is_changelog=True)
    with pytest.raises(InvalidJobError, match="never inserted"):
        run_epoch(operator, MemoryState(), sorted_rows(operator, [("a", 1, None, None)], [-1]))


def test_equal_rows_of_a_table_are_one_row_with_their_weights_added() -> None:
    operator = top_of(3, [(0, False, True)], is_changelog=True)
    table = sorted_rows(operator, [("a", 1, None, None)] * 3, [1, 1, -1])
    assert table.column("_weight").to_pylist() == [1]
