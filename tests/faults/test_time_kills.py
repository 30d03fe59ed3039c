"""SIGKILL in a live epoch of a job with windows or a function: the output equals that of the undisturbed run."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.crash_points import CrashPoint
from mixedmode.job import Job
from mixedmode.runtime.run import Until
from tests.faults.processes import killed_at
from tests.harness import manifests, output_changes, run, write_json, write_text

pytestmark = [pytest.mark.spark, pytest.mark.faults]

JOB = """\
name: faults
execution: {runtime-mode: mixed, checkpointing: {interval: 100ms, dir: ./checkpoints}}
parallelism: 2
pipeline: {max-parallelism: 16}
spark: {master: "local[2]", driver.memory: 1g}
sources:
  sales:
    format: json
    path: in
    schema: "shop string, price long, at timestamp"
    event-time: at
    watermark: {out-of-orderness: 1h}
steps:
  - key-by: [shop]
"""
WINDOWS = """\
    window: {session: 5m}
    allowed-lateness: 3h
    late: {format: parquet, path: ./side}
    aggregate: {sales: count(*), income: sum(price), first: first(price)}
sink: {format: parquet, path: ./out}
"""
FUNCTION = """\
    process: functions:Reminders
    output: shop string, sales long, at long
    outputs: {dear: {format: parquet, path: ./side, schema: "shop string, price long"}}
sink: {format: parquet, path: ./out}
"""
CODE = """\
from mixedmode.process import KeyedProcessFunction, ValueState

class Reminders(KeyedProcessFunction):
    sales = ValueState(int, default=0)

    def process_element(self, record, context):
        self.sales.value += 1
        context.timers.register_event_time_timer(context.timestamp + 5_400_000_000)
        if record["price"] > 40:
            context.output("dear", {"shop": record["shop"], "price": record["price"]})

    def on_timer(self, timestamp, context):
        yield {"shop": context.current_key, "sales": self.sales.value, "at": timestamp}
"""


class Story:
    """A job in a folder, and the three files that it reads, one a run."""

    def __init__(self, folder: Path, steps: str) -> None:
        self.folder = folder
        write_text(folder, "job.yaml", JOB + steps)
        write_text(folder, "functions.py", CODE)

    @property
    def file(self) -> Path:
        return self.folder / "job.yaml"

    def add(self, number: int) -> None:
        """Sales of some hours, a few of them of hours before, and one that is late for good."""
        times = [datetime(2001, 1, 1, 5 * number + i * 3 % 8, i % 60, tzinfo=UTC) for i in range(200)]
        rows = [{"shop": f"shop {i % 7}", "price": i * 13 % 50, "at": f"{at:%F %T}"} for i, at in enumerate(times)]
        write_json(self.folder / "in", f"{number}.json", rows)

    def run(self, spark: SparkSession, *, until: Until = Until.IDLE) -> None:
        run(Job.from_yaml(self.file), spark, until=until)

    def rows(self) -> list[dict[str, Any]]:
        """Everything that it gave, in all outputs."""
        return sorted((row for name in ("out", "side") for row in output_changes(self.folder / name)), key=repr)


@pytest.mark.parametrize(
    ("steps", "point"),
    [(WINDOWS, "runs-stored"), (FUNCTION, "after-manifest")],
    ids=["sessions", "function with timers"],
)
def test_a_kill_in_a_live_epoch_changes_nothing_of_the_output(
    spark: SparkSession, scratch_folder: Path, tmp_path: Path, steps: str, point: CrashPoint
) -> None:
    told = Story(tmp_path / "told", steps)
    for number in range(3):
        told.add(number)
        told.run(spark)
    told.run(spark, until=Until.DRAINED)
    story = Story(tmp_path / "killed", steps)
    story.add(0)
    story.run(spark)
    story.add(1)
    killed_at(story.file, point, 1)
    story.add(2)
    story.run(spark)
    story.run(spark, until=Until.DRAINED)
    assert [m.epoch for m in manifests(story.folder / "checkpoints")] == [0, 1, 2, 3]
    assert len(told.rows()) > 50
    assert story.rows() == told.rows()
    shutil.rmtree(told.folder)
