"""The folder of one test's job, with records that have a key, a value and an hour."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from mixedmode.config.sources import SourceSpec
from mixedmode.driver.run import Until
from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK, ManualClock, Recording, Row, run, write_json
from tests.local_engine import run_locally, timed_records

MIDNIGHT = datetime(2001, 1, 1, tzinfo=UTC)


def record(k: str, v: int = 0, hour: float = 0.0) -> Row:
    when = datetime.fromtimestamp(MIDNIGHT.timestamp() + 3600 * hour, UTC)
    return {"k": k, "v": v, "at": when.strftime("%Y-%m-%d %H:%M:%S")}


class JobFolder:
    """The files of a job over the source `t`."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.inputs, self.out, self.checkpoints = base / "in", base / "out", base / "checkpoints"
        self.inputs.mkdir()
        self._files = 0

    def add(self, *rows: Row) -> None:
        """One more file of input."""
        self._files += 1
        write_json(self.inputs, f"{self._files:03}.json", rows)

    def source(self) -> SourceSpec:
        return Source.json(self.inputs, schema="k string, v bigint, at timestamp", event_time="at")

    def job(self, **settings: Any) -> Job:
        """A job without steps."""
        defaults: dict[str, Any] = {
            "name": "runtime",
            "sources": {"t": self.source()},
            "mode": "mixed",
            "parallelism": 2,
            "checkpoint_dir": self.checkpoints,
            "checkpoint_interval": "50ms",
            "spark": SPARK,
        }
        return Job(**{**defaults, **settings})

    def run(self, job: Job, spark: SparkSession | None, *, until: Until = Until.IDLE) -> Recording:
        """One start.  spark: None for the local executor, which runs the same tasks."""
        if spark is None:
            job, clock = job.write(Sink.parquet(self.out)), ManualClock()
            return run_locally(job, self.inputs, until=until, clock=clock, read=timed_records)
        return run(job.write(Sink.parquet(self.out)), spark, until=until, clock=ManualClock())
