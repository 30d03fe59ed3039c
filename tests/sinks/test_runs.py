"""Whole runs with every setting of an output of files: what is published, marked and compacted, kills included."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch
from mixedmode.cli.app import app
from mixedmode.connectors.files.epoch_markers import EpochMarker
from mixedmode.job import Job
from mixedmode.sinks.publish import parsed_files, steady_files
from tests.faults.in_process import dies_at
from tests.harness import manifests, output_rows, run, write_json, write_text
from tests.sinks.outputs import marked_epochs, read_marker

pytestmark = pytest.mark.spark

JOB = """\
name: orders
execution:
  runtime-mode: mixed
  checkpointing: {interval: 100ms, dir: ./checkpoints, num-retained: 2}
parallelism: 2
pipeline: {max-parallelism: 16}
spark: {master: "local[2]", driver.memory: 1g}
sources:
  orders: {format: json, path: in, schema: "country string, day date, amount long", event-time: day}
steps:
  - sql: SELECT * FROM orders WHERE amount > 0
  - key-by: [country, day]
    aggregate: {orders: count(*), income: sum(amount)}
sink:
  format: FORMAT
  path: ./out
  partition-by: [country, month(day)]
  max-file-size: 1KB
  compression: gzip
  success-marker: true
"""
COUNTRIES = ["DE", "a/b", None]
Orders = list[dict[str, Any]]


def orders(epoch: int) -> Orders:
    return [
        {"country": COUNTRIES[n % 3], "day": f"2024-0{1 + n % 2}-{1 + n % 20:02}", "amount": n + epoch}
        for n in range(1, 61)
    ]


class Story:
    """A job file, and the files that it reads."""

    def __init__(self, folder: Path, file_format: str) -> None:
        self.folder = folder
        self.file = folder / "job.yaml"
        self.out = folder / "out"
        self.written: Orders = []
        write_text(folder, "job.yaml", JOB.replace("FORMAT", file_format))
        self.add(0)

    def add(self, epoch: int, rows: Orders | None = None) -> None:
        given = orders(epoch) if rows is None else rows
        write_json(self.folder / "in", f"{epoch:02}.json", given)
        self.written += [row for row in given if row["amount"] > 0]

    @property
    def job(self) -> Job:
        return Job.from_file(self.file)

    def answer(self) -> dict[tuple[Any, str], tuple[int, int]]:
        found: Counter[tuple[Any, str]] = Counter()
        income: Counter[tuple[Any, str]] = Counter()
        for row in self.written:
            found[row["country"], row["day"]] += 1
            income[row["country"], row["day"]] += row["amount"]
        return {key: (count, income[key]) for key, count in found.items()}

    def table(self) -> dict[tuple[Any, str], tuple[int, int]]:
        return {(r["country"], str(r["day"])): (r["orders"], r["income"]) for r in output_rows(self.out)}

    @property
    def store(self) -> ObjectStore:
        return ObjectStore(self.out)


def marker_of(story: Story, epoch: int) -> EpochMarker:
    marker = read_marker(story.store, Epoch(epoch))
    assert marker is not None
    return marker


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_every_epoch_is_marked_and_any_reader_finds_the_partitions(
    tmp_path: Path, spark: SparkSession, file_format: str
) -> None:
    story = Story(tmp_path, file_format)
    nothing = [{"country": "DE", "day": "2024-01-01", "amount": 0}]
    run(story.job, spark, feed=[lambda: story.add(1), lambda: story.add(2, nothing), lambda: story.add(3)])
    assert story.table() == story.answer()
    assert marked_epochs(story.store) == (0, 1, 2, 3)
    empty = marker_of(story, 2)
    assert (empty.rows, empty.files) == (0, ()), "an epoch without rows is there, too"
    named = [file for epoch in (0, 1, 3) for file in marker_of(story, epoch).files]
    assert {file.path: file.bytes for file in named} == dict(steady_files(story.store))
    folders = {"/".join(file.path.split("/")[:-1]) for file in named}
    assert folders == {
        f"country={country}/day_month=2024-0{month}"
        for country in ("DE", "a%2Fb", "__HIVE_DEFAULT_PARTITION__")
        for month in (1, 2)
    }
    partitioning = ds.partitioning(pa.schema([("country", pa.string()), ("day_month", pa.string())]), flavor="hive")
    rows = ds.dataset(story.out, format=file_format, partitioning=partitioning).to_table().to_pylist()
    newest = {(row["country"], str(row["day"])): row for row in sorted(rows, key=lambda row: row["_epoch"])}
    assert {key: (row["orders"], row["income"]) for key, row in newest.items()} == story.answer()
    assert all(row["day_month"] == f"{row['day']:%Y-%m}" for row in rows)


def test_a_death_before_publication_and_a_compaction_lose_nothing(tmp_path: Path, spark: SparkSession) -> None:
    story = Story(tmp_path, "json")
    run(story.job, spark)
    story.add(1)
    dies_at(story.job, spark, "after-manifest", 1)
    assert marked_epochs(story.store) == (0,), "never before its files"
    run(story.job, spark, feed=[lambda: story.add(2), lambda: story.add(3)])
    assert marked_epochs(story.store) == (0, 1, 2, 3)
    assert story.table() == story.answer()
    before = len(parsed_files(story.store))
    done = CliRunner().invoke(app, ["compact", str(story.file), "--newest-only"])
    assert done.exit_code == 0, done.output
    assert "epochs from 2 on were left alone" in done.output, "two checkpoints are retained"
    assert len(parsed_files(story.store)) < before
    assert story.table() == story.answer()
    story.add(4)
    run(story.job, spark)
    assert story.table() == story.answer(), "the job goes on"
    assert len(manifests(tmp_path / "checkpoints")) == 2
