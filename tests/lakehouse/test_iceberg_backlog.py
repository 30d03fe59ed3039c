"""Backlogs of Iceberg tables as people have them: rows were updated and deleted, files compacted, snapshots expired.

Each answer is computed in plain Python beside the table.
"""

import json
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.driver.events import EpochCommitted, EpochStarted, Event
from mixedmode.driver.run import RunOptions, run_job
from mixedmode.errors import RetryableError
from mixedmode.job import Job, Sink, Source
from tests.faults.in_process import dies_at
from tests.harness import Recording, Row, output_rows, run, write_json
from tests.lakehouse.tables import SALES, SPARK, LakeJob, beside, totals

MERGE_ON_READ = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read'"


class Maintained:
    """A table, and its rows in plain Python: {item: (shop, price)}."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark, self.name, self.rows = spark, beside(spark, path), dict[int, tuple[str, int]]()
        catalog, *parts = self.name.replace("`", "").split(".")
        self._call, self._table = f"CALL {catalog}.system", ".".join(parts)
        self._run(f"CREATE TABLE {self.name} ({SALES}) USING iceberg TBLPROPERTIES ({MERGE_ON_READ})")

    def add(self, rows: dict[int, tuple[str, int]]) -> None:
        self._run(f"INSERT INTO {self.name} VALUES {_values(rows)}")
        self.rows |= rows

    def merge(self, rows: dict[int, tuple[str, int]]) -> None:
        self._run(
            f"MERGE INTO {self.name} t USING (SELECT * FROM VALUES {_values(rows)} AS v(shop, item, price)) n "
            "ON t.item = n.item WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        self.rows |= rows

    def delete(self, item: int) -> None:
        self._run(f"DELETE FROM {self.name} WHERE item = {item}")
        del self.rows[item]

    def compact(self) -> None:
        self._run(f"{self._call}.rewrite_data_files(table => '{self._table}', options => map('rewrite-all', 'true'))")

    def expire(self) -> None:
        """Leave the newest snapshot only."""
        arguments = f"table => '{self._table}', retain_last => 1, older_than => TIMESTAMP '2100-01-01 00:00:00'"
        self._run(f"{self._call}.expire_snapshots({arguments})")

    def snapshots(self) -> list[str]:
        rows = self.spark.sql(f"SELECT operation FROM {self.name}.snapshots ORDER BY committed_at").collect()
        return [row.operation for row in rows]

    def answer(self) -> list[Row]:
        return totals([(shop, item, price) for item, (shop, price) in self.rows.items()])

    def _run(self, statement: str) -> None:
        self.spark.sql(statement).collect()


def _values(rows: dict[int, tuple[str, int]]) -> str:
    return ", ".join(f"('{shop}', {item}, {price})" for item, (shop, price) in rows.items())


@pytest.fixture
def lake(tmp_path: Path) -> LakeJob:
    return LakeJob(tmp_path, "iceberg")


def out(lake: LakeJob, mode: str) -> Path:
    return lake.checkpoints.parent / f"out-{mode}"


def counting(lake: LakeJob, mode: str, **settings: Any) -> Job:
    steps = lake.job(mode=mode, **settings).key_by("shop").aggregate(items="count(*)", income="sum(price)")
    return steps.write(Sink.parquet(out(lake, mode)))


def check(lake: LakeJob, mode: str, table: Maintained) -> None:
    assert sorted(output_rows(out(lake, mode)), key=lambda row: str(row["shop"])) == table.answer()


def test_a_table_with_changes_and_without_its_first_snapshots_is_read_in_all_modes(
    spark: SparkSession, lake: LakeJob
) -> None:
    """The driver dies before the backlog's commit, after which the table is changed again, and after a live commit."""
    table = Maintained(spark, lake.inputs)
    table.add({1: ("a", 1), 2: ("a", 2), 3: ("b", 4)})
    table.add({4: ("b", 8), 5: ("c", 16)})
    table.delete(2)
    table.merge({3: ("b", 32), 6: ("d", 64)})
    table.expire()
    assert table.snapshots() == ["overwrite"], "it has files of deleted rows, and its stream cannot begin"
    run(counting(lake, "batch"), spark)
    check(lake, "batch", table)

    dies_at(counting(lake, "mixed"), spark, "before-manifest", 0)
    table.merge({4: ("b", 128), 7: ("e", 256)})
    table.delete(5)
    assert table.snapshots()[-1] == "delete", "it adds no file"
    recording = run(counting(lake, "mixed"), spark, feed=[partial(table.add, {8: ("a", 512)}), partial(live, table)])
    assert [epoch.records for epoch in recording.committed] == [5, 1, 1]
    assert [flip.after_epoch for flip in recording.flips] == [0]
    check(lake, "mixed", table)

    table.add({10: ("d", 2048)})
    dies_at(counting(lake, "mixed"), spark, "after-manifest", 3)
    table.expire()
    table.add({11: ("f", 4096)})
    run(counting(lake, "mixed"), spark)
    check(lake, "mixed", table)

    lake.checkpoints = lake.checkpoints.with_name("streaming")
    limited = counting(lake, "streaming", source_settings={"max_files_per_epoch": 1})
    recording = run(limited, spark, feed=[partial(table.add, {12: ("a", 8192)})])
    assert [epoch.records for epoch in recording.committed] == [9, 1]
    (notice,) = {text for text in recording.notices if "at once" in text}
    assert notice.startswith("sources.sales: the first epoch reads the whole Iceberg table at once, whatever")
    check(lake, "streaming", table)


def test_a_catalog_with_a_cache_knows_what_others_have_committed(spark: SparkSession, lake: LakeJob) -> None:
    """A live query has a catalog of its own, whose cache keeps the table as it was in the epoch before."""
    table = Maintained(spark, lake.inputs)
    table.add({1: ("a", 1), 2: ("b", 2)})
    own = beside(spark, lake.inputs).replace("beside_", "cached_").replace("`", "")
    catalog, _, _ = own.partition(".")
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": str(lake.inputs.parents[1]),
    }
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{catalog}{key}", value)
    sources = {"sales": Source.iceberg(table=own)}
    job = Job("cached", sources=sources, mode="mixed", checkpoint_dir=lake.checkpoints, spark=SPARK)
    steps = job.key_by("shop").aggregate(items="count(*)", income="sum(price)").write(Sink.parquet(out(lake, "mixed")))
    stop, records, waiting = threading.Event(), list[int](), [3, 4, 5]

    def adds_more(event: Event) -> None:
        if not isinstance(event, EpochCommitted):
            return
        records.append(event.records)
        if waiting:
            number = waiting.pop(0)
            table.add({number: ("a", number)})
        else:
            stop.set()

    run_job(steps.spec, steps.where, RunOptions(observers=[adds_more], stop=stop, session=spark))
    assert records == [2, 1, 1, 1]
    check(lake, "mixed", table)


def live(table: Maintained) -> None:
    """A compaction between two commits adds no rows."""
    table.compact()
    table.add({9: ("c", 1024)})


GRAPH = """\
name: two
execution: {runtime-mode: mixed, checkpointing: {dir: ./checkpoints, interval: 50ms}}
parallelism: 2
spark: SPARK
sources:
  lake: {format: iceberg, path: ./db/in, computed-columns: {double: price * 2}}
  files: {format: json, path: ./files, schema: "shop string, item int, price bigint"}
steps:
  - {name: both, sql: "SELECT shop, item, price FROM lake UNION ALL SELECT shop, item, price FROM files"}
  - {name: shops, from: both, key-by: shop, aggregate: {items: count(*), income: sum(price)}}
  - {name: doubled, from: lake, sql: "SELECT item, double FROM lake WHERE price > 3"}
outputs:
  shops: {from: shops, format: parquet, path: ./shops}
  doubled: {from: doubled, format: parquet, path: ./doubled}
"""


def test_a_table_is_read_beside_other_sources_and_by_several_readers(spark: SparkSession, tmp_path: Path) -> None:
    """The rows of an epoch are those of its micro-batch, and those that lie between the table's offsets."""
    table, job = Maintained(spark, LakeJob(tmp_path, "iceberg").inputs), tmp_path / "job.yaml"
    job.write_text(GRAPH.replace("SPARK", json.dumps(SPARK)))
    table.add({1: ("a", 1), 2: ("b", 2), 3: ("a", 4)})
    table.merge({3: ("c", 8)})
    table.expire()
    in_files: list[Row] = []

    def put(shop: str, item: int, price: int) -> None:
        in_files.append({"shop": shop, "item": item, "price": price})
        write_json(tmp_path / "files", f"{item}.json", in_files[-1:])

    put("a", 100, 16)
    dies_at(Job.from_file(job), spark, "before-manifest", 0)
    put("z", 101, 32)
    table.merge({1: ("y", 64)})
    feed = [partial(table.add, {4: ("z", 128)}), partial(put, "a", 102, 256)]
    recording = run(Job.from_file(job), spark, feed=feed)
    assert [epoch.records for epoch in recording.committed] == [5, 1, 1]
    rows = [(shop, item, price) for item, (shop, price) in table.rows.items()]
    income = totals([*rows, *((row["shop"], row["item"], row["price"]) for row in in_files)])
    assert sorted(output_rows(tmp_path / "shops"), key=lambda row: str(row["shop"])) == income
    doubled = sorted((row["item"], row["double"]) for row in output_rows(tmp_path / "doubled"))
    assert doubled == sorted((item, 2 * price) for _, item, price in rows if price > 3)


def copying(lake: LakeJob, mode: str = "mixed", **settings: object) -> Job:
    return lake.job(mode=mode, source_settings=settings).sql("SELECT * FROM sales").write(Sink.parquet(out(lake, mode)))


def test_streaming_mode_reads_a_table_without_changes_commit_by_commit(spark: SparkSession, lake: LakeJob) -> None:
    """The limits lie between commits, also of one with more files than an epoch may have."""
    table = Maintained(spark, lake.inputs)
    table.add({1: ("a", 1)})
    files = spark.createDataFrame([("a", 2, 2), ("a", 3, 4), ("a", 4, 8)], SALES).repartition(3)
    files.writeTo(table.name).append()
    table.compact()
    table.add({5: ("a", 16)})
    dies_at(copying(lake, "streaming", max_files_per_epoch=2), spark, "after-manifest", 0)
    recording = run(copying(lake, "streaming", max_files_per_epoch=2), spark)
    assert [epoch.records for epoch in recording.committed if epoch.records] == [1], "the others were read before"
    assert sorted(row["price"] for row in output_rows(out(lake, "streaming"))) == [1, 2, 4, 8, 16]


def test_a_job_waits_for_the_first_snapshot_of_a_table(spark: SparkSession, lake: LakeJob) -> None:
    table = Maintained(spark, lake.inputs)
    recording = run(copying(lake), spark, feed=[partial(table.add, {1: ("a", 1)}), partial(table.add, {2: ("a", 2)})])
    assert [epoch.records for epoch in recording.committed if epoch.records] == [1, 1]
    run(copying(lake), spark)
    assert sorted(row["price"] for row in output_rows(out(lake, "mixed"))) == [1, 2]


def test_a_backlog_has_the_columns_that_the_table_has_now(spark: SparkSession, lake: LakeJob) -> None:
    """Columns were added and renamed, and one got a wider type, and no commit of rows came after that."""
    table = Maintained(spark, lake.inputs)
    table.add({1: ("a", 1)})
    for change in ("ADD COLUMN note string", "RENAME COLUMN price TO cents", "ALTER COLUMN item TYPE bigint"):
        spark.sql(f"ALTER TABLE {table.name} {change}").collect()
    feed = [partial(spark.sql, f"INSERT INTO {table.name} VALUES ('b', 2, 2, 'new')")]
    run(copying(lake), spark, feed=feed)
    rows = sorted(output_rows(out(lake, "mixed")), key=lambda row: str(row["shop"]))
    assert [{name: row[name] for name in ("shop", "item", "cents", "note")} for row in rows] == [
        {"shop": "a", "item": 1, "cents": 1, "note": None},
        {"shop": "b", "item": 2, "cents": 2, "note": "new"},
    ]


class Expiring(Recording):
    """Commits to a table when the first epoch begins, and removes all other snapshots."""

    def __init__(self, table: Maintained) -> None:
        super().__init__()
        self._table = table

    def tell(self, event: Event) -> None:
        super().tell(event)
        if isinstance(event, EpochStarted):
            self._table.add({2: ("a", 2)})
            self._table.expire()


def test_a_backlog_whose_snapshot_expires_before_it_is_read_is_repeated_by_the_next_start(
    spark: SparkSession, lake: LakeJob
) -> None:
    table = Maintained(spark, lake.inputs)
    table.add({1: ("a", 1)})
    with pytest.raises(RetryableError, match=r"sources\.sales: a snapshot of the Iceberg table has expired before its"):
        run(copying(lake), spark, observer=Expiring(table))
    run(copying(lake), spark)
    assert sorted(row["price"] for row in output_rows(out(lake, "mixed"))) == [1, 2]
