"""Constant texts that Spark reads as times of the clock, such as 'today', are refused wherever the clock is."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK

pytestmark = pytest.mark.spark

CASTS = (
    "at > 'yesterday'",
    "CAST(at AS date) = 'today'",
    "to_date('tomorrow') > at",
    "at < CAST(concat('n', 'ow') AS timestamp)",
    "at < TIMESTAMP '2001-01-01' OR try_cast('now' AS timestamp_ntz) IS NULL",
)
LITERALS = ("at > TIMESTAMP 'now'", "date'today' > at", "at < TIMESTAMP_LTZ 'yesterday UTC'", 'at < DATE "tomorrow"')
CLOCK, START = "this reads the clock", "this is the time at which the job starts"


def job_of(folder: Path) -> Job:
    sources = {}
    for name in ("a", "b"):
        (folder / name).mkdir()
        sources[name] = Source.parquet(folder / name, schema="k int, n int, at timestamp", event_time="at")
    return Job("j", sources=sources, mode="mixed", checkpoint_dir=folder / "c", spark=SPARK)


def in_sql(job: Job, text: str) -> Job:
    return job.output("o", job.source("a").sql(f"SELECT k FROM previous WHERE {text}"), Sink.console())


def in_key(job: Job, text: str) -> Job:
    return job.output("o", job.source("a").key_by(f"{text} AS new").aggregate(n="count(*)"), Sink.console())


def in_argument(job: Job, text: str) -> Job:
    return job.output("o", job.source("a").key_by("k").aggregate(n=f"count_if({text})", m="max(n + 1)"), Sink.console())


def in_having(job: Job, text: str) -> Job:
    return job.output("o", job.source("a").key_by("k").aggregate(at="max(at)", having=text), Sink.console())


def in_select(job: Job, text: str) -> Job:
    rows = job.source("a").join(job.source("b"), on="k", select=["left.k", f"{text.replace('at', 'left.at', 1)} AS x"])
    return job.output("o", rows, Sink.console())


def problem(spark: SparkSession, job: Job) -> str:
    with pytest.raises(InvalidJobError) as caught:
        analyse(spark, job.spec, job.where)
    return str(caught.value)


@pytest.mark.parametrize("place", [in_sql, in_key, in_argument, in_having])
def test_a_text_that_is_a_time_of_the_clock_is_refused(
    spark: SparkSession, tmp_path: Path, place: Callable[[Job, str], Job]
) -> None:
    for number, text in enumerate((*CASTS, *LITERALS)):
        (tmp_path / str(number)).mkdir()
        found = problem(spark, place(job_of(tmp_path / str(number)), text))
        assert (CLOCK if text in CASTS else START) in found, text


def test_expressions_of_a_join_are_no_exception(spark: SparkSession, tmp_path: Path) -> None:
    assert CLOCK in problem(spark, in_select(job_of(tmp_path), "at > 'yesterday'"))


@pytest.mark.parametrize("text", ["at > 'epoch'", "k || '' = 'today'", "at > '2001-01-01'", "n = 1 -- 'now'\n"])
def test_other_texts_are_no_clock(spark: SparkSession, tmp_path: Path, text: str) -> None:
    job = in_sql(job_of(tmp_path), text)
    assert analyse(spark, job.spec, job.where).plan.results.keys() == {"o"}


def test_a_step_that_may_read_the_clock_may_have_such_a_text(spark: SparkSession, tmp_path: Path) -> None:
    job = job_of(tmp_path)
    rows = job.source("a").sql("SELECT k, at > 'yesterday' AS new FROM previous", clock="allowed")
    later = rows.sql("SELECT * FROM previous WHERE new")
    complete = job.output("o", later, Sink.console())
    assert analyse(spark, complete.spec, complete.where).plan.results.keys() == {"o"}
