"""Whole jobs over tables, against plain Python. Those in mixed mode are in test_contract.py."""

import re
import shutil
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.connectors.lakehouse.opening import open_table
from mixedmode.connectors.lakehouse.source import LakehouseSource
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.sources.versions import TableVersion
from tests.harness import manifests, output_changes, run
from tests.lakehouse.tables import (
    ICEBERG_BY_DEFAULT,
    SPARK,
    Format,
    LakeJob,
    add,
    beside,
    remove_old_versions,
    rows_of,
    source,
    totals,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "lakehouse.md"

HISTORY = [[("a", n, 10 * n) for n in range(4)], [("b", 1, 5), ("a", 9, -70)], [("c", 2, 7)]]
LIVE = [[("a", 1, 100), ("d", 1, 1), ("b", 1, -5)]]


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        pytest.param("streaming", "delta", marks=pytest.mark.soak),
        ("streaming", "iceberg"),
        pytest.param("batch", "delta", marks=pytest.mark.soak),
        pytest.param("batch", "iceberg", marks=pytest.mark.soak),
    ],
)
def test_totals_of_a_table_that_grows_are_merged_into_another(
    spark: SparkSession, tmp_path: Path, kind: Format, mode: str
) -> None:
    lake = LakeJob(tmp_path, kind, mode=mode)
    history = HISTORY[1:] if mode == "streaming" else HISTORY
    pieces = history if mode != "batch" else [*history, *LIVE]
    for piece in pieces:
        add(spark, kind, lake.inputs, piece)
    settings = {"max_files_per_epoch": 1} if mode == "streaming" else {"bounded": True} if mode == "batch" else {}
    feed = [lambda piece=piece: add(spark, kind, lake.inputs, piece) for piece in LIVE] if mode != "batch" else []
    recording = lake.totals(spark, feed, source_settings=settings)
    assert sorted(rows_of(spark, kind, lake.out), key=lambda row: row["shop"]) == totals(
        row for piece in [*history, *LIVE] for row in piece
    )
    counts = [epoch.records for epoch in recording.committed]
    assert counts == {"streaming": [2, 1, 3], "batch": [10]}[mode]


def test_the_job_of_the_document_reads_one_format_and_writes_the_other(spark: SparkSession, tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    (tmp_path / "job.yaml").write_text(found[1], encoding="utf-8")
    noon = datetime(2026, 1, 1, 12)  # noqa: DTZ001 - in the time zone of the session, which is not what this is about
    rows = [("a", noon, 5), ("b", noon, 1), ("a", noon, 2)]
    add(spark, "delta", tmp_path / "lake" / "orders", rows, "customer string, at timestamp, amount bigint")
    run(Job.from_file(tmp_path / "job.yaml"), spark)
    written = rows_of(spark, "iceberg", tmp_path / "lake" / "totals")
    assert sorted((row["customer"], row["orders"], row["revenue"]) for row in written) == [("a", 2, 7), ("b", 1, 1)]


def test_a_table_is_named_in_a_catalog_that_the_job_sets_up(spark: SparkSession, tmp_path: Path) -> None:
    catalog = {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(tmp_path),
    }
    for key, value in catalog.items():  # which a job that starts its own session has from its settings
        spark.conf.set(key, value)
    add(spark, "iceberg", tmp_path / "db" / "in", HISTORY[0])
    job = Job(
        "named",
        sources={"sales": Source.iceberg(table="lake.db.in")},
        checkpoint_dir=tmp_path / "checkpoints",
        spark={**SPARK, **catalog},
    )
    job = job.key_by("shop").aggregate(items="count(*)", income="sum(price)")
    job = job.write(Sink.iceberg(table="lake.db.out", partition_by=["shop"]))
    run(job, spark)
    add(spark, "iceberg", tmp_path / "db" / "in", HISTORY[2])
    run(job, spark)
    written = rows_of(spark, "iceberg", tmp_path / "db" / "out")
    assert sorted(written, key=lambda row: row["shop"]) == totals([*HISTORY[0], *HISTORY[2]])


def joined_with_shops(folder: Path, kind: Format) -> Job:
    """Sales, each with the region of its shop in a table that is a dimension."""
    job = Job(
        "joined",
        sources={"sales": source(kind, folder / "in")},
        checkpoint_dir=folder / "checkpoints",
        spark=SPARK,
    )
    job = job.dimension("shops", source(kind, folder / "shops"))
    job = job.sql("SELECT s.shop, t.region FROM sales s LEFT JOIN shops t ON s.shop = t.name")
    return job.write(Sink.parquet(folder / "out"))


@pytest.mark.parametrize("kind", ICEBERG_BY_DEFAULT)
def test_each_epoch_joins_the_version_of_a_table_that_is_the_newest(
    spark: SparkSession, tmp_path: Path, kind: Format
) -> None:
    ddl = "name string, region string"
    add(spark, kind, tmp_path / "shops", [("a", "north")], ddl)
    add(spark, kind, tmp_path / "in", HISTORY[1])
    job = joined_with_shops(tmp_path, kind)
    run(job, spark)
    add(spark, kind, tmp_path / "shops", [("b", "south")], ddl)
    for _ in range(2):
        add(spark, kind, tmp_path / "in", HISTORY[1])
        run(job, spark)
    after = [("a", "north"), ("b", "south")]
    assert [
        sorted((row["shop"], row["region"]) for row in output_changes(tmp_path / "out") if row["_epoch"] == epoch)
        for epoch in range(3)
    ] == [[("a", "north"), ("b", None)], after, after]
    first, second, third = (manifest.dimensions["shops"] for manifest in manifests(tmp_path / "checkpoints"))
    assert first != second == third
    assert all(name.startswith({"delta": "version ", "iceberg": "snapshot "}[kind]) for name in (first, second))


@pytest.mark.parametrize("kind", ICEBERG_BY_DEFAULT)
def test_an_epoch_whose_version_of_a_table_is_removed_meanwhile_reads_the_newest_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Format
) -> None:
    """Somebody compacts the table, and removes everything else at once, after the epoch has looked its version up."""
    ddl, place = "name string, region string", tmp_path / "shops"
    for row in (("a", "north"), ("b", "south")):
        add(spark, kind, place, [row], ddl)
    add(spark, kind, tmp_path / "in", HISTORY[1])
    job = joined_with_shops(tmp_path, kind)
    name = beside(spark, place) if kind == "iceberg" else f"delta.`{place}`"
    newest = LakehouseSource.newest

    def newest_once(table: LakehouseSource, session: SparkSession, before: TableVersion | None) -> TableVersion:
        found = newest(table, session, before)
        if not removed:
            removed.append(found.name)
            remove_old_versions(spark, kind, name)
        return found

    removed: list[str] = []
    monkeypatch.setattr(LakehouseSource, "newest", newest_once)
    run(job, spark)
    rows = sorted((row["shop"], row["region"]) for row in output_changes(tmp_path / "out"))
    assert rows == [("a", "north"), ("b", "south")]
    (manifest,) = manifests(tmp_path / "checkpoints")
    assert manifest.dimensions["shops"] not in removed


@pytest.mark.parametrize("kind", ICEBERG_BY_DEFAULT)
def test_versions_have_the_columns_with_which_the_run_began_or_are_refused(
    spark: SparkSession, tmp_path: Path, kind: Format
) -> None:
    """A column is added, without and with rows in it; a column is dropped; the table is created anew."""
    place = tmp_path / "db" / "shops"
    place.parent.mkdir()
    name = beside(spark, place) if kind == "iceberg" else f"delta.`{place}`"
    ddl = "name string, region string"
    mapping = {"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}
    add(spark, kind, place, [("a", "north")], ddl)
    if kind == "delta":
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in mapping.items())
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({properties})").collect()
    spark.sql(f"ALTER TABLE {name} ADD COLUMN id bigint").collect()
    shops = open_table(spark, source(kind, place), where="dimensions.shops")
    began = ["name", "region"] if kind == "iceberg" else ["name", "region", "id"]
    assert shops.version_schema.names == began, "a snapshot of Iceberg has the columns of its own time"
    assert shops.newest(spark, None).frame.columns == began
    spark.sql(f"ALTER TABLE {name} ADD COLUMN more string").collect()
    spark.sql(f"INSERT INTO {name} VALUES ('b', 'south', 7, 'x')").collect()
    newest = shops.newest(spark, None)
    assert newest.frame.columns == began
    assert sorted(row["name"] for row in newest.frame.collect()) == ["a", "b"]
    spark.sql(f"ALTER TABLE {name} DROP COLUMN region").collect()
    spark.sql(f"INSERT INTO {name} VALUES ('c', 8, 'y')").collect()
    with pytest.raises(InvalidJobError, match=r"^dimensions\.shops: the columns of the table are others than when"):
        shops.newest(spark, newest)


def test_a_table_of_delta_that_is_created_again_has_other_versions(spark: SparkSession, tmp_path: Path) -> None:
    place, ddl = tmp_path / "shops", "name string, region string"
    add(spark, "delta", place, [("a", "north")], ddl)
    shops = open_table(spark, Source.delta(place), where="dimensions.shops")
    before = shops.newest(spark, None)
    assert shops.newest(spark, before) is before
    shutil.rmtree(place)
    add(spark, "delta", place, [("a", "south")], ddl)
    after = shops.newest(spark, before)
    assert after.name != before.name
    assert [row["region"] for row in after.frame.collect()] == ["south"]


def test_the_newest_version_is_that_of_the_table_and_not_of_its_catalogs_cache(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A catalog of Iceberg keeps a table for 30 seconds after the last access, by default."""
    catalog = {
        "spark.sql.catalog.cached": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.cached.type": "hadoop",
        "spark.sql.catalog.cached.warehouse": str(tmp_path),
    }
    for key, value in catalog.items():
        spark.conf.set(key, value)
    ddl = "name string, region string"
    add(spark, "iceberg", tmp_path / "db" / "shops", [("a", "north")], ddl)
    shops = open_table(spark, Source.iceberg(table="cached.db.shops"), where="dimensions.shops")
    before = shops.newest(spark, None)
    assert shops.newest(spark, before) is before
    add(spark, "iceberg", tmp_path / "db" / "shops", [("b", "south")], ddl)  # by another catalog
    after = shops.newest(spark, before)
    assert after.name != before.name
    assert sorted(row["name"] for row in after.frame.collect()) == ["a", "b"]
