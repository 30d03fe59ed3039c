"""The map side of a machine: the same keys and values as a map task for each lane, in fewer rows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.micro.stages import blocks_of, count_and_sum, map_side
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema, decode_keys
from mixedmode.operators.aggregate import AggregateOperator, aggregate_function, aggregator_for
from mixedmode.tasks.blocks import decode_block
from mixedmode.tasks.exchange import BlockKind, MapSide
from mixedmode.tasks.failures import decode_failure
from mixedmode.tasks.machine_side import InTurn, MachineSide, Threads, Workers, combines_on_machine
from mixedmode.tasks.notes import Note
from mixedmode.tasks.progress import Progress

SUBTASKS = 3

Lane = Sequence[tuple[object, float]]


def lanes_of(lanes: Sequence[Lane], key_type: pa.DataType) -> list[Iterator[pa.RecordBatch]]:
    """One batch for each lane; half of the lanes have two."""
    found = []
    for number, rows in enumerate(lanes):
        keys, values = ([row[column] for row in rows] for column in range(2))
        table = pa.table({"_k0": pa.array(keys, key_type), "_arg0": pa.array(values, pa.float64())})
        found.append(iter(table.to_batches(max_chunksize=max(1, len(rows) // (1 + number % 2)))))
    return found


def shipped(side: MapSide, lanes: list[Iterator[pa.RecordBatch]], workers: Workers) -> list[pa.RecordBatch]:
    return list(MachineSide(side, workers).blocks(lanes, Note(None)))


def partials(blocks: Sequence[pa.RecordBatch], key_type: str) -> list[tuple[object, int, float]]:
    """(key, count, sum) of each row of the exchange."""
    schema = KeySchema((pa.field("k", pa.type_for_alias(key_type)),))
    rows: list[tuple[object, int, float]] = []
    for block in blocks_of(BlockKind.ROWS, blocks):
        table = decode_block(block)
        (keys,) = decode_keys(table["_key"].combine_chunks(), schema)
        rows += zip(keys.to_pylist(), table["_r0_0"].to_pylist(), table["_r1_0"].to_pylist(), strict=True)
    return rows


def totals(rows: Sequence[tuple[object, int, float]]) -> dict[object, tuple[int, float]]:
    found: dict[object, tuple[int, float]] = {}
    for key, count, total in rows:
        before = found.get(key, (0, 0.0))
        found[key] = before[0] + count, before[1] + total
    return found


def read_by(blocks: Sequence[pa.RecordBatch], side: MapSide) -> int:
    progress = Progress()
    for block in blocks_of(BlockKind.PROGRESS, blocks)[:: side.parallelism]:
        progress = progress.merged(Progress.decode(block))
    return progress.records


KEYS: dict[str, st.SearchStrategy[object]] = {
    "int64": st.integers(0, 200) | st.integers(-(2**63), 2**63 - 1),
    "string": st.none() | st.text("abc", max_size=10),
}


@pytest.mark.parametrize("key_type", KEYS)
@given(data=st.data(), slice_bytes=st.sampled_from([1, 100, 2**20]))
def test_the_rows_are_those_of_a_map_task_for_each_lane(key_type: str, data: st.DataObject, slice_bytes: int) -> None:
    row = st.tuples(KEYS[key_type], st.integers(-1000, 1000).map(float))
    lanes = data.draw(st.lists(st.lists(row, max_size=40), min_size=1, max_size=6))
    side = map_side(count_and_sum(key_type), parallelism=SUBTASKS, slice_bytes=slice_bytes)
    type_ = pa.type_for_alias(key_type)
    alone = [block for lane in lanes_of(lanes, type_) for block in side(lane)]
    together = shipped(side, lanes_of(lanes, type_), InTurn())
    oracle = totals([(key, 1, value) for lane in lanes for key, value in lane])
    assert totals(partials(together, key_type)) == totals(partials(alone, key_type)) == oracle
    assert read_by(together, side) == read_by(alone, side) == sum(map(len, lanes))


@pytest.mark.parametrize("step", [1, 2**40], ids=["divided by value", "divided by hash"])
@pytest.mark.parametrize("slice_rows", [10_000, 100_000], ids=["shares as large as slices", "small shares"])
@pytest.mark.parametrize("workers", [InTurn(), Threads(4)], ids=["in turn", "threads"])
def test_a_key_is_in_one_row_if_lanes_see_few_rows_of_it(step: int, slice_rows: int, workers: Workers) -> None:
    rng = np.random.default_rng(5)
    keys = rng.integers(0, 5_000, (8, 10_000)) * step
    lanes = [[(key, 1.0) for key in lane] for lane in keys.tolist()]
    side = map_side(count_and_sum(), parallelism=SUBTASKS, slice_bytes=slice_rows * 16)
    rows = partials(shipped(side, lanes_of(lanes, pa.int64()), workers), "int64")
    assert len(rows) == len(np.unique(keys))
    assert totals(rows) == totals([(key, 1, value) for lane in lanes for key, value in lane])


def test_one_key_with_most_of_the_rows_is_no_hindrance() -> None:
    lanes: list[Lane] = [[(0, 1.0)] * 5_000 + [(key, 1.0) for key in range(4_000)] for _ in range(4)]
    side = map_side(count_and_sum(), parallelism=SUBTASKS, slice_bytes=9_000 * 16)
    rows = partials(shipped(side, lanes_of(lanes, pa.int64()), InTurn()), "int64")
    assert totals(rows)[0] == (20_004, 20_004.0)
    assert len(rows) == 4_000


def test_slices_are_not_divided_where_that_saves_few_rows() -> None:
    lanes: list[Lane] = [[(key % 100, 1.0) for key in range(10_000)] for _ in range(4)]
    side = map_side(count_and_sum(), parallelism=SUBTASKS, slice_bytes=2**20)
    assert len(partials(shipped(side, lanes_of(lanes, pa.int64()), InTurn()), "int64")) == 4 * 100


def failing() -> Iterator[pa.RecordBatch]:
    yield from lanes_of([[(1, 1.0)]], pa.int64())[0]
    msg = "a file is damaged"
    raise InvalidJobError(msg)


@pytest.mark.parametrize("workers", [InTurn(), Threads(3)], ids=["in turn", "threads"])
def test_an_error_of_a_lane_is_the_error_of_the_task(workers: Workers) -> None:
    side = map_side(count_and_sum(), parallelism=SUBTASKS, slice_bytes=1)
    blocks = shipped(side, [*lanes_of([[(2, 2.0)] * 9, []], pa.int64()), failing()], workers)
    (failure,) = blocks_of(BlockKind.FAILURE, blocks)
    assert isinstance(decode_failure(failure), InvalidJobError)
    assert not blocks_of(BlockKind.PROGRESS, blocks), "the task has not read all of its input"


def test_a_machine_combines_from_four_lanes_on_and_only_numbers_that_threads_can_fold() -> None:
    stage = count_and_sum()
    side = map_side(stage, parallelism=SUBTASKS, slice_bytes=1)
    assert [combines_on_machine(side, lanes) for lanes in (1, 3, 4, 16)] == [False, False, True, True]
    text = map_side(count_and_sum("string"), parallelism=SUBTASKS, slice_bytes=1)
    assert not combines_on_machine(text, 16)
    sketch = aggregate_function("approx_count_distinct", 0, pa.float64(), has_event_time=False, where="n")
    operator = AggregateOperator(
        aggregator_for({"n": sketch}, arguments=1, counts_rows=False),
        KeySchema(stage.key_fields),
        is_changelog=False,
        emits_retractions=False,
    )
    assert not combines_on_machine(replace(side, stage=replace(stage, operator=operator)), 16)
