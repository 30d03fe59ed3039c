"""Jobs without a keyed step: what their files are like."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK, run, write_parquet

pytestmark = pytest.mark.spark

ROWS = 300_000


def test_rows_that_come_in_many_batches_are_written_in_few_row_groups(spark: SparkSession, tmp_path: Path) -> None:
    write_parquet(tmp_path / "in", "a.parquet", pa.table({"k": np.arange(ROWS), "v": np.arange(ROWS) * 0.5}))
    job = Job(
        "rows", mode="batch", sources={"t": Source.parquet(tmp_path / "in", bounded=True)}, parallelism=1, spark=SPARK
    )
    run(job.sql("SELECT k, v FROM t WHERE k >= 0").write(Sink.parquet(tmp_path / "out")), spark)
    files = [pq.ParquetFile(file) for file in (tmp_path / "out").rglob("*.parquet")]
    assert sum(file.metadata.num_rows for file in files) == ROWS
    assert {file.metadata.num_row_groups for file in files} == {1}
