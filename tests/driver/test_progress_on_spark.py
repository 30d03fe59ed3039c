"""The progress of a real backlog on Spark, and the descriptions of its jobs."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.driver.events import EpochCommitted, EpochProgress, EpochStarted
from mixedmode.job import Job, Sink, Source
from tests.harness import run, write_parquet

pytestmark = pytest.mark.spark

FILES, ROWS = 8, 50_000


def descriptions(spark: SparkSession) -> set[str]:
    """Of the jobs that Spark has run."""
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    found = (jobs.apply(number).description() for number in range(jobs.size()))
    return {one.get() for one in found if one.isDefined()}


def test_the_progress_of_a_backlog_moves_to_the_total_and_its_jobs_have_descriptions(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixedmode.driver.watched.INTERVAL_SECONDS", 0.01)
    files = [
        write_parquet(tmp_path / "in", f"{number}.parquet", pa.table({"k": range(number, ROWS + number)}))
        for number in range(FILES)
    ]
    job = (
        Job("shop totals", sources={"sales": Source.parquet(tmp_path / "in")}, checkpoint_dir=tmp_path / "ck")
        .key_by("k", name="by_k")
        .aggregate(n="count(*)")
        .write(Sink.parquet(tmp_path / "out"))
    )
    recording = run(job, spark)
    kinds = [type(event) for event in recording.events]
    first, last = kinds.index(EpochProgress), len(kinds) - 1 - kinds[::-1].index(EpochProgress)
    assert kinds.index(EpochStarted) < first < last < kinds.index(EpochCommitted), "no progress after the commit"
    told = recording.of(EpochProgress)
    size = sum(file.stat().st_size for file in files)
    assert {(event.epoch, event.is_backlog, event.bytes_total) for event in told} == {(0, True, size)}
    assert [event.share for event in told] == sorted(event.share for event in told)
    assert (told[0].share, told[0].bytes_read, told[0].records) == (0.0, 0, 0)
    assert (told[-1].phase, told[-1].share, told[-1].bytes_read) == ("done", 1.0, size)
    assert {"reading"} < {event.phase for event in told}, "the jobs of the epoch are found"
    assert told[-1].records_total == FILES * ROWS
    assert max(event.records for event in told) <= FILES * ROWS, "each record once, however many subtasks read it"
    assert "shop totals, epoch 0, backlog: by_k" in descriptions(spark)
