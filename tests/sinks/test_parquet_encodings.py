"""Each column of a Parquet file gets the encoding that suits it, and Arrow, DuckDB and Spark read all of them."""

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mixedmode.sinks.parquet_encodings import Encodings, encodings_of
from mixedmode.sinks.row_files import open_row_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 40_000
ALL = Encodings(dictionaries=True, others=None)
EXTREMES = {  # the least and the greatest value
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
    pa.date32(): (-700_000, 2_900_000),
    pa.timestamp("us", "UTC"): (-(10**15), 10**17),
    pa.timestamp("us"): (-(10**15), 10**17),
}


def encoded(column: pa.Array, *, is_compressed: bool = True) -> str:
    found = encodings_of(pa.table({"c": column}), is_compressed=is_compressed)
    assert isinstance(found.dictionaries, list), found
    assert found.others is not None, found
    return "dictionary" if found.dictionaries else found.others.get("c", "plain")


@pytest.mark.parametrize(
    ("run", "encodings"),
    [
        (1, ("DELTA_BINARY_PACKED", "dictionary")),
        (5, ("DELTA_BINARY_PACKED", "dictionary")),
        (ROWS // 100, ("dictionary", "dictionary")),
    ],
    ids=["each row", "short runs", "long runs"],
)
def test_values_that_repeat_in_short_runs_only_have_no_dictionary(run: int, encodings: tuple[str, str]) -> None:
    """First each value has one run, then ten values take turns."""
    runs = pa.array(np.arange(ROWS) // run)
    assert (encoded(runs), encoded(pc.bit_wise_and(runs, 7))) == encodings


def test_values_in_runs_have_a_dictionary_where_nothing_is_compressed() -> None:
    assert encoded(pa.array(np.arange(ROWS) // 10), is_compressed=False) == "dictionary"


@pytest.mark.parametrize("bits", [32, 64])
def test_random_numbers_are_written_as_they_are(bits: int) -> None:
    """Unless their differences have fewer bits."""
    kind = f"int{bits}"
    found = np.random.default_rng(1).integers(-(2 ** (bits - 1)), 2 ** (bits - 1), ROWS, kind)
    assert encoded(pa.array(found)) == "plain"
    assert encoded(pa.array(found // 2 ** (bits // 2))) == "DELTA_BINARY_PACKED"


@pytest.mark.parametrize("column", [np.random.default_rng(1).random(ROWS), np.arange(ROWS) % 2 == 0], ids=["f", "b"])
def test_other_columns_have_no_differences(column: np.ndarray) -> None:
    assert encoded(pa.array(column)) in {"plain", "dictionary"}


def test_few_rows_and_nested_columns_are_not_looked_at() -> None:
    few = pa.table({"n": np.arange(1000)})
    assert encodings_of(few, is_compressed=True) == ALL
    assert encodings_of(pa.table({"n": np.arange(ROWS), "list": [[1]] * ROWS}), is_compressed=True) == ALL


def table() -> pa.Table:
    """Return a column of each kind of whole numbers, and one with NULLs."""
    chance = np.random.default_rng(1)
    columns = {}
    for kind, (least, most) in EXTREMES.items():
        numbers = chance.permutation(ROWS).astype(f"int{kind.bit_width}")
        numbers[[100, 5000, ROWS - 1]], numbers[[101, 5001]] = least, most
        columns[f"{kind}"] = pa.array(numbers).view(kind)
        columns[f"{kind} or null"] = pa.array(numbers, mask=chance.random(ROWS) < 0.3).view(kind)
    return pa.table(columns)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with all columns that have differences, written so."""
    path = tmp_path_factory.mktemp("encodings") / "file.parquet"
    rows = open_row_file(path, table().schema, "parquet", "snappy")
    rows.write(table())
    rows.write(table().slice(0, 1))
    rows.close()
    found = pq.read_metadata(path).row_group(0)
    names = [found.column(at).path_in_schema for at in range(found.num_columns)]
    differences = {n for at, n in enumerate(names) if "DELTA_BINARY_PACKED" in found.column(at).encodings}
    assert differences == set(table().column_names)
    return path


def values(rows: pa.Table) -> list[list[object]]:
    """Return the values of each column, times as their number of microseconds or days."""
    return [column.combine_chunks().view(f"int{column.type.bit_width}").to_pylist() for column in rows.columns]


def test_arrow_and_duckdb_read_what_was_written(file: Path) -> None:
    expected = values(pa.concat_tables([table(), table().slice(0, 1)]))
    assert values(pq.read_table(file)) == expected
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.read_parquet(str(file)).to_arrow_table()
    assert values(found) == expected


@pytest.mark.parametrize("in_batches", [True, False])
def test_spark_reads_what_was_written(file: Path, spark: "SparkSession", in_batches: bool) -> None:
    name = "spark.sql.parquet.enableVectorizedReader"
    spark.conf.set(name, in_batches)
    try:
        found = spark.read.parquet(str(file)).toArrow()
    finally:
        spark.conf.unset(name)
    assert values(found) == values(pa.concat_tables([table(), table().slice(0, 1)]))
