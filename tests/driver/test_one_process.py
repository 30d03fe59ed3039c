"""The Spark session of a process: several jobs share it at the same time, and the program may stop it."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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


@pytest.mark.soak  # test_interrupted.py has it without Spark
def test_a_session_that_is_stopped_ends_the_job(tmp_path: Path) -> None:
    """In a process of its own, since the session of these tests has to stay."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text(json.dumps({"k": "a"}))
    (tmp_path / "program.py").write_text(_STOPS_ITS_SESSION)
    found = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert found.stdout.startswith("RetryableError: the Spark session was stopped while the job ran"), found.stderr


_STOPS_ITS_SESSION = """
import threading
from concurrent.futures import ThreadPoolExecutor
from mixedmode import Job, Sink, Source
from mixedmode.driver.events import PhaseBegan
from pyspark.sql import SparkSession

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
is_live = threading.Event()
rows = Source.json("in", schema="k string")
job = Job("stopped", sources={"rows": rows}, checkpoint_dir="checkpoints", parallelism=1)
counted = job.key_by("k").aggregate(n="count(*)").write(Sink.parquet("out"))
watch = lambda event: is_live.set() if isinstance(event, PhaseBegan) and event.phase == "live" else None
with ThreadPoolExecutor(1) as threads:
    running = threads.submit(counted.run, observers=[watch])
    assert is_live.wait(60)
    session.stop()
    error = running.exception(60)
print(f"{type(error).__name__}: {error}")
"""
