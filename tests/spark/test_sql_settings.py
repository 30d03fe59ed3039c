"""Settings that decide what SQL computes are part of a step that retracts rows by computing them again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.job import Job, Sink, Source
from mixedmode.plan.fingerprint import Fingerprint
from mixedmode.spark.sql_settings import sql_settings

pytestmark = pytest.mark.spark

#: (setting, another value than in these tests, what it computes otherwise, over the columns k, s and at)
DECISIVE = [
    ("ansi.enabled", "false", "s / (s - s)"),
    ("session.timeZone", "Asia/Tokyo", "hour(at)"),
    ("decimalOperations.allowPrecisionLoss", "false", "cast(s AS decimal(38, 10)) / cast(3 AS decimal(38, 10))"),
    ("function.concatBinaryAsString", "true", "concat(cast('a' AS binary), cast('b' AS binary))"),
    ("jsonGenerator.ignoreNullFields", "false", "to_json(named_struct('a', cast(NULL AS int)))"),
    ("legacy.timeParserPolicy", "LEGACY", "date_format(at, 'uuuu')"),
    ("legacy.negativeIndexInArrayInsert", "true", "array_insert(array(1, 2, 3), -1, 4)"),
    ("mapKeyDedupPolicy", "LAST_WIN", "map(1, 2, 1, s)"),
    ("parser.escapedStringLiterals", "true", r"'a\tb'"),
    ("timestampType", "TIMESTAMP_NTZ", "to_timestamp('2024-01-01')"),
]
FREE = ["shuffle.partitions", "files.maxPartitionBytes", "autoBroadcastJoinThreshold"]


@contextmanager
def setting(session: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set a setting of Spark SQL for a block."""
    before = session.conf.get(name, None)
    session.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, before)


@pytest.mark.parametrize(("name", "value", "expression"), DECISIVE)
def test_a_setting_with_which_sql_computes_something_else_is_compared(
    spark: SparkSession, name: str, value: str, expression: str
) -> None:
    usual, text = sql_settings(spark), computed(spark, expression)
    with setting(spark, f"spark.sql.{name}", value):
        other = sql_settings(spark)
        assert computed(spark, expression) != text, "it is no example"
    assert {key for key in {*usual, *other} if usual.get(key) != other.get(key)} == {f"sql.{name}"}
    assert sql_settings(spark) == usual


@pytest.mark.parametrize("name", FREE)
def test_a_setting_of_how_sql_runs_is_free(spark: SparkSession, name: str) -> None:
    usual = sql_settings(spark)
    with setting(spark, f"spark.sql.{name}", "12345"):
        assert sql_settings(spark) == usual


@pytest.mark.parametrize(("name", "default"), [("caseSensitive", "False"), ("legacy.timeParserPolicy", "CORRECTED")])
def test_a_setting_with_its_default_is_as_if_it_were_not_set(spark: SparkSession, name: str, default: str) -> None:
    usual = sql_settings(spark)
    with setting(spark, f"spark.sql.{name}", default):
        assert sql_settings(spark) == usual


def computed(session: SparkSession, expression: str) -> str:
    """The type and the value of an expression as text, or the condition of the error that it raises."""
    row = "SELECT 'a' AS k, 7L AS s, timestamp_seconds(0) AS at"
    try:
        frame = session.sql(f"SELECT {expression} AS it FROM ({row})")
        return f"{frame.schema['it'].dataType.simpleString()} {frame.collect()[0].it}"
    except PySparkException as error:
        return str(error.getCondition())


def test_only_steps_that_retract_rows_have_them(spark: SparkSession, tmp_path: Path) -> None:
    usual = fingerprints(spark, tmp_path)
    with setting(spark, "spark.sql.session.timeZone", "Asia/Tokyo"):
        other = fingerprints(spark, tmp_path)
    changed = {name for name in usual if usual[name] != other[name]}
    assert changed == {"by_hour", "upsert-hours"}, "the rows of by_day are only added"


def fingerprints(session: SparkSession, folder: Path) -> Mapping[str, Fingerprint]:
    (folder / "in").mkdir(exist_ok=True)
    source = Source.parquet(folder / "in", schema="k string, v bigint, at timestamp", event_time="at")
    job = Job("settings", sources={"t": source}, mode="batch")
    sums = job.source("t").key_by("k").aggregate(s="sum(v)", newest="max(at)")
    hours = sums.sql("SELECT k, s, hour(newest) AS h FROM previous")
    by_hour = hours.key_by("h", name="by_hour").aggregate(n="count(*)")
    by_day = job.source("t").sql("SELECT to_date(at) AS day FROM previous")
    days = by_day.key_by("day", name="by_day").aggregate(n="count(*)")
    for name, stream in {"hours": hours, "hourly": by_hour, "daily": days}.items():
        job = job.output(name, stream, Sink.parquet(folder / name))
    return analyse(session, job.spec, job.where).plan.fingerprints
