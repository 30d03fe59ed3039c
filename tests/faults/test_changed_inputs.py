"""Files of sources that change while an epoch reads them: nothing is committed, and the next start reads them anew."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import DataFrame, SparkSession

from mixedmode.errors import RetryableError
from mixedmode.executor.protocol import EpochResult, EpochTask
from mixedmode.executor.spark import SparkExecutor
from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK, output_rows, run, write_text

pytestmark = [pytest.mark.spark, pytest.mark.faults]

LINE = '{"v": 1}\n'


def appended(file: Path) -> None:
    with file.open("a") as lines:
        lines.write(LINE)


def cut_short(file: Path) -> None:
    file.write_text(LINE)


def replaced(file: Path) -> None:
    write_text(file.parent, file.name, LINE * 3)


@pytest.mark.parametrize("change", [appended, cut_short, replaced])
@pytest.mark.parametrize("mode", ["batch", "mixed"])
@pytest.mark.parametrize("read_by", ["tasks", "spark"])
def test_a_file_that_changes_under_its_epoch_is_told_and_read_again_by_the_next_start(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read_by: str,
    mode: Literal["batch", "mixed"],
    change: Callable[[Path], None],
) -> None:
    file = write_text(tmp_path / "in", "a.json", LINE * 2)
    column = {"tasks": "bigint", "spark": "decimal(9, 0)"}[read_by]  # the tasks read no decimals
    folder = None if mode == "batch" else tmp_path / "checkpoints"
    source = Source.json(tmp_path / "in", schema=f"v {column}")
    job = Job("changed", sources={"s": source}, mode=mode, checkpoint_dir=folder, parallelism=2, spark=SPARK)
    job = job.sql("SELECT bigint(v) AS v FROM s").key_by("v").aggregate(n="count(*)").write(Sink.json(tmp_path / "out"))
    run_epoch = SparkExecutor.run_epoch

    def run_and_change(executor: SparkExecutor, task: EpochTask, rows: DataFrame | None) -> EpochResult:
        result = run_epoch(executor, task, rows)
        change(file)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(SparkExecutor, "run_epoch", run_and_change)
        with pytest.raises(RetryableError, match=f"a file of a source was .* changed=file://{file} was changed"):
            run(job, spark)
    assert output_rows(tmp_path / "out") == []
    run(job, spark)
    assert output_rows(tmp_path / "out") == [{"v": 1, "n": file.read_text().count(LINE)}]
