"""The same classes in Spark and here, over the same records: one record in each micro-batch of Spark."""

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from mixedmode.testing import FunctionHarness
from tests.operators.spark_processor import processors

pytestmark = pytest.mark.spark

SCHEMA = "k string, t timestamp, v bigint, words string"
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
RECORDS: list[dict[str, Any]] = [
    {"k": "a", "t": "2026-01-01T00:00:00Z", "v": 1, "words": "x"},
    {"k": None, "t": "2026-01-01T00:00:30Z", "v": None, "words": None},
    {"k": "a", "t": "2026-01-01T00:00:45Z", "v": 2, "words": "y x"},
    {"k": "a", "t": "2026-01-01T00:05:00Z", "v": -3, "words": "drop"},
    {"k": "b", "t": "2026-01-01T00:09:00Z", "v": 4, "words": ""},
]
#: {class: (output, time mode, form of the rows)}
CASES: Mapping[str, tuple[str, Any, Any]] = {
    "Everything": ("k string, text string", "EventTime", "row"),
    "PandasCount": ("k string, n int, total double, at timestamp, v int", "None", "pandas"),
    "Quiet": ("k string, at bigint, v bigint", "EventTime", "row"),
    "Words": ("k string, words array<string>, counts string", "None", "row"),
}


@pytest.fixture(scope="module")
def stream(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """A stream of which each micro-batch reads one record."""
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDER)
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    folder = tmp_path_factory.mktemp("in")
    for number, record in enumerate(RECORDS):
        file = folder / f"{number}.json"
        file.write_text(json.dumps(record), encoding="utf-8")
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    reader = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.json(str(folder)).withWatermark("t", "0 seconds")


def of_spark(stream: DataFrame, name: str, folder: Path) -> list[str]:
    output, time_mode, rows_as = CASES[name]
    grouped, processor = stream.groupBy("k"), getattr(processors, name)()
    call = grouped.transformWithStateInPandas if rows_as == "pandas" else grouped.transformWithState
    writer = call(processor, output, "append", time_mode).writeStream.format("memory").queryName(f"out_{name}")
    query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(240)
    finally:
        query.stop()
    return sorted(str(row.asDict()) for row in stream.sparkSession.table(f"out_{name}").collect())


def here(name: str) -> list[str]:
    output, time_mode, rows_as = CASES[name]
    harness = FunctionHarness(
        getattr(processors, name),
        key_by="k",
        schema=SCHEMA,
        output=output,
        event_time="t",
        out_of_orderness="0s",
        time_mode=time_mode,
        rows_as=rows_as,
    )
    for record in RECORDS:
        harness.feed([{**record, "t": datetime.fromisoformat(record["t"])}])
    return sorted(str(naive(row)) for row in harness.take())


def naive(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value for name, value in row.items()}


@pytest.mark.parametrize(
    "name", ["Everything", "PandasCount", *(pytest.param(name, marks=pytest.mark.soak) for name in ("Quiet", "Words"))]
)
def test_a_class_emits_the_rows_that_it_emits_in_spark(stream: DataFrame, name: str, tmp_path: Path) -> None:
    assert here(name) == of_spark(stream, name, tmp_path)
