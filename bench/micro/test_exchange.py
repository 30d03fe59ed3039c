"""The map side of the exchange on a million rows: batches as Spark hands them over, to blocks for two subtasks.

It folds, encodes, sorts, cuts and serialises; how many keys repeat decides how much is left to sort.
"""

import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.operators import SORT_MEMORY_BYTES
from bench.micro.stages import blocks_of, count_and_sum, input_batches, map_side
from mixedmode.operators.interface import OperatorAttributes
from mixedmode.tasks.block_rows import BlockKind
from mixedmode.tasks.memory import slice_bytes
from mixedmode.tasks.progress import Progress

ROWS = 1_000_000
ROWS_PER_BATCH = 200_000  # spark.sql.execution.arrow.maxRecordsPerBatch of the embedded Spark
SLICE_BYTES = slice_bytes(SORT_MEMORY_BYTES, OperatorAttributes())

pytestmark = pytest.mark.benchmark(group="exchange, 1 M rows", min_rounds=3, max_time=0.5)


@pytest.mark.parametrize("keys", [2**62, 100_000, 100], ids=["all keys differ", "100,000 keys", "100 keys"])
def test_map_side(benchmark: BenchmarkFixture, keys: int) -> None:
    batches = input_batches(rows=ROWS, rows_per_batch=ROWS_PER_BATCH, keys=keys)
    shipped = benchmark(_ship, batches)
    assert [Progress.decode(block).records for block in blocks_of(BlockKind.PROGRESS, shipped)] == [ROWS, ROWS]


def _ship(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return list(map_side(count_and_sum(), parallelism=2, slice_bytes=SLICE_BYTES)(iter(batches)))
