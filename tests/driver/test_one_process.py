"""Several jobs at the same time in one process, which share its Spark session."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from mixedmode import Job, Sink, Source
from mixedmode.driver.events import EpochStarted, Event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_two_jobs_of_one_name_run_at_the_same_time(spark: "SparkSession", tmp_path: Path) -> None:
    folder, meeting = tmp_path / "in", threading.Barrier(2, timeout=60)
    folder.mkdir()
    (folder / "rows.json").write_text(json.dumps({"k": "a"}))

    def meet(event: Event) -> None:
        if isinstance(event, EpochStarted):
            meeting.wait()

    def records(name: str) -> int:
        rows = Source.json(folder, schema="k string")
        job = Job("one name", sources={"rows": rows}, checkpoint_dir=tmp_path / name / "checkpoints", parallelism=1)
        counted = job.key_by("k").aggregate(n="count(*)").write(Sink.parquet(tmp_path / name / "out"))
        return counted.run(until="idle", observers=[meet]).records

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(records, ["first", "second"])) == [1, 1]
