"""Text with a collation: no step takes it as input, whichever step and column it is; SQL and outputs may have it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source, Stream
from tests.harness import SPARK

pytestmark = pytest.mark.spark

Build = Callable[[Stream], Stream]
BYTES = ": a step compares text byte by byte"
PROCESS = "tests.driver.functions:Totals"
EXACT = "SELECT *, CAST(k AS STRING COLLATE UTF8_BINARY) AS b FROM previous"
LCASE = "SELECT *, b COLLATE UTF8_LCASE AS l FROM previous"


def analysed(spark: SparkSession, folder: Path, build: Build) -> list[str]:
    """Return the columns of the output.  `k` has a collation, `b` has none; `l` has the collation again."""
    (folder / "in").mkdir()
    source = Source.parquet(folder / "in", schema="k string collate UTF8_LCASE, v int, at timestamp", event_time="at")
    job = Job("collated", sources={"t": source}, mode="mixed", checkpoint_dir=folder / "checkpoints", spark=SPARK)
    complete = job.output("o", build(job.source("t").sql(EXACT)), Sink.parquet(folder / "out"))
    return [field.name for field in analyse(spark, complete.spec, complete.where).plan.results["o"].fields]


def plain(rows: Stream) -> Stream:
    return rows.sql("SELECT b, v, at FROM previous")


STEPS: dict[str, tuple[str, Build]] = {
    "key": ("key-by: k", lambda rows: rows.key_by("k").aggregate(n="count(*)")),
    "computed key": (
        "key-by: c",
        lambda rows: plain(rows).key_by("b COLLATE UTF8_LCASE AS c").aggregate(n="count(*)"),
    ),
    "argument": ("aggregate.n: k", lambda rows: rows.key_by("v").aggregate(n="count(distinct k)")),
    "one of the arguments": ("aggregate.m: k", lambda rows: rows.key_by("v").aggregate(n="max(v)", m="max(k)")),
    "order": ("top.order-by: b COLLATE", lambda rows: plain(rows).key_by("v").top(1, order_by="b COLLATE UTF8_LCASE")),
    "row of top": ("steps[1]: k", lambda rows: rows.key_by("v").top(1, order_by="v")),
    "key of deduplicate": ("key-by: k", lambda rows: rows.key_by("k").deduplicate(keep="any")),
    "row of deduplicate": ("steps[1]: k", lambda rows: rows.key_by("v").deduplicate(keep="any")),
    "process": ("steps[1]: k", lambda rows: rows.key_by("v").process(PROCESS, output="n int")),
    "declared output": (
        "output: k",
        lambda rows: plain(rows).key_by("v").process(PROCESS, output="k string collate UTF8_LCASE"),
    ),
    "async map": ("steps[1]: k", lambda rows: rows.key_by("v").async_map("tests.driver.functions:Ask", output="n int")),
    "left": ("left: k", lambda rows: rows.join(plain(rows), on="v", select=["left.v"])),
    "right": ("right: k", lambda rows: plain(rows).join(rows, on="v", select=["left.v"])),
    "co-process": ("left: k", lambda rows: rows.co_process(plain(rows), on="v", function=PROCESS, output="n int")),
    "broadcast": (
        "steps[2]",
        lambda rows: plain(rows).key_by("v").process(PROCESS, output="n int", broadcast={"r": rows.broadcast(key="v")}),
    ),
}


@pytest.mark.parametrize(("place", "build"), STEPS.values(), ids=STEPS)
def test_no_step_takes_text_with_a_collation(spark: SparkSession, tmp_path: Path, place: str, build: Build) -> None:
    with pytest.raises(InvalidJobError) as caught:
        analysed(spark, tmp_path, build)
    assert any(place in line.partition(BYTES)[0] and BYTES in line for line in str(caught.value).splitlines())


def test_a_key_of_an_output_has_no_collation(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match=BYTES):
        analysed(spark, tmp_path, lambda rows: plain(rows).key_by("b").aggregate(n="count(*)").sql(LCASE))


def test_sql_and_outputs_may_have_collations(spark: SparkSession, tmp_path: Path) -> None:
    written = analysed(spark, tmp_path, lambda rows: rows.sql("SELECT * FROM previous WHERE k = 'A'"))
    assert written == ["k", "v", "at", "b"]


def test_a_step_may_leave_columns_with_a_collation_alone(spark: SparkSession, tmp_path: Path) -> None:
    written = analysed(spark, tmp_path, lambda rows: rows.key_by("b").aggregate(n="count(*)"))
    assert written == ["b", "n"]


#: where SQL or DDL may name a collation
PLACES: dict[str, tuple[str, Build]] = {
    "sql": ("steps[1].sql: ", lambda rows: rows.sql("SELECT b COLLATE nowhere AS c FROM previous")),
    "key": ("steps[1].key-by: ", lambda rows: rows.key_by("b COLLATE nowhere AS c").aggregate(n="count(*)")),
    "argument": (
        "steps[1].aggregate.n: ",
        lambda rows: rows.key_by("v").aggregate(m="max(v + 1)", n="max(b COLLATE nowhere)"),
    ),
    "having": (
        "steps[1].having: ",
        lambda rows: rows.key_by("v").aggregate(n="count(*)", having="v || '' COLLATE nowhere = '1'"),
    ),
    "order": ("steps[2].top.order-by: ", lambda rows: plain(rows).key_by("v").top(1, order_by="b COLLATE nowhere")),
    "select": (
        "join.select: ",
        lambda rows: plain(rows).join(plain(rows), on="v", select=["left.b COLLATE nowhere AS c"]),
    ),
    "condition": (
        "join.condition: ",
        lambda rows: plain(rows).join(plain(rows), on="v", select=["left.v"], condition="left.b COLLATE nowhere = ''"),
    ),
    "output": (
        "steps[2].output: ",
        lambda rows: plain(rows).key_by("v").process(PROCESS, output="k string collate nowhere"),
    ),
}


@pytest.mark.parametrize(("place", "build"), PLACES.values(), ids=PLACES)
def test_a_collation_that_spark_does_not_know_is_a_mistake_of_the_job(
    spark: SparkSession, tmp_path: Path, place: str, build: Build
) -> None:
    """Spark raises an error of a class that PySpark does not know."""
    with pytest.raises(InvalidJobError) as caught:
        analysed(spark, tmp_path, build)
    (line,) = str(caught.value).splitlines()
    assert place in line
    assert "cause=The value nowhere does not represent a correct collation name. Suggested" in line


def test_nor_may_a_source_name_one(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    known: dict[str, Any] = {"schema": "k string", "computed_columns": {"c": "k COLLATE nowhere"}}
    unknown = {"schema": "k string collate nowhere"}
    for given, place in ((known, "sources.t.computed-columns.c: "), (unknown, "sources.t: the schema is not valid")):
        source = Source.parquet(tmp_path / "in", **given)
        job = Job("collated", sources={"t": source}, mode="batch", spark=SPARK)
        complete = job.key_by("k").aggregate(n="count(*)").write(Sink.parquet(tmp_path / "out"))
        with pytest.raises(InvalidJobError, match="cause=The value nowhere does not represent a correct") as caught:
            analyse(spark, complete.spec, complete.where)
        assert place in str(caught.value)
