"""The workloads of `mixedmode bench`, a contestant at a time, for pytest-benchmark to compare with earlier runs.

At a smaller size than there, in one process, and without turns: to see what a change does, not who is faster.
`-k "count-sum and mixed"` takes a part.
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.conftest import Course
from bench.scale import Scale
from mixedmode_bench.contestant import Contestant, Task
from mixedmode_bench.contestants import CONTESTANTS
from mixedmode_bench.workload import Size, Workload
from mixedmode_bench.workloads import WORKLOADS

COMPARED = ("mixed", "batch", "streaming", "spark-batch", "spark-streaming", "duckdb")
assert set(COMPARED) <= CONTESTANTS.keys()


@pytest.mark.parametrize("name", COMPARED)
@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_workload(
    benchmark: BenchmarkFixture,
    workload: Workload,
    name: str,
    contestant: Callable[[str], Contestant],
    course: Callable[[Workload, Size], Course],
    scale: Scale,
    tmp_path: Path,
) -> None:
    who = contestant(name)
    if not who.takes(workload):
        pytest.skip(f"{name} cannot compute this")
    over = course(workload, workload.size.at_most(scale.workload_events))
    benchmark.group = f"{workload.name}, {over.size.events:,} events, {over.size.keys:,} keys"
    task, _ = over.run(who)  # what it loads and compiles is not measured
    benchmark.pedantic(  # type: ignore[no-untyped-call]  # it has no annotations
        who.run, setup=lambda: (_anew(over), {}), rounds=scale.rounds
    )
    file = tmp_path / "answer.parquet"
    pq.write_table(who.answer(task), file)  # every run has the same folder
    over.check(who, file)
    if benchmark.stats is not None:  # None with --benchmark-disable
        benchmark.extra_info["events_per_second"] = round(over.size.events / benchmark.stats.stats.median)


def _anew(over: Course) -> tuple[Task]:
    return (over.task(),)
