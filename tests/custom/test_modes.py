"""The document's source and sink: every mode gives the answer of plain Python.

By default in mixed mode; tests/connectors runs a custom source and sink in the other modes.
"""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.custom.example import NAME, Example, answer, some_readings
from tests.docs.test_snippets import blocks
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


def test_the_document_shows_what_its_commands_print(spark: SparkSession, tmp_path: Path) -> None:
    example = Example(tmp_path)
    inserted = next(block.text for block in blocks("sh") if block.path.name == NAME)
    readings = re.findall(r"\('(\S+)', '(\w+)', ([0-9.]+)\)", inserted)
    example.add([(at, sensor, float(celsius)) for at, sensor, celsius in readings])
    run(example.job(), spark)
    assert example.journal.read_text(encoding="utf-8") == next(b.text for b in blocks("json") if b.path.name == NAME)
