"""The example of docs/map-functions.md without Spark: its class, its job file, its records, the rows it shows."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mixedmode.config import MapStep, load_job_spec
from mixedmode.testing import MapHarness
from tests.docs.test_snippets import blocks, document, the_block

NAME = "docs/map-functions.md"
HERE_DOCUMENT = re.compile(r"<<'END'\n(.*?)^END$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MapHarness]:
    """The step of the job file, with the class beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "functions", raising=False)  # of a test before in this process
    Path("functions.py").write_text(the_block("python", NAME).text, encoding="utf-8")
    Path("job.yaml").write_text(the_block("yaml", NAME).text, encoding="utf-8")
    spec = load_job_spec("job.yaml")
    (step,), (source,) = spec.steps, spec.sources.values()
    assert isinstance(step, MapStep)
    assert source.schema_ddl is not None
    assert spec.parallelism is not None
    yield MapHarness(step.map, schema=source.schema_ddl, output=step.output, parallelism=spec.parallelism)
    sys.modules.pop("functions")


def own_blocks(language: str) -> list[str]:
    return [block.text for block in blocks(language) if block.path.name == Path(NAME).name]


def fed() -> list[list[dict[str, Any]]]:
    """The records of each file that the document writes."""
    return [[yaml.safe_load(line) for line in text.splitlines()] for text in HERE_DOCUMENT.findall(document(NAME))]


def tables() -> list[list[list[str]]]:
    """The cells of each table that the document shows as printed."""
    texts = [text.splitlines() for text in own_blocks("text")]
    return [[re.split(r"\s{2,}", line.strip()) for line in lines[1:-1]] for lines in texts]


def test_the_example_gives_the_rows_that_the_document_shows(harness: MapHarness) -> None:
    first, later = fed()
    shown_first, shown_later = tables()
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
    for text in own_blocks("python"):
        exec(compile(text, NAME, "exec"), names)
    harness = MapHarness(names["Packets"], schema="text string", output="packet array<string>", args={"size": 3})
    harness.feed([{"text": text} for text in "abcde"])
    assert harness.take() == [{"packet": ["a", "b", "c"]}]
    harness.rescale(2)
    harness.feed([])
    assert harness.lists == (("d",), ("e",))
