"""The progress of a real backlog on Spark, and the descriptions of its jobs."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.driver.events import EpochCommitted, EpochProgress, EpochStarted, Event
from mixedmode.job import Job, Sink, Source
from mixedmode.process import MapContext, MapFunction, Record
from tests.faults.processes import wait_until
from tests.harness import Recording, run, write_parquet

pytestmark = pytest.mark.spark

FILES, ROWS = 8, 5_000


class Held(MapFunction):
    """Passes records on once a file is there, so that tasks do not end before their progress was told."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def open(self, context: MapContext) -> None:
        wait_until(self._path.exists, "progress is told while the tasks read")

    def map_record(self, record: Record) -> Record:
        return record


class Releasing(Recording):
    """Lets the tasks go on as soon as it is told that they read."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def tell(self, event: Event) -> None:
        super().tell(event)
        if isinstance(event, EpochProgress) and event.phase == "reading":
            self._path.touch()


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
        .map(Held, output="k long", name="held", args={"path": str(tmp_path / "go")})
        .key_by("k", name="by_k")
        .aggregate(n="count(*)")
        .write(Sink.parquet(tmp_path / "out"))
    )
    recording = run(job, spark, observer=Releasing(tmp_path / "go"))
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
