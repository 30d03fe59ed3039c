"""transformWithState as a contestant: its answers are DuckDB's, with the state given at the start and without."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode_bench.transform import TransformWithState, TransformWithStateInitial
from mixedmode_bench.workload import Size
from mixedmode_bench.workloads import WORKLOADS
from mixedmode_bench.workloads.counts import COUNT_SUM
from tests.bench.tiny import check_epochs, run_and_check, tiny_task


@pytest.mark.spark
@pytest.mark.parametrize(
    "contestant",
    [
        pytest.param(TransformWithState(), id="empty", marks=pytest.mark.soak),
        pytest.param(TransformWithStateInitial(), id="initial"),
    ],
)
def test_the_processor_gives_the_answer(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contestant: TransformWithState
) -> None:
    # few events a key, so that some keys come in the first file alone, which is what the state begins with
    task = tiny_task(COUNT_SUM, Size(60, 40), tmp_path, monkeypatch)
    outcome = run_and_check(contestant, task, tmp_path)
    check_epochs(outcome, backlog=60, live=[])


def test_it_takes_what_the_processor_computes() -> None:
    assert {name for name, workload in WORKLOADS.items() if TransformWithState().takes(workload)} == {
        "count-sum",
        "live",
    }
    assert [name for name, w in WORKLOADS.items() if TransformWithStateInitial().takes(w)] == ["count-sum"]
