"""Steps with apply-changes: mixed == streaming == batch == plain Python, mostly without Spark.

Whatever the flip, the epochs, the parallelism and the restarts are, the table is that of the records alone.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.job import Job
from tests.differential.stories import case_folder, local_cases
from tests.differential.test_time_on_spark import play_steps
from tests.differential.timelines import MODES, Case, Event, Mode, cases, flat
from tests.harness import SPARK_CASES, output_table
from tests.operators.apply_changes.oracle import current, history

VALUES = st.none() | st.sampled_from([1, 1, 2, 99])  # what is above 50 deletes


def rows_of(events: Sequence[Event], *, versions: bool) -> list[Any]:
    """The table in plain Python; the records of a key are ordered by time."""
    records = [
        {"k": one.key, "seq": one.time_us, "gone": None if one.v is None else one.v > 50, "v": one.v} for one in events
    ]
    return list(history(records, ["v"], ["v"]) if versions else current(records, ["v"]))


def changed(job: Job, *, versions: bool) -> Job:
    return job.key_by("k").apply_changes(
        sequence_by="t", delete_when="is_big", except_columns=["t", "is_big"], history=versions
    )


def check(case: Case, mode: Mode, versions: bool, spark: SparkSession | None, base: Path) -> None:
    play_steps(case, mode, lambda job: changed(job, versions=versions), spark, base)
    found = output_table(base / "out").to_pylist()
    expected = [tuple(row.values()) for row in rows_of(case.events, versions=versions)]
    assert Counter(flat(found)) == Counter(expected), mode


@local_cases(0.06)
@given(case=cases(values=VALUES), mode=st.sampled_from(MODES), versions=st.booleans())
def test_the_table_is_that_of_the_records_however_they_arrive(case: Case, mode: Mode, versions: bool) -> None:
    with case_folder() as base:
        check(case, mode, versions, None, base)


@pytest.mark.spark
@settings(SPARK_CASES, max_examples=1)
@given(case=cases(values=VALUES))
@pytest.mark.parametrize("versions", [False, True])
def test_the_table_is_that_of_the_records_on_spark(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, case: Case, versions: bool
) -> None:
    check(case, "mixed", versions, spark, tmp_path_factory.mktemp("mixed"))


@local_cases(0.04)
@given(case=cases(values=VALUES), mode=st.sampled_from(MODES), versions=st.booleans())
def test_an_aggregate_after_it_is_that_of_the_rows_that_there_are(case: Case, mode: Mode, versions: bool) -> None:
    def steps(job: Job) -> Job:
        return changed(job, versions=versions).key_by("v").aggregate(n="count(*)")

    with case_folder() as base:
        play_steps(case, mode, steps, None, base)
        found = {row["v"]: row["n"] for row in output_table(base / "out").to_pylist()}
    assert found == Counter(row["v"] for row in rows_of(case.events, versions=versions)), mode
