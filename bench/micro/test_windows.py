"""Tumbling windows over a million timed events: the map side, and what a subtask does with its partials."""

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.operators import backlog_until, folded, run_backlog_epoch
from bench.micro.stages import KEY_SCHEMA, MAX_PARALLELISM, aggregator
from mixedmode.operators.interface import Batch
from mixedmode.operators.window import TimeWindowAggregateOperator
from mixedmode.time import MIN_TIME_US, Tumbling
from mixedmode_bench.events import DISORDER_S, START_US

ROWS = 1_000_000
WINDOWS = 24
WINDOW_US = 60_000_000

pytestmark = [
    pytest.mark.benchmark(group="tumbling windows, 1 M rows", min_rounds=3, max_time=0.5),
    pytest.mark.usefixtures("one_core"),
]
#: with few keys the windows of a key have many rows, with many keys most have one
KINDS = pytest.mark.parametrize("keys", [100, 10_000, 1_000_000], ids=["100 keys", "10,000 keys", "1 M keys"])

OPERATOR = TimeWindowAggregateOperator(
    aggregator(), KEY_SCHEMA, Tumbling(WINDOW_US), allowed_lateness_us=0, early_every_ms=None, emits_retractions=False
)


@KINDS
def test_fold(benchmark: BenchmarkFixture, keys: int) -> None:
    batch = _batch(keys)
    found = benchmark(lambda: OPERATOR.fold(batch, late_us=MIN_TIME_US, max_parallelism=MAX_PARALLELISM))
    assert found.table.num_rows <= min(ROWS, (WINDOWS + 1) * keys)


@KINDS
def test_sort_and_settle(benchmark: BenchmarkFixture, keys: int, tmp_path: Path) -> None:
    """All but the last window fire."""
    table, numbers = folded(OPERATOR, _batch(keys)), itertools.count()
    time = backlog_until(START_US + (WINDOWS - 1) * WINDOW_US)
    ran = benchmark(lambda: run_backlog_epoch(OPERATOR, table, time, tmp_path / str(next(numbers))))
    assert ran.rows + sum(run.entries for run in ran.runs) == table.num_rows


def _batch(keys: int) -> Batch:
    rng = np.random.default_rng([10, keys])
    in_order = START_US + np.arange(ROWS) * (WINDOWS * WINDOW_US) // ROWS
    times = in_order - rng.integers(0, DISORDER_S * 1_000_000, ROWS)
    return Batch([pa.array(rng.integers(0, keys, ROWS))], [pa.array(rng.random(ROWS))], times, None)
