"""The example of docs/map-functions.md without Spark: its class, its job file, its records, the rows it shows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mixedmode.config import MapStep
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.testing import MapHarness
from tests.docs.examples import example_of, records_of, tables_of
from tests.docs.test_snippets import blocks, document

NAME = "docs/map-functions.md"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[MapHarness]:
    """The step of the job file, with the class beside it."""
    with example_of(NAME, tmp_path) as spec:
        (step,), (source,) = spec.steps, spec.sources.values()
        assert isinstance(step, MapStep)
        assert isinstance(source, FileSourceSpec)
        assert source.schema_ddl is not None
        assert spec.parallelism is not None
        yield MapHarness(step.map, schema=source.schema_ddl, output=step.output, parallelism=spec.parallelism)


def test_the_example_gives_the_rows_that_the_document_shows(harness: MapHarness) -> None:
    first, later = records_of(NAME)
    shown_first, shown_later = tables_of(NAME)
    assert "--set parallelism=2" in document(NAME)
    harness.feed(first)
    rows = harness.take()
    assert [[str(value) for value in row.values()] for row in rows] == shown_first
    assert harness.lists == ((3,),), "as the document says"
    harness.rescale(2)
    harness.feed(later)
    rows += sorted(harness.take(), key=lambda row: row["id"])
    assert [[str(value) for value in row.values()] for row in rows] == shown_later


def test_packets_wait_and_are_dealt_out() -> None:
    names: dict[str, Any] = {}
    for block in blocks("python"):
        if block.path.name == Path(NAME).name:
            exec(compile(block.text, NAME, "exec"), names)
    harness = MapHarness(names["Packets"], schema="text string", output="packet array<string>", args={"size": 3})
    harness.feed([{"text": text} for text in "abcde"])
    assert harness.take() == [{"packet": ["a", "b", "c"]}]
    harness.rescale(2)
    harness.feed([])
    assert harness.lists == (("d",), ("e",))
