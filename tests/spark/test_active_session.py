"""The active session of a program is the same after a job as before it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.job import Job, Sink, Source
from mixedmode.spark.active_session import active_in_job
from tests.harness import SPARK, output_rows, write_json

pytestmark = pytest.mark.spark


def test_a_session_is_the_active_one_during_a_block(spark: SparkSession) -> None:
    other = spark.newSession()
    spark.createDataFrame([], "id long")  # makes its session the active one
    with active_in_job(other):
        other.createDataFrame([], "id long")
        assert SparkSession.getActiveSession() is other
    assert SparkSession.getActiveSession() is spark


USES: dict[str, Callable[[Job], object]] = {
    "explain": Job.explain,
    "validate": Job.validate,
    "run": lambda job: job.run(until="idle"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_job_with_a_dimension_leaves_the_session_of_the_program_active(
    spark: SparkSession, tmp_path: Path, use: Callable[[Job], object]
) -> None:
    write_json(tmp_path / "in", "1.json", [{"k": 1}, {"k": 2}])
    write_json(tmp_path / "names", "1.json", [{"id": 1, "name": "one"}])
    job = (
        Job(
            "named",
            sources={"t": Source.json(tmp_path / "in", schema="k long")},
            checkpoint_dir=tmp_path / "checkpoints",
            spark=SPARK,
        )
        .dimension("names", Source.json(tmp_path / "names", schema="id long, name string"))
        .sql("SELECT k, initcap(name) AS name FROM t JOIN names ON k = id")
        .write(Sink.parquet(tmp_path / "out"))
    )
    spark.createDataFrame([], "id long")
    use(job)
    assert SparkSession.getActiveSession() is spark
    if (tmp_path / "out").exists():
        assert output_rows(tmp_path / "out") == [{"k": 1, "name": "One"}]
