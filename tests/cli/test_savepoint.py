"""`mixedmode savepoint`, as a shell would call it. What restores start is in tests/differential/test_savepoints.py."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from mixedmode.checkpoint.savepoint import read_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.job import Job
from tests.checkpoint.committed import Checkpoints
from tests.cli import shell
from tests.cli.shell import lines
from tests.harness import ManualClock, run, write_json, write_text

JOB = """\
name: shops
execution: {runtime-mode: mixed, checkpointing: {dir: ./checkpoints, interval: 5s}}
parallelism: 2
pipeline.max-parallelism: 16
spark: {master: "local[2]"}
sources:
  sales: {format: json, path: in, schema: "k string, v long"}
steps:
  - key-by: [k]
    aggregate: {n: count(*), total: sum(v)}
sink: {format: parquet, path: out}
"""
ADDED = """\
  - key-by: [n]
    aggregate: {keys: count(*)}
sink: {format: parquet, path: histogram}
"""


def command(*arguments: str | Path) -> Result:
    return shell.command("savepoint", *arguments)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The folder of a job that has taken two checkpoints, without Spark."""
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for epoch in range(2):
        checkpoints.commit(epoch)
        checkpoints.finish(epoch)
    write_text(tmp_path, "job.yaml", JOB)
    return tmp_path


@pytest.mark.parametrize("of", ["job.yaml", "checkpoints"])
def test_create_names_what_it_has_made(job: Path, of: str) -> None:
    assert lines(command("create", job / of, job / "kept" / "one")) == [
        "savepoint of orders after epoch 1: 42 state entries, 12 files, 4.0 KiB, verified",
        f"{job}/kept/one",
    ]
    again = command("create", job / of, job / "kept" / "one")
    assert again.exit_code == 2
    assert "there is a savepoint in this folder already" in again.stderr


def test_create_takes_settings_of_a_job_file_only(job: Path) -> None:
    other = job / "moved"
    (job / "checkpoints").rename(other)
    assert command("create", job / "job.yaml", job / "sp").exit_code == 2
    lines(command("create", job / "job.yaml", job / "sp", "--set", "execution.checkpointing.dir=./moved"))
    refused = command("create", other, job / "sp2", "--set", "execution.checkpointing.dir=./moved")
    assert (refused.exit_code, "--set overrides a setting of a job file" in refused.stderr) == (2, True)


def test_list_shows_all_below_a_folder(job: Path) -> None:
    assert lines(command("list", job)) == [f"no savepoint below {job}"]
    for name in ("a", "b"):
        command("create", job / "checkpoints", job / "kept" / name)
    os.truncate(job / "kept" / "b" / "savepoint.json", 20)
    heading, *rows = lines(command("list", job))
    assert heading.split() == ["savepoint", "job", "epoch", "taken", "at", "entries", "size"]
    assert rows[0].split() == [f"{job}/kept/a", "orders", "1", "2023-11-14", "22:13:20", "UTC", "42", "4.0", "KiB"]
    assert rows[1].split() == [f"{job}/kept/b", "damaged"]


def test_inspect_shows_what_is_in_it_and_that_it_is_whole(job: Path) -> None:
    command("create", job / "checkpoints", job / "sp")
    shown = lines(command("inspect", job / "sp"))
    assert shown[0].startswith("savepoint of orders after epoch 1: whole, 12 files, ")
    assert shown[1].startswith("taken at     2023-11-14 22:13:20 UTC, copied at ")
    assert shown[2:7] == [
        "watermark    none",
        "parallelism  2, of at most 128",
        'totals: {"keys": ["k"]}',
        'top: {"keys": ["n"], "rows": []}',
        "state after epoch 1",
    ]
    assert [row.split()[0] for row in shown[8:10]] == ["totals", "top"]
    assert all("21" in row.split() for row in shown[8:10])
    assert " ".join(shown[10:]).startswith("Entries are not live keys"), "the runs of two epochs share keys"


def test_inspect_names_what_is_damaged(job: Path) -> None:
    command("create", job / "checkpoints", job / "sp")
    run_file = next(file.path for file in read_savepoint(ObjectStore(job / "sp")).files if file.path.endswith(".sst"))
    os.truncate(job / "sp" / run_file, 3)
    result = command("inspect", job / "sp")
    assert result.exit_code == 1
    assert f"the savepoint is damaged: {run_file}: it has 3 bytes instead of" in result.stderr


def test_dispose_deletes_a_savepoint_and_tells_of_what_is_left(job: Path) -> None:
    command("create", job / "checkpoints", job / "sp")
    write_text(job / "sp", "notes.txt", "before the migration")
    assert lines(command("dispose", job / "sp")) == [
        "deleted 12 files, 4.0 KiB; files that are not of it, and are still there: 1",
        f"{job}/sp",
    ]
    again = command("dispose", job / "sp")
    assert (again.exit_code, "this is no savepoint" in again.stderr) == (2, True)


def test_a_folder_that_moved_is_given_as_it_was_and_as_it_is(job: Path) -> None:
    result = command("restore", job / "sp", job / "job.yaml", "--moved", "/data")
    assert result.exit_code == 2


@pytest.mark.spark
def test_restore_says_what_goes_on_and_what_begins(spark: SparkSession, tmp_path: Path) -> None:
    file = write_text(tmp_path, "job.yaml", JOB)
    write_json(tmp_path / "in", "history.json", [{"k": "a", "v": 1}, {"k": "b", "v": 2}])
    run(Job.from_file(file), spark, clock=ManualClock())
    lines(command("create", file, tmp_path / "sp"))
    write_json(tmp_path / "in", "later.json", [{"k": "b", "v": 3}])
    run(Job.from_file(file), spark, clock=ManualClock())
    into = ("--set", "execution.checkpointing.dir=./second")
    said = [
        f"shops goes on after epoch 0 of shops, in {tmp_path}/second",
        "  steps that go on      aggregate-1",
        "  outputs that go on    main; 1 later file or row rolled back",
        "start it with `mixedmode run`",
    ]
    assert lines(command("restore", tmp_path / "sp", file, *into)) == [f"restored: {said[0]}", *said[1:]]
    again = [f"was restored before: {said[0]}", said[1], "  outputs that go on    main", said[3]]
    assert lines(command("restore", tmp_path / "sp", file, *into)) == again
    changed = write_text(tmp_path, "changed.yaml", JOB.replace("sink: {format: parquet, path: out}\n", ADDED))
    assert lines(command("restore", tmp_path / "sp", changed, "--set", "execution.checkpointing.dir=./third")) == [
        f"restored: shops goes on after epoch 0 of shops, in {tmp_path}/third",
        "  steps that go on      aggregate-1",
        "  steps that are new    aggregate-2",
        "  outputs that are new  main",
        "  in the first epoch    aggregate-1 emits its whole table, for what is new downstream",
        "start it with `mixedmode run`",
    ]
