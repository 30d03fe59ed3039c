"""A class of Spark's transformWithState in a job on Spark: its state moves on, and it sees the session's time zone."""

from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from mixedmode.errors import InvalidJobError
from tests.driver.job_folder import JobFolder, record
from tests.harness import SPARK, output_changes

HERE = "tests.operators.spark_processor.processors"
OUTPUT = "k string, n int, hour int, at timestamp"
NEW_YORK = {**SPARK, "spark.sql.session.timeZone": "America/New_York"}


@pytest.mark.spark
@pytest.mark.parametrize(("name", "rows_as"), [("Hours", "row"), ("PandasHours", "pandas")])
def test_state_moves_on_and_times_are_in_the_zone_of_the_session(
    spark: SparkSession, tmp_path: Path, name: str, rows_as: Literal["row", "pandas"]
) -> None:
    folder = JobFolder(tmp_path)

    def run() -> None:
        grouped = folder.job(spark=NEW_YORK).key_by("k")
        folder.run(grouped.process(f"{HERE}:{name}", output=OUTPUT, time_mode="None", rows_as=rows_as), spark)

    folder.add(record("a", hour=5), record("a", hour=6), record("b", hour=5))
    run()
    folder.add(record("a", hour=7))
    run()
    rows = [(row["_epoch"], row["k"], row["n"], row["hour"]) for row in output_changes(folder.out)]
    assert sorted(rows) == [(0, "a", 0, 5), (0, "a", 1, 6), (0, "b", 0, 5), (1, "a", 2, 7)]
    assert {row["at"].tzname() for row in output_changes(folder.out)} == {"UTC"}


@pytest.mark.spark
def test_a_class_without_a_time_mode_is_refused_with_its_place(spark: SparkSession, tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    folder.add(record("a"))
    with pytest.raises(InvalidJobError, match=r"steps\[0\]\.process: this is a class of Spark, a StatefulProcessor"):
        folder.run(folder.job().key_by("k").process(f"{HERE}:Hours", output=OUTPUT), spark)
