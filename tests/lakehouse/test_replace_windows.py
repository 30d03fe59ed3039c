"""Rows of windows in a table of a lakehouse are replaced in one commit, which no rollback undoes unnoticed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.checkpoint.types import Epoch, Generation
from mixedmode.connectors.lakehouse.sink import LakehouseSink
from mixedmode.errors import InvalidJobError
from mixedmode.sinks import SinkContext
from mixedmode.sinks.printed import print_rows
from mixedmode.time.window_range import WindowRange
from tests.lakehouse.tables import FORMATS, Format, rows_of, sink
from tests.staging import stage

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("window_start", TIME), ("window_end", TIME), ("k", pa.string()), ("n", pa.int64())])
KEY = ["window_start", "window_end", "k"]
HOURS_1_TO_3 = WindowRange(3_600_000_000, 3 * 3_600_000_000)
Row = tuple[int, str, int]


def table_of(rows: list[Row]) -> pa.Table:
    start = datetime(1970, 1, 1, tzinfo=UTC)
    hours = [timedelta(hours=hour) for hour, _, _ in rows]
    columns = [[start + one for one in hours], [start + one + timedelta(hours=1) for one in hours]]
    return pa.table([*columns, [k for _, k, _ in rows], [n for _, _, n in rows]], schema=SCHEMA)


def opened(spark: SparkSession, kind: Format, base: Path, keys: list[str], *, is_fresh: bool = True) -> LakehouseSink:
    context = SinkContext("lake", "", Generation(1), str(base / "c"), False, spark, print_rows)
    found = LakehouseSink(sink(kind, base / "db" / "out"), context)
    found.prepare(list(SCHEMA), keys, is_fresh=is_fresh)
    return found


def publish(found: LakehouseSink, base: Path, epoch: int, rows: list[Row], keys: list[str]) -> None:
    table = table_of(rows)
    if keys:
        table = table.append_column("_op", pa.array(["insert"] * len(rows)))
    found.publish(Epoch(epoch), stage(found.task, base / f"local-{epoch}", f"a{epoch}", table, epoch=epoch))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("keys", [[], KEY], ids=["append", "merge"])
def test_rows_of_the_windows_are_replaced_and_the_job_goes_on(
    spark: SparkSession, tmp_path: Path, kind: Format, keys: list[str]
) -> None:
    job = opened(spark, kind, tmp_path, keys)
    for epoch in range(3):
        publish(job, tmp_path, epoch, [(epoch, k, epoch) for k in "ab"], keys)
    beside = opened(spark, kind, tmp_path, keys, is_fresh=False)
    for _ in range(2):  # a repeat changes nothing more
        beside.replace_windows(table_of([(1, "a", 100), (2, "new", 200)]), HOURS_1_TO_3, Epoch(2))
    publish(job, tmp_path, 3, [(3, "a", 3)], keys)
    rows = [(row["k"], row["n"]) for row in rows_of(spark, kind, tmp_path / "db" / "out")]
    assert sorted(rows) == [("a", 0), ("a", 3), ("a", 100), ("b", 0), ("new", 200)]
    again = opened(spark, kind, tmp_path, keys, is_fresh=False)
    assert again.newest_published() == 3
    with pytest.raises(InvalidJobError, match="a backfill wrote commit"):
        again.roll_back(Epoch(1))
