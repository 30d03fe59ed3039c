"""Tables as sources: where they start, what is refused, and a live query that goes on until it is stopped."""

import json
import threading
from datetime import UTC
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from mixedmode.driver.events import EpochCommitted
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.errors import InvalidJobError
from mixedmode.job import Sink
from mixedmode.sources.open import open_source
from mixedmode.sources.source import Admission, ChecksReading
from tests.harness import Feed, ManualClock, Recording, output_rows, run
from tests.lakehouse.tables import FORMATS, Format, LakeJob, add, beside, source

PIECES = [[("a", 1, 1)], [("a", 2, 2)], [("a", 3, 3)]]


def prices(lake: LakeJob) -> list[int]:
    return sorted(row["price"] for row in output_rows(lake.checkpoints.parent / "out"))


def copied(lake: LakeJob, spark: SparkSession, feed: Any = (), **settings: Any) -> Recording:
    """Run a job that only copies the source's rows to Parquet."""
    steps = lake.job(**settings).sql("SELECT * FROM sales")
    return run(steps.write(Sink.parquet(lake.checkpoints.parent / "out")), spark, feed=feed)


def second_commit(spark: SparkSession, lake: LakeJob) -> dict[str, dict[str, Any]]:
    """All ways to say that a table is read from its second commit on."""
    if lake.kind == "delta":
        rows = spark.sql(f"DESCRIBE HISTORY delta.`{lake.inputs}`").where("version = 1").collect()
        at = rows[0].timestamp.astimezone(UTC)
        return {"version": {"version": 1}, "timestamp": {"timestamp": f"{at:%Y-%m-%d %H:%M:%S.%f}"}}
    rows = spark.read.format("iceberg").load(f"{lake.inputs}#snapshots").orderBy("committed_at").collect()
    at = rows[1].committed_at.astimezone(UTC)
    return {"snapshot": {"snapshot": rows[1].snapshot_id}, "timestamp": {"timestamp": at.isoformat()}}


def batches(frame: DataFrame, folder: Path) -> list[list[int]]:
    """The prices of each micro-batch of a stream, until there is nothing new."""
    seen: list[list[int]] = []

    def see(batch: DataFrame, _: int) -> None:
        seen.append(sorted(row.price for row in batch.collect()))

    writer = frame.writeStream.foreachBatch(see).option("checkpointLocation", str(folder))
    writer.trigger(availableNow=True).start().awaitTermination()
    return seen


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_is_read_from_a_commit_on(spark: SparkSession, tmp_path: Path, kind: Format) -> None:
    lake = LakeJob(tmp_path, kind)
    for piece in PIECES:
        add(spark, kind, lake.inputs, piece)
    for name, start in second_commit(spark, lake).items():
        opened = open_source(spark, source(kind, lake.inputs, starting=start), where="sources.t")
        if kind == "iceberg":
            lake.checkpoints = tmp_path / name / "checkpoints"
            recording = copied(lake, spark, source_settings={"starting": start})
            assert ([epoch.records for epoch in recording.committed], prices(lake)) == ([2], [2, 3]), name
            assert sorted(row.price for row in opened.batch().collect()) == [2, 3]
        else:
            assert batches(opened.stream(Admission()), tmp_path / name) == [[2, 3]], name
            with pytest.raises(InvalidJobError, match=r"only as a stream, and batch mode has none. Remove `starting`"):
                opened.batch()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_frame_that_the_program_has_cached_is_not_read_in_place_of_the_table(
    spark: SparkSession, tmp_path: Path, kind: Format
) -> None:
    """The second commit is one of another program: after its own, Spark reads anew what it has cached."""
    table, first, both = (tmp_path / "db" / name for name in ("in", "first", "both"))
    add(spark, kind, table, PIECES[0])
    copytree(table, first)
    add(spark, kind, table, PIECES[1])
    table.rename(both)
    first.rename(table)
    cached = spark.read.format(kind).load(str(table)).cache()
    assert cached.count() == 1
    copytree(both, table, dirs_exist_ok=True)
    rows = open_source(spark, source(kind, table, bounded=True), where="sources.t").batch().collect()
    assert sorted(row.price for row in rows) == [1, 2]
    cached.unpersist()


def test_a_start_that_the_table_does_not_have_is_told(spark: SparkSession, tmp_path: Path) -> None:
    lake = LakeJob(tmp_path, "iceberg")
    add(spark, "iceberg", lake.inputs, PIECES[0])
    with pytest.raises(
        InvalidJobError, match=r"the table has no such snapshot.*starting.snapshot=1, snapshots=\[\d+\]"
    ):
        copied(lake, spark, source_settings={"starting": {"snapshot": 1}})
    with pytest.raises(InvalidJobError, match=r"this is no time of at most microseconds\. .*starting.timestamp=soon"):
        copied(lake, spark, source_settings={"starting": {"timestamp": "soon"}})
    with pytest.raises(
        InvalidJobError, match=r"which only batch mode can read\. Remove it, .*option=branch, place=ice"
    ):
        copied(lake, spark, source_settings={"options": {"branch": "main"}})


@pytest.mark.parametrize("kind", FORMATS)
def test_there_has_to_be_a_table(spark: SparkSession, tmp_path: Path, kind: Format) -> None:
    with pytest.raises(InvalidJobError, match=r"sources.sales: Spark cannot open this table\. Create it before"):
        copied(LakeJob(tmp_path, kind), spark)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_row_that_is_deleted_in_the_source_stops_the_job_unless_it_is_told_to_pass_over_it(
    spark: SparkSession, tmp_path: Path, kind: Format
) -> None:
    lake = LakeJob(tmp_path, kind)
    add(spark, kind, lake.inputs, [("a", 1, 1), ("b", 1, 2)])
    copied(lake, spark)
    delete(spark, lake)
    with pytest.raises(
        InvalidJobError, match=r"was changed by an update, a delete or a merge.*(skipChange|overwrite-s)"
    ):
        copied(lake, spark)
    add(spark, kind, lake.inputs, [("c", 1, 3)])
    option = "skipChangeCommits" if kind == "delta" else "streaming-skip-overwrite-snapshots"
    copied(lake, spark, source_settings={"options": {option: True}})
    assert prices(lake) == [1, 2, 3]


def delete(spark: SparkSession, lake: LakeJob) -> None:
    """A row of a file that keeps others."""
    if lake.kind == "delta":
        spark.sql(f"DELETE FROM delta.`{lake.inputs}` WHERE shop = 'b'")
    else:
        spark.sql(f"DELETE FROM {beside(spark, lake.inputs)} WHERE shop = 'b'")


def test_rows_that_come_back_into_a_table_are_not_read_twice(spark: SparkSession, tmp_path: Path) -> None:
    """A stream that skips the removal of rows takes a RESTORE, which only adds files, for new rows."""
    path = tmp_path / "in"
    add(spark, "delta", path, [("a", 1, 1)])
    for statement in ("TRUNCATE TABLE {}", "RESTORE TABLE {} TO VERSION AS OF 0"):
        spark.sql(statement.format(f"delta.`{path}`")).collect()

    def check(begin: str, end: int, starting: dict[str, Any] | None = None, **options: bool) -> None:
        opened = open_source(spark, source("delta", path, options=options, starting=starting), where="sources.sales")
        assert isinstance(opened, ChecksReading)
        opened.check_reading(begin, json.dumps({"reservoirVersion": end}))

    for option in ("skipChangeCommits", "ignoreDeletes"):
        with pytest.raises(InvalidJobError, match=r"the Delta table was set back \(RESTORE\).*version=2, "):
            check('{"reservoirVersion": 1}', 3, None, **{option: True})
    check('{"reservoirVersion": 3}', 4, skipChangeCommits=True)  # epochs after it
    check('{"reservoirVersion": 1}', 1, skipChangeCommits=True)  # and before it
    check("", 3, skipChangeCommits=True)  # a new job reads the table as it is
    beginnings: list[dict[str, Any]] = [{"version": 0}, {"timestamp": "2020-01-01 00:00:00"}]
    for starting in beginnings:  # but with `starting`, commit by commit
        with pytest.raises(InvalidJobError, match=r"a time after the RESTORE in `starting`, .*version=2, place="):
            check("", 3, starting, skipChangeCommits=True)
    check("", 3, {"version": 3}, skipChangeCommits=True)
    check("", 3, {"timestamp": "2100-01-01 00:00:00"}, skipChangeCommits=True)
    check('{"reservoirVersion": 1}', 3)  # Delta itself refuses the removal


def test_a_query_stops_when_columns_that_it_reads_are_other_ones(spark: SparkSession, tmp_path: Path) -> None:
    """Iceberg's stream reads on by the ids of the columns that it began with, and finds NULL in new files."""
    lake = LakeJob(tmp_path, "iceberg")
    add(spark, "iceberg", lake.inputs, PIECES[0])
    table = beside(spark, lake.inputs)

    def alter(*statements: str) -> None:
        for statement in statements:
            spark.sql(statement.format(table)).collect()

    feed: list[Feed] = [
        partial(alter, "ALTER TABLE {} ADD COLUMN more int", "INSERT INTO {} VALUES ('a', 2, 2, 7)"),
        partial(
            alter,
            "ALTER TABLE {} DROP COLUMN price",
            "ALTER TABLE {} ADD COLUMN price bigint AFTER item",
            "INSERT INTO {} VALUES ('a', 3, 3, 7)",
        ),
    ]
    stop = threading.Event()
    job = lake.job().sql("SELECT * FROM sales").write(Sink.parquet(tmp_path / "out"))
    recording = Recording(feed=feed, on_commit=lambda event: stop.set() if event.epoch == 2 else None)
    options = RunOptions(until=Until.STOPPED, observers=[recording], clock=ManualClock(), stop=stop, session=spark)
    with pytest.raises(InvalidJobError, match=r"columns of the Iceberg table were dropped.*columns=price, place=icebe"):
        run_job(job.spec, job.where, options)
    assert prices(lake) == [1, 2]
    copied_prices = lake.job().sql("SELECT shop, item, price FROM sales").write(Sink.parquet(tmp_path / "out"))
    run(copied_prices, spark)
    assert prices(lake) == [1, 2, 3]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_live_query_reads_what_comes(spark: SparkSession, tmp_path: Path, kind: Format) -> None:
    lake = LakeJob(tmp_path, kind)
    add(spark, kind, lake.inputs, [*PIECES[0], *PIECES[1]])
    stop = threading.Event()

    def stop_at_the_end(event: EpochCommitted) -> None:
        if event.epoch == 2:
            stop.set()

    pieces = [[("b", 1, 4)], [("b", 1, 5)]]
    feed: list[Feed] = [partial(add, spark, kind, lake.inputs, piece) for piece in pieces]
    recording = Recording(feed=feed, on_commit=stop_at_the_end)
    job = lake.job().sql("SELECT * FROM sales").write(Sink.parquet(tmp_path / "out"))
    options = RunOptions(until=Until.STOPPED, observers=[recording], clock=ManualClock(), stop=stop, session=spark)
    run_job(job.spec, job.where, options)
    assert [epoch.records for epoch in recording.committed] == [2, 1, 1]
    assert prices(lake) == [1, 2, 4, 5]
