"""Process functions in jobs: state, timers and outputs across the flip, restarts, rescaling; failures."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.driver.events import EpochCommitted
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, side_output
from tests.driver.job_folder import MIDNIGHT, JobFolder, record
from tests.harness import ManualClock, Recording, manifests, output_changes

HERE = "tests.driver.functions"
OUTPUT = "k string, n bigint, total bigint"


class Folder(JobFolder):
    """Few key groups, and the rows of the main output."""

    def job(self, **settings: Any) -> Job:
        return super().job(**{"max_parallelism": 8, **settings})

    def rows(self) -> list[tuple[Any, ...]]:
        """Every row of the main output, epoch by epoch, without `_op`."""
        return sorted(
            (row["_epoch"], *(value for name, value in row.items() if not name.startswith("_")))
            for row in output_changes(self.out)
        )


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def totals(folder: Folder, *, job: Job | None = None, name: str = "Totals", **settings: Any) -> Job:
    return (job or folder.job()).key_by("k").process(f"{HERE}:{name}", output=OUTPUT, **settings)


@pytest.mark.spark
def test_state_moves_from_the_backlog_to_live_and_to_other_subtasks(spark: SparkSession, folder: Folder) -> None:
    folder.add(record("a", 1, 2), record("a", 2, 1), record("b", 5, 0))
    for parallelism in (2, 4, 1):
        folder.run(totals(folder, job=folder.job(parallelism=parallelism)), spark)
        folder.add(record("a", 10 * parallelism, 3))
    assert folder.rows() == [(0, "a", 1, 2), (0, "a", 2, 3), (0, "b", 1, 5), (1, "a", 3, 23), (2, "a", 4, 63)]
    assert {row["_op"] for row in output_changes(folder.out)} == {"insert"}


def test_timers_fire_at_the_end_of_their_key_and_later_ones_live(folder: Folder) -> None:
    job = folder.job().key_by("k").process(f"{HERE}:Alarms", output="k string, at bigint, v bigint")

    def hour(number: float) -> int:
        return int((MIDNIGHT.timestamp() + 3600 * number) * 1_000_000)

    folder.add(record("a", 1, 0), record("a", 2, 2), record("b", 3, 2.5))
    folder.run(job, None)
    assert folder.rows() == [(0, "a", hour(1), 1)]
    folder.add(record("c", 4, 3.25))
    folder.run(job, None)
    assert folder.rows()[1:] == [(1, "a", hour(3), 2)]
    folder.run(job, None, until=Until.DRAINED)
    assert folder.rows()[2:] == [(2, "b", hour(3.5), 3), (2, "c", hour(4.25), 4)]


def test_side_outputs_go_to_sinks_of_their_own(folder: Folder) -> None:
    large = folder.base / "large"
    outputs = {"large": side_output(Sink.json(large), schema="k string, v bigint")}
    folder.add(record("a", 1, 0), record("a", 200, 1))
    folder.run(totals(folder, args={"large": 100}, outputs=outputs), None)
    (file,) = large.glob("part-*.json")
    assert [json.loads(line) for line in file.read_text().splitlines()] == [{"k": "a", "v": 200, "_epoch": 0}]
    assert folder.rows() == [(0, "a", 1, 1), (0, "a", 2, 201)]


@pytest.mark.spark
def test_a_key_by_and_an_aggregate_may_follow(spark: SparkSession, folder: Folder) -> None:
    folder.add(record("a", 1, 0), record("a", 2, 1), record("b", 5, 0))
    job = totals(folder).sql("SELECT n, total FROM previous").key_by("n").aggregate(best="max(total)", keys="count(*)")
    folder.run(job, spark)
    folder.add(record("b", 7, 3))
    folder.run(job, spark)
    assert folder.rows() == [(0, 1, 5, 2), (0, 2, 3, 1), (1, 2, 12, 2)]


@pytest.mark.spark
def test_sql_may_follow_at_the_end(spark: SparkSession, folder: Folder) -> None:
    folder.add(record("a", 1, 0), record("a", 2, 1), record("b", 5, 0))
    job = totals(folder).sql("SELECT upper(k) AS key, total FROM previous WHERE n = 1")
    folder.run(job, spark)
    folder.run(job, spark, until=Until.DRAINED)
    assert folder.rows() == [(0, "A", 1), (0, "B", 5)]


def test_the_vectorised_twin_gets_all_rows_of_a_key(folder: Folder) -> None:
    folder.add(record("a", 1, 0), record("a", 2, 1), record("b", 5, 0))
    folder.run(totals(folder, name="Sums"), None)
    assert folder.rows() == [(0, "a", 2, 3), (0, "b", 1, 5)]


def test_a_function_is_told_of_the_flip(folder: Folder) -> None:
    job = folder.job().key_by("k").process(f"{HERE}:Flips", output="k string, told string, is_backlog boolean")
    for hour in range(3):
        folder.add(record("a", 1, hour))
        folder.run(job, None)
    assert folder.rows() == [(0, "a", "True", True), (1, "a", "False", False), (2, "a", "None", False)]


def test_batch_fires_every_timer_and_keeps_nothing(folder: Folder) -> None:
    folder.add(record("a", 1, 0), record("b", 3, 2.5))
    job = folder.job(mode="batch", checkpoint_dir=None).key_by("k")
    folder.run(job.process(f"{HERE}:Alarms", output="k string, at bigint, v bigint"), None)
    assert [row[1::2] for row in folder.rows()] == [("a", 1), ("b", 3)]
    assert not folder.checkpoints.exists()


def test_a_step_that_gives_nothing_before_the_end_holds_up_the_steps_after_it(folder: Folder) -> None:
    job = totals(folder, name="AtTheEnd").key_by("n").aggregate(keys="count(*)")
    folder.add(record("a", 1, 0), record("a", 2, 1), record("b", 5, 0))
    folder.run(job, None)
    folder.add(record("b", 7, 3), record("c", 7, 3))
    folder.run(job, None)
    assert folder.rows() == []
    folder.run(job, None, until=Until.DRAINED)
    assert folder.rows() == [(2, 1, 1), (2, 2, 2)]


def test_a_step_that_emits_rows_although_it_says_it_does_not_is_refused(folder: Folder) -> None:
    folder.add(record("a", 1, 0))
    with pytest.raises(InvalidJobError, match=r"^a step says that it emits nothing before the end of its input, and"):
        folder.run(totals(folder, name="AtTheEnd", args={"breaks_its_word": True}), None)
    assert not manifests(folder.checkpoints)


@pytest.mark.spark
def test_a_processing_time_timer_fires_although_no_record_comes(spark: SparkSession, folder: Folder) -> None:
    """Live epochs go on by the clock. Each of them puts the clock forward here, and no record comes after the first."""
    clock, stop = ManualClock(), threading.Event()
    start_us = clock.time_ms * 1000

    def later(event: EpochCommitted) -> None:
        clock.time_ms += 40_000
        if event.rows_out or event.epoch > 20:
            stop.set()

    folder.add(record("a", 1, 0))
    job = totals(folder, name="Reminders").write(Sink.parquet(folder.out))
    observer = Recording(on_commit=later)
    run_job(job.spec, job.where, RunOptions(observers=[observer], clock=clock, stop=stop, session=spark))
    fired = [event.epoch for event in observer.committed if event.rows_out]
    assert fired == [observer.committed[-1].epoch], "once, in a live epoch"
    assert [event.records for event in observer.committed] == [1] + [0] * fired[0]
    assert folder.rows() == [(2, "a", start_us + 60_000_000, start_us + 80_000_000)]


@pytest.mark.spark
def test_a_failure_names_operator_key_record_and_line_and_commits_nothing(spark: SparkSession, folder: Folder) -> None:
    folder.add(record("a", 1, 0), record("b", 13, 1))
    with pytest.raises(InvalidJobError) as caught:
        folder.run(totals(folder, args={"fails_at": 13}), spark)
    message = str(caught.value)
    assert message.startswith("the process function raised ValueError: unlucky. Nothing of this epoch is committed.")
    for part in ("operator=process-1", 'key="b"', '"v": 13', "functions.py:", "process_element"):
        assert part in message, part
    assert not manifests(folder.checkpoints)


@pytest.mark.parametrize("on_error", ["skip", "dead-letter"])
def test_a_record_on_which_the_function_fails_leaves_no_trace_in_the_state(folder: Folder, on_error: str) -> None:
    letters = folder.base / "letters"
    settings: dict[str, Any] = {"on_error": on_error, "args": {"fails_at": 13}}
    if on_error == "dead-letter":
        settings["dead_letter"] = Sink.json(letters)
    folder.add(record("a", 1, 0), record("a", 13, 1), record("a", 2, 2))
    folder.run(totals(folder, **settings), None)
    assert folder.rows() == [(0, "a", 1, 1), (0, "a", 2, 3)]
    assert manifests(folder.checkpoints)[-1].records_skipped == (1 if on_error == "skip" else 0)
    if on_error == "dead-letter":
        (letter,) = [json.loads(line) for file in letters.glob("part-*.json") for line in file.read_text().splitlines()]
        assert (letter["operator"], letter["key"], json.loads(letter["record"])["v"]) == ("process-1", '"a"', 13)
        assert "ValueError: unlucky" in letter["error"]


def test_a_row_that_is_not_what_the_step_declares_is_refused(folder: Folder) -> None:
    folder.add(record("a", 1, 0))
    with pytest.raises(InvalidJobError) as caught:
        folder.run(totals(folder, name="WrongRow"), None)
    message = str(caught.value)
    for part in ("n", "many", "process-1"):
        assert part in message, message
    assert not manifests(folder.checkpoints)


def test_a_state_whose_type_was_changed_is_refused_at_the_start(folder: Folder) -> None:
    folder.add(record("a", 1, 0))
    folder.run(totals(folder), None)
    folder.add(record("a", 1, 1))
    with pytest.raises(InvalidJobError) as caught:
        folder.run(totals(folder, name="TotalsOfText"), None)
    message = str(caught.value)
    for part in ("process-1", "total", "int", "str", "execution.checkpointing.dir"):
        assert part in message, message
    assert len(manifests(folder.checkpoints)) == 1


@pytest.mark.spark
def test_a_function_that_cannot_be_imported_is_refused_with_its_place(spark: SparkSession, folder: Folder) -> None:
    folder.add(record("a", 1, 0))
    with pytest.raises(InvalidJobError) as caught:
        folder.run(totals(folder, name="Missing"), spark)
    assert str(caught.value).startswith("steps[0].process: ")
    assert f"{HERE}:Missing" in str(caught.value)
