"""Files with times of the calendar that Spark used before version 3 are left to Spark, which converts the times."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_expressions import OnlySparkError
from mixedmode.analysis.catalyst_queries import read_queries_of, read_query_of
from mixedmode.config.drift import Drift
from mixedmode.connectors.files.drift import parquet_rows
from mixedmode.connectors.files.parquet_files import read_files
from mixedmode.connectors.files.source import FileSource
from mixedmode.errors import InvalidJobError, LeftToSparkError
from mixedmode.job import Source
from mixedmode.plan.job_plan import ReadColumn

DAY_US = 86_400_000_000
EARLY, AGREED = -200_000, -25_567  # days: of the year 1422, and 1900-01-01
INSTANT = pa.timestamp("us", "UTC")
COLUMNS = [ReadColumn("d", pa.date32(), "d"), ReadColumn("t", INSTANT, "t")]
#: what Spark writes into a file, and whether its dates and its times of the type INT96 are of the old calendar
WRITERS: dict[str, tuple[Mapping[str, str], bool, bool]] = {
    "another program": ({}, False, False),
    "2.4.8": ({"version": "2.4.8", "timeZone": "UTC"}, True, True),
    "3.0.3": ({"version": "3.0.3", "timeZone": "UTC"}, False, True),
    "4.1.0": ({"version": "4.1.0"}, False, False),
    "old dates": ({"version": "4.1.0", "legacyDateTime": "", "timeZone": "America/Los_Angeles"}, True, False),
    "old INT96": ({"version": "4.1.0", "legacyINT96": "", "timeZone": "UTC"}, False, True),
}


def written(path: Path, writer: str, days: list[int | None], *, int96: bool = False) -> str:
    """A file of dates and of times at their midnights."""
    dates = pa.array(days, pa.int32()).cast(pa.date32())
    times = pa.array([None if day is None else day * DAY_US for day in days], pa.int64()).cast(INSTANT)
    table = pa.table({"d": dates, "t": times})
    metadata = {f"org.apache.spark.{name}": value for name, value in WRITERS[writer][0].items()}
    if metadata:
        table = table.replace_schema_metadata(metadata)
    pq.write_table(table, path, use_deprecated_int96_timestamps=int96)
    return str(path)


def read(path: str, columns: list[ReadColumn] = COLUMNS) -> list[list[int]]:
    table = pa.Table.from_batches(read_files([path], columns))
    return [column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64()).to_pylist() for column in table]


@pytest.mark.parametrize("int96", [False, True])
@pytest.mark.parametrize("writer", WRITERS)
def test_only_columns_of_the_old_calendar_with_early_values_are_left_to_spark(
    tmp_path: Path, writer: str, *, int96: bool
) -> None:
    _, old_dates, old_int96 = WRITERS[writer]
    are_old = (old_dates, old_int96 if int96 else old_dates)
    early = written(tmp_path / "early.parquet", writer, [EARLY, None, AGREED], int96=int96)
    later = written(tmp_path / "later.parquet", writer, [AGREED, None, 20_000], int96=int96)
    for column, is_old in zip(COLUMNS, are_old, strict=True):
        may_be_early = is_old and int96 and column.name == "t"  # INT96 has no statistics
        if may_be_early:
            with pytest.raises(LeftToSparkError):
                read(later, [column])
        else:
            per_day = 1 if column.name == "d" else DAY_US
            assert read(later, [column]) == [[AGREED * per_day, None, 20_000 * per_day]]
        if is_old:
            with pytest.raises(LeftToSparkError, match=f"^times of a former calendar, file={early}, column="):
                read(early, [column])
        else:
            assert len(read(early, [column])[0]) == 3


def test_a_file_that_is_left_to_spark_has_other_values_there(spark: SparkSession, tmp_path: Path) -> None:
    """One file for each writer; those that tasks read have the values of Spark's reader."""
    for number, (writer, int96) in enumerate(product(WRITERS, (False, True))):
        path = written(tmp_path / f"{number}.parquet", writer, [EARLY, AGREED, None], int96=int96)
        rows = spark.read.schema("d date, t timestamp").parquet(path).selectExpr("unix_date(d)", "unix_micros(t)")
        by_spark = [column.to_pylist() for column in rows.toArrow().columns]
        unchanged = [[EARLY, AGREED, None], [EARLY * DAY_US, AGREED * DAY_US, None]]
        try:
            assert read(path) == by_spark == unchanged, (writer, int96)
        except LeftToSparkError:
            assert by_spark != unchanged, (writer, int96)


def test_schema_drift_and_a_file_of_the_old_calendar_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", "2.4.8", [EARLY])
    schema = spark.createDataFrame([], "d date, t timestamp").schema
    files = spark.createDataFrame([(f"file:{path}", 1)], "path string, length long")
    with pytest.raises(Exception, match="only Spark's own reader can read a source file") as caught:
        parquet_rows(files, schema, Drift(wrong_type="nulls", declared=("d", "t"))).collect()
    assert "remove schema-drift. cause=times of a former calendar" in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.caseSensitive", "true"),
        ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"),
        ("spark.sql.parquet.int96RebaseModeInRead", "exception"),
        ("spark.sql.parquet.int96TimestampConversion", "true"),
        ("spark.sql.parquet.fieldId.read.enabled", "true"),
    ],
)
def test_files_are_left_to_spark_under_a_setting_of_its_reader(
    spark: SparkSession, tmp_path: Path, setting: str, value: str
) -> None:
    """With schema-drift, where Spark does not read, the setting is refused."""
    frame = spark.createDataFrame([], "d date")
    before = spark.conf.get(setting)
    spark.conf.set(setting, value)
    try:
        with pytest.raises(OnlySparkError, match=f"^{setting} is {value}$"):
            read_queries_of(frame, until=frame, may_leave=True)
        assert read_query_of(frame, until=frame).columns
        source = Source.parquet(tmp_path, schema="d date", schema_drift={"wrong-type": "nulls"})
        with pytest.raises(InvalidJobError, match=f"do not know this setting.*setting={setting}, value={value}$"):
            FileSource(spark, source, where="sources.t")
    finally:
        spark.conf.set(setting, str(before))
    assert read_queries_of(frame, until=frame, may_leave=True)
