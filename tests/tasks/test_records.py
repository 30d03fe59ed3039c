"""Records that subtasks fold: the same keys and values as folded in map tasks, each with the owner of its key."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.micro.stages import MAX_PARALLELISM, blocks_of, count_and_sum, map_side
from mixedmode.keys import KeySchema, decode_keys, group_range
from mixedmode.operators.aggregate import AggregateOperator
from mixedmode.operators.interface import KEY_GROUP_COLUMN, WEIGHT_COLUMN
from mixedmode.plan.stages import KeyedStage
from mixedmode.tasks.block_rows import BlockKind
from mixedmode.tasks.blocks import decode_block
from mixedmode.tasks.exchange import MapSide
from mixedmode.tasks.progress import Progress
from mixedmode.tasks.records import DISTINCT_PART_MIN, RecordsToFold, divided, folds_in_subtask
from mixedmode.tasks.watching import SOURCE_COLUMN, Watched
from tests.tasks.worker import grown_bytes, needs_proc

SUBTASKS = 3

KEYS: dict[str, st.SearchStrategy[object]] = {
    "int64": st.none() | st.integers(0, 20) | st.integers(-(2**63), 2**63 - 1),
    "string": st.none() | st.text("abc", max_size=10),
    "double": st.sampled_from([0.0, -0.0, float("nan"), 1.5]),
}
Row = tuple[object, float]


def records(rows: Sequence[Row], key_type: str) -> pa.Table:
    keys, values = ([row[column] for row in rows] for column in range(2))
    return pa.table({"_k0": pa.array(keys, pa.type_for_alias(key_type)), "_arg0": pa.array(values, pa.float64())})


def to_fold(side: MapSide, *, bytes_max: int = 2**20) -> RecordsToFold:
    return RecordsToFold(side.stage, side.timing, side.max_parallelism, bytes_max)


def rest(folding: RecordsToFold) -> list[pa.Table]:
    found = folding.folded()
    return [] if found is None else [found]


def totals(tables: Sequence[pa.Table], key_type: str) -> dict[str, tuple[int, float]]:
    """{text of the key: (count, sum)}, over all rows."""
    schema = KeySchema((pa.field("k", pa.type_for_alias(key_type)),))
    found = dict[str, tuple[int, float]]()
    for table in tables:
        (keys,) = decode_keys(table["_key"].combine_chunks(), schema)
        for key, count, total in zip(map(named, keys.to_pylist()), *map(table.column, ("_r0_0", "_r1_0")), strict=True):
            before = found.get(key, (0, 0.0))
            found[key] = before[0] + count.as_py(), before[1] + total.as_py()
    return found


def named(key: object) -> str:
    return repr(key + 0.0 if isinstance(key, float) else key)  # -0.0 and 0.0 are one key


@pytest.mark.parametrize("key_type", KEYS)
@given(data=st.data(), bytes_max=st.sampled_from([1, 100, 2**20]))
def test_subtasks_make_the_same_of_records_as_plain_python(key_type: str, data: st.DataObject, bytes_max: int) -> None:
    row = st.tuples(KEYS[key_type], st.integers(-1000, 1000).map(float))
    slices = data.draw(st.lists(st.lists(row, max_size=40), max_size=4))
    side = map_side(count_and_sum(key_type), parallelism=SUBTASKS, slice_bytes=2**20)
    folding = [to_fold(side, bytes_max=bytes_max) for _ in range(SUBTASKS)]
    folded = [list[pa.Table]() for _ in range(SUBTASKS)]
    for rows in slices:
        pieces = divided(records(rows, key_type), side.stage, parallelism=SUBTASKS, max_parallelism=MAX_PARALLELISM)
        for subtask, own in pieces:
            folding[subtask].add(own)
            folded[subtask] += rest(folding[subtask]) if folding[subtask].is_full else []
    for subtask, last in enumerate(folding):
        folded[subtask] += rest(last)
        assert not rest(last), "all are folded"
        groups = group_range(subtask, parallelism=SUBTASKS, max_parallelism=MAX_PARALLELISM)
        for table in folded[subtask]:
            assert all(groups.start <= group < groups.end for group in table[KEY_GROUP_COLUMN].to_pylist())
    oracle = dict[str, tuple[int, float]]()
    for key, value in (row for rows in slices for row in rows):
        count, total = oracle.get(named(key), (0, 0.0))
        oracle[named(key)] = count + 1, total + value
    assert totals([table for of_subtask in folded for table in of_subtask], key_type) == oracle


def test_large_slices_keep_the_order_of_the_rows_of_a_key() -> None:
    rows = 600_000  # more than two blocks
    side = map_side(count_and_sum(), parallelism=SUBTASKS, slice_bytes=2**30)
    table = pa.table({"_k0": pa.array(np.arange(rows) % 1000), "_arg0": pa.array(np.arange(rows, dtype=float))})
    parts: dict[int, list[pa.Table]] = {subtask: [] for subtask in range(SUBTASKS)}
    for subtask, own in divided(table, side.stage, parallelism=SUBTASKS, max_parallelism=MAX_PARALLELISM):
        parts[subtask].append(own)
    found = [pa.concat_tables(own) for own in parts.values()]
    by_key = [own.take(np.argsort(own["_k0"].to_numpy(), kind="stable")) for own in found]
    for own in by_key:
        is_same_key = np.diff(own["_k0"].to_numpy()) == 0
        assert (np.diff(own["_arg0"].to_numpy())[is_same_key] > 0).all()
    assert sum(own.num_rows for own in found) == rows


def aggregate(
    stage: KeyedStage, *, is_changelog: bool = False, emits_running_results: bool = False
) -> AggregateOperator:
    assert isinstance(stage.operator, AggregateOperator)
    return replace(stage.operator, is_changelog=is_changelog, emits_running_results=emits_running_results)


def shipped(side: MapSide, *slices: pa.Table) -> list[pa.RecordBatch]:
    return list(side(batch for rows in slices for batch in rows.to_batches()))


@pytest.mark.parametrize("spread", [1, 2**40], ids=["a range", "far apart"])
@pytest.mark.parametrize("key_type", ["int64", "string"])
def test_a_map_task_sends_records_if_keys_hardly_repeat(key_type: str, spread: int) -> None:
    side = map_side(count_and_sum(key_type), parallelism=SUBTASKS, slice_bytes=2**30)
    ones, type_ = pa.array(np.ones(20_000)), pa.type_for_alias(key_type)
    kinds = []
    for keys in (1_000, 200_000):
        numbers = pa.array(np.random.default_rng(3).integers(0, keys, 20_000) * spread)
        sent = shipped(side, pa.table({"_k0": numbers.cast(type_), "_arg0": ones}))
        kinds.append([kind for kind in (BlockKind.ROWS, BlockKind.RECORDS) if blocks_of(kind, sent)])
        progress = Progress.decode(blocks_of(BlockKind.PROGRESS, sent)[0])
        assert (progress.records, progress.rows_read) == (20_000, {side.stage.operator_id: 20_000})
    assert kinds == [[BlockKind.ROWS], [BlockKind.RECORDS]]


def test_only_the_columns_that_are_folded_are_sent() -> None:
    side = map_side(count_and_sum(), parallelism=1, slice_bytes=2**30)
    table = records([(key, 1.0) for key in range(10_000)], "int64").append_column("_partition", pa.nulls(10_000))
    (block, *_) = blocks_of(BlockKind.RECORDS, shipped(side, table))
    assert decode_block(block).column_names == ["_k0", "_arg0"]


def test_records_of_readers_with_other_types_are_folded_together() -> None:
    side = map_side(count_and_sum(), parallelism=1, slice_bytes=2**30)
    table = records([(key, 1.0) for key in range(10_000)], "int64")
    narrow = pa.schema([pa.field("_k0", pa.int32(), nullable=False), pa.field("_arg0", pa.float32(), nullable=False)])
    folding = to_fold(side)
    for rows in (table, table.cast(narrow), table.select(["_arg0", "_k0"])):
        for block in blocks_of(BlockKind.RECORDS, shipped(side, rows)):
            folding.add(decode_block(block))
    assert totals(rest(folding), "int64") == {str(key): (3, 3.0) for key in range(10_000)}


def test_a_changelog_has_its_weights() -> None:
    stage = count_and_sum()
    stage = replace(stage, is_changelog=True, operator=aggregate(stage, is_changelog=True))
    side = map_side(stage, parallelism=1, slice_bytes=2**30)
    weights = np.where(np.arange(10_000) % 3 == 0, -1, 1)
    table = records([(key, 2.0) for key in range(10_000)], "int64").append_column(WEIGHT_COLUMN, pa.array(weights))
    folding = to_fold(side)
    for block in blocks_of(BlockKind.RECORDS, shipped(side, table)):
        folding.add(decode_block(block))
    found = totals(rest(folding), "int64")
    assert found == {str(key): (weight, 2.0 * weight) for key, weight in enumerate(weights.tolist())}


def is_sent(rows: pa.Table, stage: KeyedStage) -> bool:
    side = map_side(stage, parallelism=SUBTASKS, slice_bytes=2**30)
    return bool(blocks_of(BlockKind.RECORDS, shipped(side, rows)))


def test_running_results_are_not_folded_so_no_records_are_sent() -> None:
    stage = count_and_sum()
    table = records([(key, 1.0) for key in range(10_000)], "int64")
    assert is_sent(table, stage)
    assert not is_sent(table, replace(stage, operator=aggregate(stage, emits_running_results=True)))
    assert not is_sent(table.slice(0, 0), stage)
    assert not folds_in_subtask(replace(stage, key_fields=()))


def test_rows_that_only_show_the_progress_of_a_source_need_no_columns_of_the_step() -> None:
    side = map_side(count_and_sum(), parallelism=SUBTASKS, slice_bytes=2**30)
    apart = replace(side, watch=replace(side.watch, kind=Watched.APART))
    sent = shipped(apart, pa.table({SOURCE_COLUMN: pa.array([0, 0], pa.int32())}))
    assert {BlockKind(kind) for batch in sent for kind in batch["kind"].to_pylist()} == {
        BlockKind.PROGRESS,
        BlockKind.PROFILE,
    }
    assert sum(split.records for split in Progress.decode(blocks_of(BlockKind.PROGRESS, sent)[0]).splits.values()) == 2


def test_the_limit_is_half_of_the_rows() -> None:
    assert DISTINCT_PART_MIN == 0.5
    of_keys = {2: 30_000, 3: 20_000}  # {repetitions: keys}
    numbers = {times: np.tile(np.arange(keys), times) for times, keys in of_keys.items()}
    tables = {times: pa.table({"_k0": found, "_arg0": np.ones(len(found))}) for times, found in numbers.items()}
    assert not is_sent(tables[2], count_and_sum()), "half: as many rows as records that folding saves"
    assert not is_sent(tables[3], count_and_sum())


SETTING = 64 * 2**20
CONSTANT = 48 * 2**20
SCRIPT = """
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.micro.stages import count_and_sum, map_side
from mixedmode.operators.running import sorter_for
from mixedmode.tasks.memory import share_memory
from mixedmode.tasks.records import RecordsToFold
from tests.tasks.worker import peak_bytes

kind, setting, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
stage = count_and_sum("string" if kind == "texts" else "int64")
memory = share_memory(setting, stage.operator.attributes, "sorted")


def run(rows):
    rng, found = np.random.default_rng(1), 0
    side = map_side(stage, parallelism=1, slice_bytes=1)
    folding = RecordsToFold(stage, side.timing, side.max_parallelism, memory.records_bytes)
    with sorter_for(stage.operator, budget_bytes=memory.sort_bytes, spill_dir=folder) as sorter:
        for _ in range(0, rows, 2**15):
            keys = pa.array(rng.integers(0, rows // 4 if kind == "each key 4 times" else 2**62, 2**15))
            folding.add(pa.table([keys.cast(stage.key_fields[0].type), rng.random(2**15)], ["_k0", "_arg0"]))
            if folding.is_full:
                sorter.add(folding.folded())
        last = folding.folded()
        if last is not None:
            sorter.add(last)
        found = sum(table.num_rows for table in sorter.sorted_tables())
    return found


run(2**15)
before = peak_bytes()
assert run(3 * setting // 16)
print(peak_bytes() - before)
"""


@needs_proc
@pytest.mark.parametrize(
    "kind", ["distinct", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("each key 4 times", "texts"))]
)
def test_folding_and_sorting_stay_within_the_setting(kind: str, tmp_path: Path) -> None:
    grown = grown_bytes(SCRIPT, kind, SETTING, tmp_path)
    assert grown <= SETTING + CONSTANT, f"{grown / SETTING:.2f} times the setting"
