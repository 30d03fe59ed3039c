"""Columns may have any name, also where Spark computes the rows: a dot in a name is not a field of another column."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.job import Job, Sink, Source
from mixedmode.process import MapFunction
from tests.harness import output_rows, run, write_parquet

pytestmark = pytest.mark.spark

DDL = "k bigint, a struct<b: bigint>, `a.b` bigint, `c``d` string, `e f` string, `é` string"
ROW: dict[str, Any] = {"k": 1, "a": {"b": 2}, "a.b": 3, "c`d": "x", "e f": "y", "é": "z"}


class Same(MapFunction):
    """Returns the records."""

    def map_rows(self, rows: pa.Table) -> pa.Table:
        return rows


@pytest.mark.parametrize("has_map", [False, True])
def test_rows_by_spark_have_the_values_of_their_columns_whatever_these_are_called(
    spark: SparkSession, tmp_path: Path, *, has_map: bool
) -> None:
    schema = pa.schema([("k", pa.int64()), ("a", pa.struct([("b", pa.int64())])), ("a.b", pa.int64())])
    for name in ("c`d", "e f", "é"):
        schema = schema.append(pa.field(name, pa.string()))
    write_parquet(tmp_path / "in", "a.parquet", pa.Table.from_pylist([ROW], schema))
    job = Job("names", sources={"t": Source.parquet(tmp_path / "in", schema=DDL)}, mode="batch", parallelism=2)
    job = job.sql("SELECT *, initcap(`c``d`) AS `C.D` FROM t")
    if has_map:
        job = job.map(Same, output=f"{DDL}, `C.D` string")
    run(job.write(Sink.parquet(tmp_path / "out")), spark)
    assert output_rows(tmp_path / "out") == [{**ROW, "C.D": "X"}]
