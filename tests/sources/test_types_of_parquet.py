"""Parquet without `schema`: tasks read each type that Spark finds in a file as Spark does."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mixedmode.connectors.files.file_slices import FileSlice
from mixedmode.connectors.files.parquet_files import read_slices
from mixedmode.connectors.files.source import FileSource
from mixedmode.errors import InvalidJobError, LeftToSparkError
from mixedmode.job import Source
from mixedmode.plan.job_plan import ReadColumn
from mixedmode.spark.frames import arrow_fields

pytestmark = pytest.mark.spark

UNITS = ("s", "ms", "us", "ns")
TYPES: dict[pa.DataType, Any] = {
    **{pa.duration(unit): pa.array([-5, 7_000_000]) for unit in UNITS},
    **{pa.timestamp(unit, zone): pa.array([-5, 7_000_000]) for unit in UNITS for zone in (None, "UTC", "Asia/Tokyo")},
    **{pa.time32(unit): pa.array([0, 7_000], pa.int32()) for unit in ("s", "ms")},
    **{pa.time64(unit): pa.array([0, 7_000_000]) for unit in ("us", "ns")},
    pa.date64(): pa.array([0, 86_400_000]),
    **{kind: pa.array([0, 7], kind) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    **{kind: pa.array([Decimal("1.25")], kind) for kind in (pa.decimal128(5, 2), pa.decimal256(30, 2))},
    **{kind: pa.array([1.5], kind) for kind in (pa.float16(), pa.float32())},
    **{kind: pa.array([b"ab"], kind) for kind in (pa.binary(2), pa.large_binary(), pa.large_string())},
}


@pytest.mark.parametrize("data_type", TYPES, ids=str)
def test_a_type_that_spark_infers_is_read_as_spark_reads_it(
    spark: SparkSession, tmp_path: Path, data_type: pa.DataType
) -> None:
    given = TYPES[data_type]
    column = given if given.type == data_type else given.view(data_type)
    pq.write_table(pa.table({"c": column}), tmp_path / "a.parquet")
    try:
        source = FileSource(spark, Source.parquet(tmp_path), where="t")
        expected = source.batch().toArrow()
    except (PySparkException, InvalidJobError):
        return  # Spark does not read this type
    columns = [ReadColumn(field.name, field.type, field.name) for field in arrow_fields(source.schema)]
    try:
        found = pa.Table.from_batches(list(read_slices([FileSlice.whole(str(tmp_path / "a.parquet"))], columns)))
    except LeftToSparkError:
        return
    assert found.schema.types == [field.type for field in arrow_fields(source.schema)]
    assert found.column("c").cast(expected.column("c").type).equals(expected.column("c"))
