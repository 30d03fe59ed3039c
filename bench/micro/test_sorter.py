"""The sorter on a million rows: in memory, through spilled runs, and with the combiner of an aggregate."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.stages import MAX_PARALLELISM, blocks_of, count_and_sum, input_batches, map_side
from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.operators.aggregate import AggregateOperator
from mixedmode.sort import KEY, KEY_GROUP, TIME, ExternalSorter, SortStats, sort_table
from mixedmode.sort.tables import Combine
from mixedmode.tasks.block_rows import BlockKind
from mixedmode.tasks.blocks import decode_block

ROWS = 1_000_000
ROWS_PER_TABLE = 50_000
SMALL_BUDGET = 8 * 2**20  # a fraction of the rows, so that they spill

pytestmark = pytest.mark.benchmark(group="sorter, 1 M rows", min_rounds=3, max_time=0.5)


@pytest.mark.parametrize("kind", ["int64", "int64 with time", "string"])
def test_sort_table(benchmark: BenchmarkFixture, kind: str) -> None:
    table = _table(kind)
    assert benchmark(sort_table, table).num_rows == ROWS


@pytest.mark.parametrize("budget_bytes", [256 * 2**20, SMALL_BUDGET], ids=["in memory", "spilled"])
def test_external_sort(benchmark: BenchmarkFixture, budget_bytes: int, tmp_path: Path) -> None:
    table = _table("int64")
    tables = [table.slice(start, ROWS_PER_TABLE) for start in range(0, ROWS, ROWS_PER_TABLE)]
    rows, stats = benchmark(_sort, tables, budget_bytes, tmp_path, None)
    assert rows == ROWS
    assert (stats.spilled_runs > 0) == (budget_bytes == SMALL_BUDGET), stats


def test_external_sort_with_a_combiner(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Partials of slices that each see a key once or not at all, as many as the exchange makes of a million rows."""
    stage = count_and_sum()
    assert isinstance(stage.operator, AggregateOperator)
    batches = input_batches(rows=ROWS, rows_per_batch=ROWS_PER_TABLE, keys=ROWS // 10)
    shipped = list(map_side(stage, parallelism=1, slice_bytes=batches[0].nbytes)(iter(batches)))
    tables = [decode_block(block) for block in blocks_of(BlockKind.ROWS, shipped)]
    rows, _ = benchmark(_sort, tables, SMALL_BUDGET, tmp_path, stage.operator.combine)
    assert rows <= ROWS // 10


def _sort(
    tables: Sequence[pa.Table], budget_bytes: int, spill_dir: Path, combine: Combine | None
) -> tuple[int, SortStats]:
    with ExternalSorter(budget_bytes=budget_bytes, spill_dir=spill_dir, combine=combine) as sorter:
        for table in tables:
            sorter.add(table)
        rows = sum(table.num_rows for table in sorter.sorted_tables())
        return rows, sorter.stats


def _table(kind: str) -> pa.Table:
    """Rows in random order, nearly all of them with a key of their own; a count of one and a random value."""
    rng = np.random.default_rng(6)
    column = pa.array(rng.integers(0, 2**62, ROWS))
    if kind == "string":
        column = column.cast(pa.string())
    encoded = encode_keys([column], KeySchema((pa.field("k", column.type),)))
    columns = {KEY_GROUP: pa.array(key_groups(encoded, max_parallelism=MAX_PARALLELISM)), KEY: encoded}
    if kind == "int64 with time":
        columns[TIME] = pa.array(rng.integers(0, 10**15, ROWS))
    return pa.table({**columns, "n": pa.array(np.ones(ROWS, np.int64)), "v": pa.array(rng.random(ROWS))})
