"""The readings of a query whose tasks read files are those of the query in which Spark reads the rows."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.config import SinkSpec
from mixedmode.driver.inputs import Inputs
from mixedmode.job import Job, Sink, Source, Stream
from mixedmode.plan.readings import readings
from mixedmode_bench.nexmark import WORKLOADS
from mixedmode_bench.nexmark.files import write_events
from mixedmode_bench.nexmark.generator import Settings

#: queries of Nexmark that join steps, sources, or both, and that have several readers of one source, and dimensions
QUERIES = ("q2", "q3", "q4", "q5", "q7", "q8", "q11", "q13", "q20", "q23")


def checked(job: Job, spark: SparkSession) -> bool:
    """Compare both ways to find the readings of a job. Return whether the plan alone tells them."""
    analysis = analyse(spark, job.spec, job.where)
    assert analysis.plan.is_all_listed, analysis.plan.by_spark
    found = readings(analysis.plan)
    by_spark = Inputs(spark, job.spec, analysis.plan, analysis.sources).readings_of_rows()
    assert found is None or list(found) == list(by_spark)
    return found is not None


@pytest.mark.spark
def test_nexmark_reads_as_often_and_in_the_order_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    write_events(tmp_path / "data", 200, Settings(), files=1)
    told = {}
    for query in QUERIES:
        workload = WORKLOADS[f"nexmark-{query}"]
        told[query] = checked(workload.job(tmp_path / "data", tmp_path / query, "mixed"), spark)
    assert {query for query, is_told in told.items() if is_told} == set(QUERIES) - {"q7", "q23"}


@pytest.mark.spark
def test_graphs_with_unions_and_steps_read_as_often_and_in_the_order_of_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    told = {}
    for name in ("union", "two unions", "renamed", "twice", "with a step"):
        folder = tmp_path / name
        for source in ("a", "b"):
            (folder / source).mkdir(parents=True)
        told[name] = checked(graph(folder, name), spark)
    assert told == {"union": False, "two unions": True, "renamed": True, "twice": True, "with a step": False}


def graph(folder: Path, kind: str) -> Job:
    """Jobs over two sources."""
    sources = {name: Source.parquet(folder / name, schema="k int, v long") for name in ("a", "b")}
    job = Job("j", sources=sources, mode="mixed", checkpoint_dir=folder / "c")
    a, b = job.source("a"), job.source("b")
    match kind:
        case "union":
            sql = "SELECT * FROM b UNION ALL SELECT * FROM a UNION ALL SELECT k + 1, v FROM b"
            rows: Stream = a.sql(sql, others=[b], name="rows")
        case "two unions":
            rows = a.sql("SELECT * FROM a UNION ALL SELECT k, v + 1 FROM a WHERE k > 3", name="rows")
            job = job.output("b", b.sql("SELECT * FROM b UNION ALL SELECT * FROM b", name="more"), sink(folder, "b"))
        case "renamed":
            again = b.sql("SELECT k, v AS w FROM b", name="again").sql("SELECT k, w + 1 AS w FROM again", name="more")
            rows = again.join(a, on="k", select=["left.k", "left.w AS v"], name="rows")
        case "twice":
            rows = a.join(a.sql("SELECT k, v + 1 AS v FROM a", name="other"), on="k", select=["left.k", "right.v"])
            job = job.output("b", b.join(a, on="k", select=["left.k", "right.v"], name="both"), sink(folder, "b"))
        case _:
            sums = b.key_by("k", name="sums").aggregate(v="sum(v)")
            rows = a.join(sums, on="k", select=["left.k", "right.v"], name="rows")
    counted = rows.key_by("k", name="counted").aggregate(n="count(*)")
    return job.output("rows", counted, sink(folder, "rows"))


def sink(folder: Path, name: str) -> SinkSpec:
    return Sink.parquet(folder / "out" / name)
