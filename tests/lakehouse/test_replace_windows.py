"""Rows of windows in a table of a lakehouse are replaced in one commit, which no rollback undoes unnoticed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession

from mixedmode.checkpoint.types import Epoch, Generation
from mixedmode.connectors.lakehouse.delta import DeltaTable
from mixedmode.connectors.lakehouse.iceberg import IcebergTable
from mixedmode.connectors.lakehouse.sink import LakehouseSink
from mixedmode.connectors.lakehouse.table import LakeTable, Mark
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.sinks import SinkContext
from mixedmode.sinks.printed import print_rows
from mixedmode.time.window_range import Bound, ReplacedRows
from tests.lakehouse.tables import Format, rows_of, sink
from tests.staging import stage

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("window_start", TIME), ("window_end", TIME), ("k", pa.string()), ("n", pa.int64())])
KEY = ["window_start", "window_end", "k"]
HOURS_1_TO_3 = ReplacedRows(Bound("window_start", 3_600_000_000), Bound("window_end", 3 * 3_600_000_000))
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


@pytest.mark.parametrize(
    ("kind", "conflicts", "ends_well"),
    [
        pytest.param("delta", 2, True, marks=pytest.mark.soak),
        pytest.param("delta", 9, False, marks=pytest.mark.soak),
        ("iceberg", 2, True),
        ("iceberg", 9, False),
    ],
)
def test_a_commit_of_the_job_that_comes_in_between_does_not_end_a_backfill(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Format, conflicts: int, ends_well: bool
) -> None:
    job, epochs = opened(spark, kind, tmp_path, []), iter(range(1, 20))
    publish(job, tmp_path, 0, [(1, "a", 0), (5, "z", 0)], [])
    beside = opened(spark, kind, tmp_path, [], is_fresh=False)
    tables = {"delta": DeltaTable, "iceberg": IcebergTable}
    write = tables[kind].write

    def written(table: LakeTable, sql: str, mark: Mark) -> None:
        if mark.kind == "backfill" and (epoch := next(epochs)) <= conflicts:
            publish(job, tmp_path, epoch, [(5, "later", epoch)], [])
            msg = "Transaction conflict detected. a concurrent WRITE added data"
            raise SparkRuntimeException(msg)
        write(table, sql, mark)

    monkeypatch.setattr(tables[kind], "write", written)
    if ends_well:
        beside.replace_windows(table_of([(1, "new", 1)]), HOURS_1_TO_3, Epoch(0))
    else:
        with pytest.raises(RetryableError, match=r"Nothing was replaced.*pause the job.*a concurrent WRITE added data"):
            beside.replace_windows(table_of([(1, "new", 1)]), HOURS_1_TO_3, Epoch(0))
    rows = [row["k"] for row in rows_of(spark, kind, tmp_path / "db" / "out") if row["k"] != "later"]
    assert sorted(rows) == (["new", "z"] if ends_well else ["a", "z"])


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("delta", "append"),
        pytest.param("delta", "merge", marks=pytest.mark.soak),
        pytest.param("iceberg", "append", marks=pytest.mark.soak),
        ("iceberg", "merge"),
    ],
)
def test_rows_of_the_windows_are_replaced_and_the_job_goes_on(
    spark: SparkSession, tmp_path: Path, kind: Format, mode: str
) -> None:
    keys = KEY if mode == "merge" else []
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
