"""Files of sources that change while an epoch reads them: nothing is committed, and the next start reads them anew."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import DataFrame, SparkSession

from mixedmode.driver.epochs import EpochRunner, SettingsOf
from mixedmode.driver.phases import Until
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


#: each change, each mode and each reader; `make soak` has all of them together
BY_DEFAULT = {("tasks", "batch", appended), ("tasks", "mixed", cut_short), ("spark", "mixed", replaced)}


@pytest.mark.parametrize(
    ("read_by", "mode", "change"),
    [
        pytest.param(*case, marks=() if case in BY_DEFAULT else pytest.mark.soak)
        for case in product(("tasks", "spark"), ("batch", "mixed"), (appended, cut_short, replaced))
    ],
)
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


def test_a_file_may_change_once_its_epoch_is_committed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch that ends the job reads no file."""
    file = write_text(tmp_path / "in", "a.json", LINE * 2)
    source = Source.json(tmp_path / "in", schema="v bigint")
    job = Job("changed", sources={"s": source}, mode="mixed", checkpoint_dir=tmp_path / "checkpoints", spark=SPARK)
    job = job.key_by("v").aggregate(n="count(*)").write(Sink.json(tmp_path / "out"))
    run_final = EpochRunner.run_final

    def change_and_run(runner: EpochRunner, session: SparkSession, settings: SettingsOf) -> None:
        file.unlink()
        run_final(runner, session, settings)

    monkeypatch.setattr(EpochRunner, "run_final", change_and_run)
    recording = run(job, spark, until=Until.DRAINED)
    assert len(recording.committed) == 2
    assert output_rows(tmp_path / "out") == [{"v": 1, "n": 2}]


def test_a_repeat_of_an_epoch_reads_the_file_as_it_is_then(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_text(tmp_path / "in", "a.json", LINE * 2)
    source = Source.json(tmp_path / "in", schema="v bigint")
    job = Job(
        "changed",
        sources={"s": source},
        mode="mixed",
        checkpoint_dir=tmp_path / "checkpoints",
        checkpoint_interval="50ms",
        tolerable_failed_checkpoints=1,
        spark=SPARK,
    )
    job = job.key_by("v").aggregate(n="count(*)").write(Sink.json(tmp_path / "out"))
    run_epoch, changes = SparkExecutor.run_epoch, [appended]

    def run_and_change(executor: SparkExecutor, task: EpochTask, rows: DataFrame | None) -> EpochResult:
        result = run_epoch(executor, task, rows)
        if changes:
            changes.pop()(file)
        return result

    monkeypatch.setattr(SparkExecutor, "run_epoch", run_and_change)
    run(job, spark)
    assert output_rows(tmp_path / "out") == [{"v": 1, "n": 3}]
