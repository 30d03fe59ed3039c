"""The document's source and sink: every mode gives the answer of plain Python.

By default in mixed mode; tests/connectors runs a custom source and sink in the other modes.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.custom.example import Example, answer, some_readings
from tests.harness import run

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("mode", [*(pytest.param(m, marks=pytest.mark.soak) for m in ("batch", "streaming")), "mixed"])
def test_modes_agree_with_plain_python(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    example = Example(tmp_path / "a folder")
    history, live = some_readings(0, 500), some_readings(500, 40)
    example.add(history)
    feed = [] if mode == "batch" else [lambda: example.add(live)]
    recording = run(example.job(f"execution.runtime-mode={mode}"), spark, feed=feed)
    assert [event.records for event in recording.committed] == ([500] if mode == "batch" else [500, 40])
    assert example.table() == answer(history + (live if mode != "batch" else []))
