"""The columns of a folder of Parquet files, read without a Spark job: those that Spark infers, or none."""

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mixedmode.connectors.files.inferred_columns import schema_of_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NUMBERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_()]
_OTHERS = [pa.string(), pa.large_string(), pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("ms", "Asia/Tokyo")]
_DECIMALS = [pa.decimal128(9, 2), pa.decimal128(18, 18), pa.decimal128(38, 10)]
KNOWN = pa.schema([pa.field(f"C{n}", one, nullable=n % 2 == 0) for n, one in enumerate(_NUMBERS + _OTHERS + _DECIMALS)])
#: a setting decides what they are, or Spark refuses them, or they are nested
_UNSIGNED = [pa.uint8(), pa.uint32(), pa.uint64()]
LEFT = [
    *(*_UNSIGNED, pa.binary(), pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.time64("us"), pa.float16()),
    *(pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.map_(pa.string(), pa.int64())),
]


def _write(file: Path, schema: pa.Schema, **options: bool) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(schema.empty_table(), file, **options)


@pytest.mark.parametrize("as_integer", [False, True])
def test_the_columns_are_those_that_spark_infers(spark: "SparkSession", tmp_path: Path, *, as_integer: bool) -> None:
    _write(tmp_path / "in" / "b.parquet", pa.schema([("other", pa.int64())]))
    _write(tmp_path / "in" / "a.parquet", KNOWN, store_decimal_as_integer=as_integer)
    _write(tmp_path / "in" / ".hidden", pa.schema([("hidden", pa.int64())]))
    assert schema_of_folder(str(tmp_path / "in")) == spark.read.parquet(str(tmp_path / "in")).schema


def test_the_columns_of_files_that_spark_has_written_are_those_that_it_has_noted(
    spark: "SparkSession", tmp_path: Path
) -> None:
    rows = spark.sql(
        "SELECT 1 AS id, CAST(2 AS DECIMAL(5, 1)) AS d, X'00' AS b, TIMESTAMP_NTZ'2020-01-01' AS n, 'x' AS `ä`, "
        "CAST('y' AS CHAR(3)) AS c"
    )
    rows.coalesce(1).write.parquet(str(tmp_path / "out"))
    found = schema_of_folder(str(tmp_path / "out"))
    assert found is not None
    assert found == spark.read.parquet(str(tmp_path / "out")).schema


@pytest.mark.parametrize("data_type", LEFT, ids=str)
def test_a_type_that_a_setting_decides_is_left_to_spark(tmp_path: Path, data_type: pa.DataType) -> None:
    _write(tmp_path / "a.parquet", pa.schema([("k", pa.int64()), ("v", data_type)]))
    assert schema_of_folder(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("files", "path"),
    [
        pytest.param(["day=1/a.parquet"], "", id="partition folder"),
        pytest.param(["deep/a.parquet", "b.parquet"], "", id="folder"),
        pytest.param(["_metadata", "b.parquet"], "", id="summary"),
        pytest.param(["_common_metadata", "b.parquet"], "", id="common summary"),
        pytest.param([".a.parquet", "_b.parquet", "c._COPYING_"], "", id="hidden"),
        pytest.param(["a.parquet"], "*.parquet", id="pattern"),
        pytest.param(["a.parquet"], "a.parquet", id="file"),
        pytest.param(["a.parquet"], "none", id="nothing"),
    ],
)
def test_a_path_other_than_a_plain_folder_is_left_to_spark(tmp_path: Path, files: Sequence[str], path: str) -> None:
    for name in files:
        _write(tmp_path / name, pa.schema([("k", pa.int64())]))
    assert schema_of_folder(f"{tmp_path}/{path}" if path else str(tmp_path)) is None


@pytest.mark.parametrize("names", [("a", "A"), ("a.b",), ()])
def test_names_that_spark_refuses_or_could_misread_are_left_to_spark(tmp_path: Path, names: Sequence[str]) -> None:
    _write(tmp_path / "a.parquet", pa.schema([(name, pa.int64()) for name in names]))
    assert schema_of_folder(str(tmp_path)) is None


def test_a_file_that_is_not_parquet_is_left_to_spark(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no")
    assert schema_of_folder(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("data_type", "metadata"), [("string", {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}), ("void", {})]
)
def test_a_column_that_spark_notes_more_about_is_left_to_spark(
    tmp_path: Path, data_type: str, metadata: dict[str, str]
) -> None:
    field = {"name": "c", "type": data_type, "nullable": True, "metadata": metadata}
    noted = json.dumps({"type": "struct", "fields": [field]})
    schema = pa.schema([("c", pa.string())], metadata={"org.apache.spark.sql.parquet.row.metadata": noted})
    _write(tmp_path / "a.parquet", schema)
    assert schema_of_folder(str(tmp_path)) is None


def test_the_file_whose_name_sorts_first_in_java_counts(tmp_path: Path) -> None:
    _write(tmp_path / "\uffee.parquet", pa.schema([("last", pa.int64())]))
    _write(tmp_path / "\U0001f600.parquet", pa.schema([("first", pa.int64())]))  # a surrogate pair in Java
    found = schema_of_folder(str(tmp_path))
    assert found is not None
    assert found.names == ["first"]


def test_a_decimal_with_more_digits_than_its_bytes_hold_is_left_to_spark(tmp_path: Path) -> None:
    table = pa.table({"d": pa.array([Decimal("1.5")], pa.decimal256(40, 1))})
    pq.write_table(table, tmp_path / "a.parquet")
    assert schema_of_folder(str(tmp_path)) is None
