"""Partials meet state: the same rows give the same state and changes, whatever the epochs and the backend."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import AggregateOperator
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.interface import KEY_COLUMN, KEY_GROUP_COLUMN
from mixedmode.sort import Combine, sort_table
from tests.operators.epochs import MemoryState, RunState, State, context_of, map_side, run_epoch
from tests.operators.oracle import Record, aggregate
from tests.operators.partials import aggregator_of
from tests.random_cases import random_cases

KEYS = KeySchema((pa.field("k", pa.string()),))
CALLS = (("count", None), ("sum", pa.int64()), ("max", pa.string()))
OPERATOR = AggregateOperator(aggregator_of(*CALLS), KEYS, is_changelog=False, emits_retractions=True)
Row = tuple[str | None, int | None, str | None]

ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, "", "a", "b", "ab"]),
        st.none() | st.integers(-5, 5),
        st.none() | st.sampled_from(["", "x", "y"]),
    ),
    max_size=8,
)


def table_of(rows: list[Row], operator: AggregateOperator = OPERATOR, times: Sequence[int] | None = None) -> pa.Table:
    keys = pa.array([row[0] for row in rows], pa.string())
    arguments = [
        pa.nulls(len(rows), pa.int64()),
        pa.array([row[1] for row in rows], pa.int64()),
        pa.array([row[2] for row in rows], pa.string()),
    ]
    return map_side(operator, [keys], arguments, times_us=times)


def combined_by(operator: AggregateOperator) -> Combine:
    assert operator.combine is not None
    return operator.combine


def results_of(rows: list[Row]) -> dict[str | None, tuple[Any, ...]]:
    """{key: results}, recomputed from all rows."""
    found = {}
    for key in {row[0] for row in rows}:
        mine = [row for row in rows if row[0] == key]
        total = aggregate("sum", [Record(row[1]) for row in mine], pa.int64())
        greatest = aggregate("max", [Record(row[2]) for row in mine], pa.string())
        found[key] = (len(mine), total, greatest)
    return found


@settings(max_examples=random_cases(10))
@given(epochs=st.lists(ROWS, max_size=4))
def test_each_epoch_gives_its_keys_the_results_over_all_rows_so_far(
    new_state: Callable[[], State], epochs: list[list[Row]]
) -> None:
    state, so_far, before = new_state(), list[Row](), dict[str | None, tuple[Any, ...]]()
    for rows in epochs:
        so_far += rows
        now = results_of(so_far)
        changes = run_epoch(OPERATOR, state, table_of(rows))
        upserts = [tuple(row.values()) for c in changes for row in c.upserts().to_pylist()]
        touched = {row[0] for row in rows}
        expected = [(key, *now[key], "update" if key in before else "insert") for key in touched]
        assert sorted(upserts, key=repr) == sorted(expected, key=repr)
        log = [tuple(row.values()) for c in changes for row in c.changelog().to_pylist()]
        retracted = [(key, *before[key], -1) for key in touched if key in before]
        added = [(key, *now[key], 1) for key in touched]
        assert sorted(log, key=repr) == sorted([*retracted, *added], key=repr)
        before = now


@settings(max_examples=random_cases(25))
@given(rows=ROWS, cuts=st.lists(st.integers(0, 8), max_size=2))
def test_the_combiner_gives_one_partial_per_key_and_loses_nothing(rows: list[Row], cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    pieces = [table_of(rows[a:b]) for a, b in pairwise(borders)]
    combined = combined_by(OPERATOR)(sort_table(pa.concat_tables(pieces)))
    assert combined.num_rows == len({row[0] for row in rows}), "a key once"
    assert combined.schema == pieces[0].schema
    assert OPERATOR.aggregator.results([combined.column(f.name).combine_chunks() for f in OPERATOR.input_fields]) == (
        OPERATOR.aggregator.results([table_of(rows).column(f.name).combine_chunks() for f in OPERATOR.input_fields])
    )


def test_an_empty_epoch_reads_and_writes_nothing() -> None:
    state = MemoryState()
    assert run_epoch(OPERATOR, state, table_of([])) == []
    empty = iter([table_of([])])
    assert list(OPERATOR.process(empty, context_of(None))) == []  # type: ignore[arg-type] # nothing to ask a backend
    assert state.entries == {}


def test_the_state_of_an_operator_is_described_for_the_manifest() -> None:
    (descriptor,) = OPERATOR.states
    assert descriptor.as_json() == {
        "state_id": 0,
        "name": "aggregate",
        "fields": [
            {"name": "_r0_0", "type": "int64"},
            {"name": "_r1_0", "type": "int64"},
            {"name": "_r1_1", "type": "int64"},
            {"name": "_r2_0", "type": "int64"},
            {"name": "_r3_0", "type": "large_binary"},
        ],
    }


def test_more_rows_retracted_than_there_were_are_named_with_what_may_be_the_reason() -> None:
    aggregator = aggregator_of(("sum", pa.int64()), counts_rows=True)
    operator = AggregateOperator(aggregator, KEYS, is_changelog=True, emits_retractions=False)
    table = map_side(operator, [pa.array(["a", "b"])], [pa.array([1, 2])], weights=[-1, 1])
    with pytest.raises(InvalidJobError) as caught:
        run_epoch(operator, MemoryState(), table)
    assert str(caught.value) == (
        "a row was retracted that was never inserted: sql or a function before this step computes something else of "
        "the same row than it did before. Undo the change of the function or of Spark's version, or make the function "
        "return the same value for the same arguments each time; else use a new checkpoint folder and a new output "
        "folder. If none of these is the reason, it is a defect; report it. affected=1"
    )


def test_a_key_of_fixed_width_is_kept_apart_from_its_neighbours(tmp_path: Path) -> None:
    schema = KeySchema((pa.field("k", pa.int64()), pa.field("d", pa.date32())))
    operator = AggregateOperator(aggregator_of(("count", None)), schema, is_changelog=False, emits_retractions=False)
    state = RunState(tmp_path)
    keys = [pa.array([2**40, -1, None, 2**40]), pa.array([0, 1, None, 0], pa.int32()).cast(pa.date32())]
    for epoch in range(1, 4):
        changes = run_epoch(operator, state, map_side(operator, keys, [pa.nulls(4, pa.int64())]))
        counts = np.concatenate([change.results[0].to_numpy() for change in changes])
        assert sorted(counts.tolist()) == [epoch, epoch, 2 * epoch]


def test_partials_of_one_key_are_merged_in_one_pass() -> None:
    table = table_of([("a", 1, "x")])
    doubled = combined_by(OPERATOR)(pa.concat_tables([table, table, table]))
    assert doubled.select([KEY_GROUP_COLUMN, KEY_COLUMN]) == table.select([KEY_GROUP_COLUMN, KEY_COLUMN])
    merged = OPERATOR.aggregator.merge(
        Grouping(np.zeros(3, np.int64), 1),
        [pa.concat_arrays([table.column(f.name).combine_chunks()] * 3) for f in OPERATOR.input_fields],
    )
    assert [doubled.column(f.name).combine_chunks() for f in OPERATOR.input_fields] == merged


@settings(max_examples=random_cases(10))
@given(epochs=st.lists(ROWS, max_size=3), data=st.data())
def test_every_value_is_the_running_result_in_the_order_of_time(epochs: list[list[Row]], data: st.DataObject) -> None:
    operator = replace(OPERATOR, emits_running_results=True)
    state, so_far = MemoryState(), list[Row]()
    for rows in epochs:
        times = data.draw(st.permutations(range(len(rows))))
        found = [
            r for c in run_epoch(operator, state, table_of(rows, operator, times)) for r in c.upserts().to_pylist()
        ]
        expected = []
        for _, row in sorted(zip(times, rows, strict=True), key=lambda pair: pair[0]):
            is_new = all(row[0] != other[0] for other in so_far)
            so_far.append(row)
            expected.append((row[0], *results_of(so_far)[row[0]], "insert" if is_new else "update"))
        for key in {row[0] for row in rows}:
            assert [tuple(r.values()) for r in found if r["k"] == key] == [e for e in expected if e[0] == key]
