"""Dimensions on Spark: one answer in all modes while a table stays the same, and one version in each epoch when not."""

import shutil
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.checkpoint import paths
from mixedmode.driver.phases import Until
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from tests.checkpoint.folders import damage
from tests.faults.in_process import dies_at
from tests.harness import SPARK, Feed, manifests, output_changes, output_rows, run, write_json, write_text
from tests.services.fixtures import Database

pytestmark = pytest.mark.spark

Record = dict[str, Any]
EPOCHS = 3
#: the customer c3 is not in the table; orders of c0 come later in event time
ORDERS: list[list[Record]] = [
    [{"id": 10 * e + i, "customer": f"c{i % 4}", "at": f"2024-01-01T0{e + i % 3}:{10 + i}:00Z"} for i in range(9)]
    for e in range(EPOCHS)
]
CUSTOMERS = {"c0": "north", "c1": "south", "c2": "north", "c9": "west"}
TAXES = {"north": 7, "south": 19}
ENRICHED = "SELECT o.id, o.at, c.region FROM orders o LEFT JOIN customers c ON o.customer = c.name"


def write_orders(base: Path, epoch: int) -> Path:
    return write_json(base / "orders", f"{epoch}.json", ORDERS[epoch])


def write_customers(base: Path, regions: Mapping[str, str], name: str = "0.csv") -> None:
    write_text(base / "customers", name, "".join(f"{customer},{region}\n" for customer, region in regions.items()))


def shop(base: Path, mode: Any, **dimensions: Any) -> Job:
    """A job whose orders are JSON, and whose customers are CSV."""
    bounded = {"bounded": True} if mode == "batch" else {}
    orders = Source.json(base / "orders", schema="id long, customer string, at timestamp", event_time="at", **bounded)  # type: ignore[arg-type]
    customers = Source.csv(base / "customers", schema="name string, region string")
    job = Job(
        "shop",
        sources={"orders": orders},
        mode=mode,
        checkpoint_dir=None if mode == "batch" else base / "checkpoints",
        spark=SPARK,
    )
    for name, table in {"customers": customers, **dimensions}.items():
        if table is not None:
            job = job.dimension(name, table)
    return job


def with_three_outputs(base: Path, mode: Any) -> Job:
    """Enriched rows, hourly counts that meet a second dimension after the step, and a semi join."""
    job = shop(base, mode, taxes=Source.json(base / "taxes", schema="region string, tax long"))
    orders = job.source("orders")
    enriched = orders.sql(ENRICHED, name="enriched")
    hourly = enriched.key_by("region", name="hourly").window(tumbling="1h").aggregate(n="count(*)")
    taxed = hourly.sql("SELECT h.window_end, h.region, h.n, t.tax FROM hourly h JOIN taxes t USING (region)", name="t")
    known = orders.sql("SELECT id FROM orders WHERE customer IN (SELECT name FROM customers)", name="known")
    for name, stream in {"enriched": enriched, "taxed": taxed, "known": known}.items():
        job = job.output(name, stream, Sink.parquet(base / "out" / name))
    return job


def expected() -> dict[str, Counter[tuple[Any, ...]]]:
    orders = [order for epoch in ORDERS for order in epoch]
    hours = defaultdict[tuple[str, datetime], int](int)
    for order in orders:
        region = CUSTOMERS.get(order["customer"])
        if region in TAXES:
            hours[region, datetime(2024, 1, 1, int(order["at"][11:13]) + 1, tzinfo=UTC)] += 1
    return {
        "enriched": Counter((order["id"], CUSTOMERS.get(order["customer"])) for order in orders),
        "known": Counter((order["id"],) for order in orders if order["customer"] in CUSTOMERS),
        "taxed": Counter((region, end, n, TAXES[region]) for (region, end), n in hours.items()),
    }


def found(base: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    columns = {"enriched": "id region", "known": "id", "taxed": "region window_end n tax"}
    return {
        name: Counter(tuple(row[one] for one in names.split()) for row in output_rows(base / "out" / name))
        for name, names in columns.items()
    }


@pytest.mark.parametrize("mode", ["batch", pytest.param("streaming", marks=pytest.mark.soak), "mixed"])
def test_an_unchanged_dimension_gives_one_answer_in_all_modes(spark: SparkSession, tmp_path: Path, mode: Any) -> None:
    write_customers(tmp_path, CUSTOMERS)
    write_json(tmp_path / "taxes", "0.json", [{"region": region, "tax": tax} for region, tax in TAXES.items()])
    for epoch in range(EPOCHS if mode == "batch" else 1):
        write_orders(tmp_path, epoch)
    job = with_three_outputs(tmp_path, mode)
    if mode == "batch":
        run(job, spark)
    else:
        feed: list[Feed] = [partial(write_orders, tmp_path, epoch) for epoch in range(1, EPOCHS)]
        run(job, spark, until=Until.DRAINED, feed=feed)
        assert sum(manifest.records_in for manifest in manifests(tmp_path / "checkpoints")) == 9 * EPOCHS
    assert found(tmp_path) == expected()


def regions_of(base: Path) -> list[dict[int, str | None]]:
    """The region of each order, by epoch."""
    epochs = defaultdict[int, dict[int, str | None]](dict)
    for row in output_changes(base / "out"):
        epochs[row["_epoch"]][row["id"]] = row["region"]
    return [epochs[epoch] for epoch in sorted(epochs)]


def test_each_epoch_reads_one_version_and_a_repeat_the_newest_one(spark: SparkSession, tmp_path: Path) -> None:
    """The job gets its dimension after the backlog, and it changes after the driver has died before a commit."""
    versions = [{"c1": "b", "c3": "b"}, {"c1": "c", "c2": "c"}]
    write_orders(tmp_path, 0)
    without = shop(tmp_path, "mixed", customers=None).sql("SELECT id, at, 'none' AS region FROM orders")
    run(without.write(Sink.parquet(tmp_path / "out")), spark)
    write_customers(tmp_path, versions[0])
    job = shop(tmp_path, "mixed").sql(ENRICHED, name="enriched").write(Sink.parquet(tmp_path / "out"))
    write_orders(tmp_path, 1)
    dies_at(job, spark, "before-manifest", 1)
    write_customers(tmp_path, versions[1])
    run(job, spark)
    first, second = [dict(manifest.dimensions) for manifest in manifests(tmp_path / "checkpoints")]
    assert first == {}
    assert second["customers"].startswith("1 file, 10 bytes, ")
    assert regions_of(tmp_path) == [
        {order["id"]: "none" for order in ORDERS[0]},
        {order["id"]: versions[1].get(order["customer"]) for order in ORDERS[1]},
    ]


def test_after_going_back_an_epoch_is_joined_with_the_table_of_then(spark: SparkSession, tmp_path: Path) -> None:
    """The newest manifest is damaged, and the table has changed since. No row of the epoch is there twice."""
    versions = [{"c1": "b"}, {"c1": "c", "c2": "c"}]
    write_customers(tmp_path, versions[0])
    write_orders(tmp_path, 0)
    job = shop(tmp_path, "mixed").sql(ENRICHED, name="enriched").write(Sink.parquet(tmp_path / "out"))
    run(job, spark, feed=[partial(write_orders, tmp_path, 1)])
    before = manifests(tmp_path / "checkpoints")
    damage(tmp_path / "checkpoints" / paths.manifest_path(before[-1].epoch), "cut", where=300)
    write_customers(tmp_path, versions[1])
    run(job, spark)
    assert regions_of(tmp_path) == [
        {order["id"]: versions[epoch].get(order["customer"]) for order in ORDERS[epoch]} for epoch in (0, 1)
    ]
    after = [dict(manifest.dimensions) for manifest in manifests(tmp_path / "checkpoints")]
    assert after[0] == dict(before[0].dimensions)
    assert after[-1] != dict(before[-1].dimensions)


@pytest.mark.soak
def test_epochs_of_a_job_with_map_steps_see_a_change(spark: SparkSession, tmp_path: Path) -> None:
    """A table that is joined before a map step, between two of them, and before the window."""
    write_orders(tmp_path, 0)
    write_customers(tmp_path, {"c1": "a"})
    mapped = "tests.driver.map_functions:Passing"
    columns = "id bigint, at timestamp, region string"
    job = (
        shop(tmp_path, "mixed")
        .sql(ENRICHED)
        .map(mapped, output=columns)
        .sql("SELECT p.* FROM previous p LEFT JOIN customers c ON p.region = c.region")
        .map(mapped, output=columns)
        .sql("SELECT p.* FROM previous p WHERE EXISTS (SELECT 1 FROM customers c WHERE p.region = c.region)")
        .key_by("region")
        .window(tumbling="1h")
        .aggregate(n="count(*)")
        .write(Sink.parquet(tmp_path / "out"))
    )

    def change() -> None:
        write_customers(tmp_path, {"c1": "b"})
        write_orders(tmp_path, 1)

    feed: list[Feed] = [change, lambda: write_orders(tmp_path, 2)]
    run(job, spark, until=Until.DRAINED, feed=feed)
    counts = Counter[str]()
    for row in output_rows(tmp_path / "out"):
        counts[row["region"]] += row["n"]
    of_c1 = [sum(order["customer"] == "c1" for order in orders) for orders in ORDERS]
    assert counts == {"a": of_c1[0], "b": of_c1[1] + of_c1[2]}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM orders", "dimensions.customers: no sql step joins this dimension. Join it by its name, or"),
        ("SELECT name FROM customers", "a sql step is a SELECT over a source or over the step before it"),
        ("SELECT o.id FROM orders o JOIN custommers c ON true", "custommers"),
        ("SELECT o.id, c.region FROM orders o FULL JOIN customers c ON o.customer = c.name", "found=FullOuter join"),
        ("SELECT o.id, c.region FROM orders o RIGHT JOIN customers c ON o.customer = c.name", "found=RightOuter join"),
        ("SELECT customer FROM orders UNION ALL SELECT name FROM customers", "found=UNION of an input and other rows"),
        ("SELECT o.id FROM orders o JOIN (SELECT DISTINCT region FROM customers) c", "store the rows that it returns"),
    ],
)
def test_sql_that_would_emit_rows_of_the_dimension_is_refused(
    spark: SparkSession, tmp_path: Path, sql: str, message: str
) -> None:
    write_orders(tmp_path, 0)
    write_customers(tmp_path, CUSTOMERS)
    job = shop(tmp_path, "mixed").sql(sql).write(Sink.parquet(tmp_path / "out"))
    with pytest.raises(InvalidJobError) as caught:
        analyse(spark, job.spec, job.where)
    assert message in str(caught.value)


def test_a_dimension_cannot_be_joined_to_rows_that_change(spark: SparkSession, tmp_path: Path) -> None:
    write_orders(tmp_path, 0)
    write_customers(tmp_path, CUSTOMERS)
    totals = shop(tmp_path, "mixed").key_by("customer", name="totals").aggregate(n="count(*)")
    job = totals.sql("SELECT t.*, c.region FROM totals t JOIN customers c ON t.customer = c.name")
    job = job.write(Sink.parquet(tmp_path / "out"))
    with pytest.raises(InvalidJobError, match=r"^steps\[1\].sql: rows of these steps change, .* steps=totals$"):
        analyse(spark, job.spec, job.where)


def test_a_dimension_that_cannot_be_opened_is_one_message(spark: SparkSession, tmp_path: Path) -> None:
    write_orders(tmp_path, 0)
    job = (
        shop(tmp_path, "mixed").sql(ENRICHED).sql("SELECT nothing FROM previous").write(Sink.parquet(tmp_path / "out"))
    )
    shutil.rmtree(tmp_path / "customers", ignore_errors=True)
    with pytest.raises(InvalidJobError) as caught:
        analyse(spark, job.spec, job.where)
    assert str(caught.value).startswith("dimensions.customers: there is no such file or directory.")
    assert "\n" not in str(caught.value)


def test_a_table_of_postgresql_is_read_once_in_each_epoch(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    """Two stages of an epoch see the same rows, and a later epoch sees the rows of then."""
    import psycopg

    def put(regions: Mapping[str, str]) -> Path:
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute(b"CREATE TABLE IF NOT EXISTS customers (name text, region text, since timestamptz)")
            connection.execute(b"TRUNCATE customers")
            for row in regions.items():
                connection.execute("INSERT INTO customers VALUES (%s, %s)", row)
        return write_orders(tmp_path, len(list((tmp_path / "orders").glob("*"))))

    put({"c0": "a", "c1": "a"})
    table = Source.postgres(database.url, "customers", columns=["name", "region"], replay="latest")
    job = shop(tmp_path, "mixed", customers=table).sql(ENRICHED, name="enriched").write(Sink.parquet(tmp_path / "out"))
    run(job, spark, until=Until.DRAINED, feed=[partial(put, {"c1": "b", "c2": "b"})])
    assert [set(epoch.values()) for epoch in regions_of(tmp_path)] == [{"a", None}, {"b", None}]
    named = [
        manifest.dimensions["customers"] for manifest in manifests(tmp_path / "checkpoints") if manifest.records_in
    ]
    assert [name.partition(",")[0] for name in named] == ["2 rows", "2 rows"]
    assert named[0] != named[1]
