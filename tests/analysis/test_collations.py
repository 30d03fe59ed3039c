"""Text with a collation: no step takes it as input, whichever step and column it is; SQL and outputs may have it."""

from collections.abc import Callable
from pathlib import Path

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
