"""Batch, streaming and mixed runs of one job give the table that plain Python recomputes, after every epoch.

Keys of every supported type, every aggregate, NULLs, skew, empty inputs, and flips at random file borders. Nearly all
cases run on the local executor, with the driver, the tasks, the state and the files of a job; a few run on Spark.
"""

from pathlib import Path

import pytest
from hypothesis import given, settings
from pyspark.sql import SparkSession

from mixedmode.job import Job
from tests.differential.cases import AGGREGATES, Case, cases
from tests.differential.oracle import Table, aggregate, differences, keyed
from tests.differential.stories import MODES, Mode, Outcome, case_folder, epochs_of, local_cases, play, table_after
from tests.harness import SPARK_CASES, manifests, output_rows

RANDOM_MODES: list[Mode] = ["mixed", "mixed", "streaming", "batch"]


@local_cases(0.3)
@given(case=cases(RANDOM_MODES, needs_spark=False))
def test_every_mode_gives_the_answer_of_plain_python(case: Case) -> None:
    with case_folder() as folder:
        check(case, case.mode, None, folder)


@pytest.mark.spark
@settings(SPARK_CASES, max_examples=1)
@given(case=cases(RANDOM_MODES))
def test_every_mode_gives_the_answer_of_plain_python_on_spark(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, case: Case
) -> None:
    check(case, case.mode, spark, tmp_path_factory.mktemp("case"))


@local_cases(0.1)
@given(case=cases(modes=["mixed"], needs_spark=False))
def test_all_modes_agree_on_one_input(case: Case) -> None:
    with case_folder() as folder:
        for mode in MODES:
            check(case, mode, None, folder / mode)


def check(case: Case, mode: Mode, spark: SparkSession | None, base: Path) -> None:
    """Run the case, compare the table after each epoch, and look at what was committed."""
    calls = {name: sql for name, (sql, _) in AGGREGATES.items() if name in case.names}

    def steps(job: Job) -> Job:
        job = job.sql("SELECT * FROM t WHERE hash(*) IS NOT NULL") if case.has_sql else job
        return job.key_by(*case.key_by).aggregate(calls)

    outcome = play(case.story, mode, steps, spark, base, **case.settings)
    arrived = 0
    for epoch, pieces in enumerate(epochs_of(case.story, mode)):
        arrived += pieces
        end = case.borders[arrived] if arrived else 0
        problems = differences(_expected(case, end), table_after(outcome, epoch, case.key_by))
        assert not problems, (mode, epoch, problems)
    problems = differences(_expected(case, len(case.rows)), keyed(output_rows(outcome.out), case.key_by))
    assert not problems, ("current_table", problems)
    if mode != "batch":
        check_manifests(case, mode, outcome)


def check_manifests(case: Case, mode: Mode, outcome: Outcome) -> None:
    """One epoch per checkpoint, the backlog is the first one of a mixed run, and each knows how much it read."""
    found = manifests(outcome.checkpoints)
    records, start = [], 0
    for pieces in epochs_of(case.story, mode):
        records.append(case.borders[start + pieces] - case.borders[start])
        start += pieces
    assert [manifest.records_in for manifest in found] == records
    is_backlog = [mode == "mixed" and case.flip > 0 and manifest.epoch == 0 for manifest in found]
    assert [manifest.is_backlog for manifest in found] == is_backlog
    assert [manifest.strategy == "sorted" for manifest in found] == is_backlog


def _expected(case: Case, end: int) -> Table:
    calls = {name: call for name, (_, call) in AGGREGATES.items() if name in case.names}
    return aggregate(case.rows[:end], case.key_by, calls, event_time="at")
