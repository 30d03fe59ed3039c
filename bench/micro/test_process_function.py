"""A process function that counts and sums: events a second and core, in backlog and over the state of a live epoch."""

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.function import CountAndSum
from bench.micro.operators import Ran, Stored, backlog_until, folded, live_between, run_backlog_epoch
from bench.micro.stages import counting
from bench.report import Figure, Report
from mixedmode.operators.interface import Batch
from mixedmode.time import MIN_TIME_US

ROWS = 200_000
KEYS = ROWS // 2
LIVE_ROWS = 50_000

SECTION = "Process function, one core"

pytestmark = [
    pytest.mark.benchmark(group=f"process function, {ROWS:,} events", min_rounds=3, max_time=0.5),
    pytest.mark.usefixtures("one_core"),
]

OPERATOR = counting(CountAndSum)


def test_map_side(benchmark: BenchmarkFixture) -> None:
    assert benchmark(folded, OPERATOR, _batch(ROWS)).num_rows == ROWS


def test_backlog(benchmark: BenchmarkFixture, tmp_path: Path, report: Report) -> None:
    table, numbers = folded(OPERATOR, _batch(ROWS)), itertools.count()
    time = backlog_until(MIN_TIME_US)
    ran = benchmark(lambda: run_backlog_epoch(OPERATOR, table, time, tmp_path / str(next(numbers))))
    assert ran.rows == ROWS
    _report(report, benchmark, "events a second, sorted, in backlog", ROWS, at_least=100_000.0)


def test_live(benchmark: BenchmarkFixture, tmp_path: Path, report: Report) -> None:
    state = run_backlog_epoch(OPERATOR, folded(OPERATOR, _batch(ROWS)), backlog_until(MIN_TIME_US), tmp_path / "state")
    stored, table = Stored(state.runs, tmp_path / "replica"), folded(OPERATOR, _batch(LIVE_ROWS))

    def run() -> Ran:
        return stored.run_live_epoch(OPERATOR, table, live_between(MIN_TIME_US, MIN_TIME_US))

    run()  # makes the replica
    assert benchmark(run).rows == LIVE_ROWS
    _report(report, benchmark, f"events a second, live, {KEYS:,} keys of state, {LIVE_ROWS:,} events", LIVE_ROWS)


def _report(report: Report, benchmark: BenchmarkFixture, name: str, rows: int, **target: float) -> None:
    if benchmark.stats is not None:  # None with --benchmark-disable
        rates = [rows / seconds for seconds in benchmark.stats.stats.data]
        report.add(Figure.median(SECTION, name, "/s", rates, **target))


def _batch(rows: int) -> Batch:
    rng = np.random.default_rng([9, rows])
    keys = pa.array(rng.integers(0, KEYS, rows))
    return Batch([keys], [keys, pa.array(rng.random(rows))], None, None)
