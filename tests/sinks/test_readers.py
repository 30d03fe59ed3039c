"""Outputs as others read them: Spark, pyarrow and DuckDB see the rows that were written, partitions as columns."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from mixedmode.checkpoint.types import Epoch
from mixedmode.config.partitions import parse_partition
from mixedmode.connectors.files.compact import compact_output
from mixedmode.connectors.files.sink import FileSink
from mixedmode.sinks.files import FileFormat, FileLayout
from mixedmode.sinks.partitions import NULL_FOLDER
from mixedmode.sinks.table import current_table, output_files
from tests.staging import stage

FIELDS = [
    pa.field("country", pa.string()),
    pa.field("shop", pa.int64()),
    pa.field("at", pa.timestamp("us", "UTC")),
    pa.field("note", pa.string()),
    pa.field("amount", pa.float64()),
]
COUNTRIES = ["DE", None, "a b", "x/y", "50%", "a=b", 'q"', "ü", "__HIVE_DEFAULT_PARTITION__", "#:*?'\\", "[]{}^"]
ROWS: list[dict[str, Any]] = [
    {
        "country": country,
        "shop": shop,
        "at": datetime(2024, 5, 1 + shop, 23, 59, 59, 5, UTC),
        "note": note,
        "amount": amount,
    }
    for country in COUNTRIES
    for shop, note, amount in ((1, 'say "a", b', 0.5), (2, None, -1.0), (2, "", None))
]
Read = list[tuple[Any, ...]]


def write(folder: Path, file_format: FileFormat, layout: FileLayout) -> str:
    url = str(folder / "out")
    sink = FileSink("job", url, file_format, replaces=False, layout=layout, marks_epochs=True)
    sink.prepare(FIELDS, [], is_fresh=True)
    for epoch, rows in enumerate((ROWS[::2], ROWS[1::2])):
        table = pa.Table.from_pylist(rows, pa.schema(FIELDS))
        sink.publish(Epoch(epoch), stage(sink.task, folder / f"local{epoch}", f"a{epoch}", table, epoch=epoch))
    return url


def expected() -> Read:
    return in_order((row["country"], row["shop"], row["at"].date(), row["note"], row["amount"]) for row in ROWS)


def in_order(rows: Any) -> Read:
    return sorted(rows, key=repr)


LAYOUT = FileLayout(partitions=(parse_partition("country"), parse_partition("day(at)")))
FORMATS: list[FileFormat] = ["parquet", "json", "csv"]


@pytest.mark.spark
@pytest.mark.parametrize("file_format", FORMATS)
def test_spark_reads_a_partitioned_output(tmp_path: Path, spark: SparkSession, file_format: FileFormat) -> None:
    url = write(tmp_path, file_format, LAYOUT)
    reader = spark.read.options(header=True, escape='"')
    if file_format != "parquet":
        reader = reader.schema("shop long, at timestamp, note string, amount double, country string, at_day date")
    frame = reader.format(file_format).load(url).select("country", "shop", "at_day", "note", "amount")
    assert "country" in frame.inputFiles()[0], "by folders"
    found = in_order(tuple(row) for row in frame.collect())
    if file_format == "csv":  # Spark takes a quoted empty text for NULL, too
        assert found == in_order((*row[:3], row[3] or None, row[4]) for row in expected())
    else:
        assert found == expected()


@pytest.mark.parametrize("file_format", FORMATS)
def test_pyarrow_reads_a_partitioned_output(tmp_path: Path, file_format: FileFormat) -> None:
    url = write(tmp_path, file_format, LAYOUT)
    partitioning = ds.partitioning(pa.schema([("country", pa.string()), ("at_day", pa.date32())]), flavor="hive")
    as_written = pc_csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    kind = ds.CsvFileFormat(convert_options=as_written) if file_format == "csv" else file_format
    rows = ds.dataset(url, format=kind, partitioning=partitioning).to_table().to_pylist()
    found = in_order((row["country"], row["shop"], row["at_day"], row["note"], row["amount"]) for row in rows)
    # pyarrow takes the text for NULL that stands for it in a folder's name, though it is escaped here
    wanted = in_order((None if row[0] == NULL_FOLDER else row[0], *row[1:]) for row in expected())
    assert found == wanted


@pytest.mark.parametrize("file_format", FORMATS)
def test_duckdb_reads_a_partitioned_output(tmp_path: Path, file_format: FileFormat) -> None:
    url = write(tmp_path, file_format, LAYOUT)
    nulls = ", allow_quoted_nulls=false" if file_format == "csv" else ""
    types = "hive_types={'country': VARCHAR, 'at_day': DATE}"
    query = (
        "SELECT country, shop, at_day, note, amount "
        f"FROM read_{file_format}('{url}/*=*/*/*', hive_partitioning=true, {types}{nulls})"
    )
    with duckdb.connect() as connection:
        assert in_order(connection.execute(query).fetchall()) == expected()


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("layout", [LAYOUT, FileLayout("gzip", max_file_bytes=100)], ids=["partitioned", "rolled"])
def test_our_own_table_has_every_value_as_it_was(tmp_path: Path, file_format: FileFormat, layout: FileLayout) -> None:
    found = current_table(write(tmp_path, file_format, layout))
    assert found is not None
    assert found.rows.schema == pa.schema(FIELDS)
    assert sorted(found.rows.to_pylist(), key=repr) == sorted(ROWS, key=repr)


@pytest.mark.spark
def test_spark_reads_each_row_once_before_and_after_a_compaction(tmp_path: Path, spark: SparkSession) -> None:
    url = write(tmp_path, "parquet", LAYOUT)
    task = FileSink("job", url, "parquet", replaces=False, layout=LAYOUT).task
    for is_compacted in (False, True):
        if is_compacted:
            before = {path: path.read_bytes() for path in Path(url).rglob("part-*")}
            compact_output(task, before=Epoch(2), target_bytes=1 << 30, newest_only=False)
            for path, data in before.items():  # as if it had been killed before it deleted them
                path.write_bytes(data)
        files = output_files(url)
        assert any("/compacted-" in file for file in files) == is_compacted
        frame = spark.read.option("basePath", url).parquet(*map(_escaped, files))
        found = frame.select("country", "shop", "at_day", "note", "amount")
        assert in_order(tuple(row) for row in found.collect()) == expected()


def _escaped(path: str) -> str:
    """The path for Spark, which takes it for a glob."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)
