"""Tables in a test: made and read by Spark itself, beside the job."""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import SparkSession

from mixedmode.connectors.lakehouse.spec import TableSourceSpec
from mixedmode.driver.run import Until
from mixedmode.job import Job, Sink, Source
from tests import harness
from tests.harness import Feed, Recording, Row, run

Format = Literal["delta", "iceberg"]
FORMATS: tuple[Format, ...] = ("delta", "iceberg")
#: for what is the same code for both formats. A commit of Iceberg takes less time than one of Delta Lake
ICEBERG_BY_DEFAULT = [pytest.param("delta", marks=pytest.mark.soak), "iceberg"]
#: of an output: both modes of Iceberg, or all four in `make soak`
FORMATS_AND_MODES = [
    pytest.param("delta", "append", marks=pytest.mark.soak),
    pytest.param("delta", "merge", marks=pytest.mark.soak),
    ("iceberg", "append"),
    ("iceberg", "merge"),
]
#: a table's log in one task: more of them only cost time where it is a few entries
SPARK = {**harness.SPARK, "databricks.delta.snapshotPartitions": 1, "sql.shuffle.partitions": 1}
SALES = "shop string, item int, price bigint"


def add(spark: SparkSession, kind: Format, path: Path, rows: Iterable[tuple[Any, ...]], ddl: str = SALES) -> None:
    """One commit with these rows; the table is created by the first one."""
    frame = spark.createDataFrame(list(rows), ddl).coalesce(1)
    if kind == "delta":
        frame.write.format("delta").mode("append").save(str(path))
        return
    name = beside(spark, path)
    if path.exists():
        frame.writeTo(name).append()
    else:
        frame.writeTo(name).using("iceberg").create()


def beside(spark: SparkSession, path: Path) -> str:
    """The name of an Iceberg table in a catalog of the test's own; one keeps the settings it was first used with."""
    catalog = f"beside_{sha256(str(path).encode()).hexdigest()[:12]}"
    spark.conf.set(f"spark.sql.catalog.{catalog}", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{catalog}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{catalog}.cache-enabled", "false")
    spark.conf.set(f"spark.sql.catalog.{catalog}.warehouse", str(path.parent.parent))
    return f"{catalog}.`{path.parent.name}`.`{path.name}`"


def remove_old_versions(spark: SparkSession, kind: Format, name: str) -> None:
    """Compact the table, and remove everything else at once, as a maintenance job without a time to keep would."""
    if kind == "delta":
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        statements = [f"OPTIMIZE {name}", f"VACUUM {name} RETAIN 0 HOURS"]
    else:
        catalog, table = name.replace("`", "").split(".", 1)
        arguments = f"table => '{table}'", "options => map('rewrite-all', 'true')"
        expire = f"table => '{table}', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1"
        statements = [
            f"CALL {catalog}.system.rewrite_data_files({', '.join(arguments)})",
            f"CALL {catalog}.system.expire_snapshots({expire})",
        ]
    for statement in statements:
        spark.sql(statement).collect()


def rows_of(spark: SparkSession, kind: Format, path: Path) -> list[Row]:
    """All rows of a table, as anybody reads it."""
    return [row.asDict() for row in spark.newSession().read.format(kind).load(str(path)).collect()]


def source(kind: Format, path: Path, **settings: Any) -> TableSourceSpec:
    return Source.delta(path, **settings) if kind == "delta" else Source.iceberg(path, **settings)


def sink(kind: Format, path: Path, **settings: Any) -> Any:
    return Sink.delta(path, **settings) if kind == "delta" else Sink.iceberg(path, **settings)


class LakeJob:
    """A job from one table to another in a folder of a test."""

    def __init__(self, base: Path, kind: Format, **settings: Any) -> None:
        self.kind = kind
        (base / "db").mkdir()
        self.inputs, self.out, self.checkpoints = base / "db" / "in", base / "db" / "out", base / "checkpoints"
        self._settings = {"name": "lake", "mode": "mixed", "parallelism": 2, "spark": SPARK, **settings}

    def job(self, *, source_settings: dict[str, Any] | None = None, **settings: Any) -> Job:
        """Without steps."""
        given = {**self._settings, **settings}
        if given["mode"] != "batch":
            given |= {"checkpoint_dir": self.checkpoints, "checkpoint_interval": "50ms"}
        return Job(sources={"sales": source(self.kind, self.inputs, **(source_settings or {}))}, **given)

    def counting(self, **settings: Any) -> Job:
        """Income and items per shop, into the table `out`; shops without income are deleted."""
        steps = self.job(**settings).key_by("shop").aggregate(items="count(*)", income="sum(price)")
        return steps.sql("SELECT * FROM previous WHERE income > 0").write(sink(self.kind, self.out))

    def totals(self, spark: SparkSession, feed: Iterable[Feed] = (), **settings: Any) -> Recording:
        """Run the job that is counting."""
        return run(self.counting(**settings), spark, feed=feed, until=Until.IDLE)


def totals(rows: Iterable[tuple[Any, ...]]) -> list[Row]:
    """The answer of LakeJob.counting, in plain Python."""
    shops: dict[str, list[int]] = {}
    for shop, _, price in rows:
        shops.setdefault(shop, []).append(price)
    found: list[Row] = [
        {"shop": shop, "items": len(prices), "income": sum(prices)} for shop, prices in sorted(shops.items())
    ]
    return [row for row in found if row["income"] > 0]
