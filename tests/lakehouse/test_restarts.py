"""Starts after a death, and from a savepoint, with real tables: each epoch's rows are in the table once.

Starts after damage are in test_contract.py.
"""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.checkpoint.savepoint import create_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.driver.restoring import restore_savepoint
from mixedmode.job import Job
from tests.faults.in_process import dies_at
from tests.faults.processes import killed_at
from tests.harness import checkpoint_log, run
from tests.lakehouse.tables import SPARK, Format, LakeJob, add, rows_of, totals

FIRST = [("a", 1, 10), ("b", 1, 5)]
SECOND = [("a", 2, 1), ("b", 2, -5), ("c", 1, 3)]
THIRD = [("b", 1, 9), ("c", 2, 4)]


def shops(spark: SparkSession, lake: LakeJob) -> list[dict[str, object]]:
    return sorted(rows_of(spark, lake.kind, lake.out), key=lambda row: str(row["shop"]))


def test_a_savepoint_sets_the_table_back(spark: SparkSession, tmp_path: Path) -> None:
    """Here that of one format; test_sink.py sets back both."""
    kind: Format = "iceberg"
    lake = LakeJob(tmp_path, kind)
    add(spark, kind, lake.inputs, FIRST)
    lake.totals(spark)
    create_savepoint(checkpoint_log(lake.checkpoints), ObjectStore(str(tmp_path / "savepoint")), now_ms=1)
    add(spark, kind, lake.inputs, SECOND)
    lake.totals(spark)
    lake.checkpoints = tmp_path / "restored"
    job = lake.counting()
    restored = restore_savepoint(str(tmp_path / "savepoint"), job.spec, job.where, session=spark)
    assert (restored.outputs, restored.files_rolled_back) == (("",), 1)
    assert shops(spark, lake) == totals(FIRST)
    add(spark, kind, lake.inputs, THIRD)
    lake.totals(spark)
    assert shops(spark, lake) == totals([*FIRST, *SECOND, *THIRD])


JOB = """\
name: killed
execution.checkpointing: {interval: 50ms, dir: ./checkpoints}
parallelism: 1
spark: SPARK
sources:
  sales: {format: iceberg, path: ./db/in}
steps:
  - {key-by: shop, aggregate: {items: count(*), income: sum(price)}}
  - sql: SELECT * FROM previous WHERE income > 0
sink: {format: delta, path: ./db/out, mode: append}
"""


@pytest.mark.parametrize("is_killed", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_death_between_the_tables_commit_and_the_end_of_its_publication(
    spark: SparkSession, tmp_path: Path, jars: str, is_killed: bool
) -> None:
    """Of an append to Delta Lake, which nothing would keep from coming twice but the mark that is in the commit.

    The commit is a file, so a SIGKILL leaves the same behind as a death in this process.
    """
    folder = tmp_path / "a job"
    (folder / "db").mkdir(parents=True)
    (folder / "job.yaml").write_text(JOB.replace("SPARK", json.dumps({**SPARK, "jars": jars})))
    add(spark, "iceberg", folder / "db" / "in", FIRST)
    if is_killed:
        killed_at(folder / "job.yaml", "table-committed", 0)
    else:
        dies_at(Job.from_file(folder / "job.yaml"), spark, "table-committed", 0)
    assert list((folder / "checkpoints").glob("staged/_staging/*")), "the staged files are still there"
    add(spark, "iceberg", folder / "db" / "in", SECOND)
    run(Job.from_file(folder / "job.yaml"), spark)
    assert not list((folder / "checkpoints").glob("staged/_staging/*"))
    changes = [(row["shop"], row["_op"], row["_epoch"]) for row in rows_of(spark, "delta", folder / "db" / "out")]
    assert sorted(changes) == [
        ("a", "insert", 0),
        ("a", "update", 1),
        ("b", "delete", 1),
        ("b", "insert", 0),
        ("c", "insert", 1),
    ]
