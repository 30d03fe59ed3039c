"""Event times as `explain` tells them."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode import Job, Sink, Source
from mixedmode.analysis.job import analyse
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
