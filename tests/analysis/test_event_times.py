"""Event times as `explain` tells them."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode import Job, Sink, Source
from mixedmode.analysis.job import analyse
from mixedmode.errors import InvalidJobError
from mixedmode.plan.explain import explain_plan
from tests.harness import SPARK


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date"])
def test_the_time_zone_of_an_event_time_is_told_where_the_column_has_none(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    source = Source.json(tmp_path / "in", schema=f"k string, Day {kind}", event_time="day")
    job = Job("days", sources={"t": source}, mode="batch", spark=SPARK).key_by("k").window(tumbling="1d")
    whole = job.aggregate(n="count(*)").write(Sink.parquet(tmp_path / "out"))
    text = explain_plan(whole.spec, analyse(spark, whole.spec, whole.where).plan, cores=2)
    zone = "" if kind == "timestamp" else " (local time in UTC)"
    assert f"\n  event time  Day{zone}, watermark 0s behind the newest\n" in text


#: sql before a step that goes by event time, over the sources t and u, and the dimension d
KEPT = (
    "SELECT k, at FROM t WHERE k <> 'a'",
    "SELECT k, CAST(at AS TIMESTAMP_NTZ) AS at FROM t",
    "WITH c AS (SELECT k, at AS moment FROM t) SELECT k, moment AS at FROM c UNION ALL SELECT k, moment FROM c",
    "SELECT x.k, x.at FROM (SELECT * FROM t LATERAL VIEW explode(array(1, 2)) AS n) x JOIN d ON x.k = d.k",
    "SELECT k, at FROM t UNION ALL SELECT k, late AS at FROM (SELECT k, day AS late FROM u)",
)
COMPUTED = (
    "SELECT k, from_utc_timestamp(at, 'America/New_York') AS at FROM t",
    "SELECT k, other AS at FROM t",
    "SELECT k, CAST(CAST(at AS DATE) AS TIMESTAMP) AS at FROM t",
    "SELECT k, at FROM t UNION ALL SELECT k, day - INTERVAL 1 HOUR AS at FROM u",
    "SELECT k, day - INTERVAL 1 HOUR AS at FROM u UNION ALL SELECT k, at FROM t",
    "WITH c AS (SELECT k, at - INTERVAL 1 HOUR AS at FROM t) SELECT k, at FROM c",
)


BERLIN = {**SPARK, "sql.session.timeZone": "Europe/Berlin"}  # where clocks are moved


def after_sql(base: Path, sql: str, spark: Mapping[str, str | int | float | bool] = SPARK) -> Job:
    """The rows of some sql over two sources and a dimension. The event time of t is a computed column."""
    t = Source.json(
        base,
        schema="k string, ms bigint, other timestamp",
        computed_columns={"at": "timestamp_millis(ms)"},
        event_time="at",
    )
    u = Source.json(base, schema="k string, day date", event_time="day")
    job = Job("times", sources={"t": t, "u": u}, mode="batch", spark=dict(spark))
    if " d " in sql:
        job = job.dimension("d", Source.json(base, schema="k string, name string"))
    return job.sql(sql)


def windows(rows: Job) -> Job:
    return rows.key_by("k").window(tumbling="1h").aggregate(n="count(*)").write(Sink.console())


@pytest.mark.spark
def test_sql_before_a_step_that_goes_by_event_time_keeps_that_of_the_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The watermark does not know another time: of one an hour earlier, every live record would be late."""
    for sql in KEPT:
        job = windows(after_sql(tmp_path, sql))
        (stage,) = analyse(spark, job.spec, job.where).plan.stages
        assert stage.event_time == "at", sql
    for sql in COMPUTED:
        job = windows(after_sql(tmp_path, sql))
        with pytest.raises(
            InvalidJobError, match=r"^steps\[1\]: the step goes by event time, and SQL computes another"
        ):
            analyse(spark, job.spec, job.where)
    for sql in KEPT:
        berlin = spark.newSession()
        berlin.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        job = windows(after_sql(tmp_path, sql, BERLIN))
        if "NTZ" in sql:  # of the two hours from 2 to 3 in October, the second one would become the first one
            with pytest.raises(InvalidJobError, match=r"SQL computes another time"):
                analyse(berlin, job.spec, job.where)
        else:
            analyse(berlin, job.spec, job.where)
    grouped = f"SELECT k, count(*) AS n FROM ({COMPUTED[0]}) GROUP BY k, window(at, '1 hour')"
    job = after_sql(tmp_path, grouped).write(Sink.console())
    with pytest.raises(InvalidJobError, match=r"steps\[0\]\.sql: the step goes by .* column=at, event_times=t\.at$"):
        analyse(spark, job.spec, job.where)


@pytest.mark.spark
def test_sql_may_compute_a_time_that_no_watermark_decides_about(spark: SparkSession, tmp_path: Path) -> None:
    rows = after_sql(tmp_path, COMPUTED[0])
    for step in (rows.key_by("k", "at").aggregate(n="count(*)"), rows.key_by("k").aggregate(last="last(at)")):
        job = step.write(Sink.console())
        assert analyse(spark, job.spec, job.where).plan.stages


@pytest.mark.spark
def test_sql_between_windows_keeps_the_time_of_the_first_ones(spark: SparkSession, tmp_path: Path) -> None:
    first = after_sql(tmp_path, KEPT[0]).key_by("k").window(tumbling="1h").aggregate(n="count(*)")
    for time, is_kept in (("window_time", True), ("window_end", False), ("date_trunc('DAY', window_time)", False)):
        job = windows(first.sql(f"SELECT k, n, {time} AS window_time FROM previous"))
        if is_kept:
            assert analyse(spark, job.spec, job.where).plan.stages[1].event_time == "window_time"
            continue
        with pytest.raises(InvalidJobError, match=r"^steps\[3\]: .* column=window_time, event_times=aggregate"):
            analyse(spark, job.spec, job.where)
