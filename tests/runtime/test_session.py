"""What a session of ours does to Spark's processes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def parent(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The command line of the process that forked this worker."""
    command = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode().replace("\0", " ")
    yield pa.record_batch([[command]], names=["command"])


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="reads /proc, which only Linux has")
def test_workers_are_forked_by_the_daemon_that_has_what_tasks_import(spark: SparkSession) -> None:
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(parent, "command string").collect()
    assert "-m mixedmode.runtime.daemon" in row.command
