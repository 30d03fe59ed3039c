"""The example of a document without Spark: its job, the class beside it, the records it writes, the tables it shows."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from mixedmode.config import JobSpec, load_job
from tests.docs.test_snippets import blocks, document, the_block

_HERE_DOCUMENT = re.compile(r"<<'END'\n(.*?)^END$", re.DOTALL | re.MULTILINE)


@contextmanager
def example_of(name: str, folder: Path) -> Iterator[JobSpec]:
    """The document's job. Inside, its folder is the current one, and `functions` is the document's module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [str(folder), *sys.path])
        patch.delitem(sys.modules, "functions", raising=False)  # of a test before in this process
        Path("functions.py").write_text(the_block("python", name).text, encoding="utf-8")
        Path("job.yaml").write_text(the_block("yaml", name).text, encoding="utf-8")
        yield load_job("job.yaml").spec
        sys.modules.pop("functions")


def records_of(name: str) -> list[list[dict[str, Any]]]:
    """The records of each file that the document writes."""
    texts = _HERE_DOCUMENT.findall(document(name))
    return [[yaml.safe_load(line) for line in text.splitlines()] for text in texts]


def tables_of(name: str) -> list[list[list[str]]]:
    """The cells of each table that the document shows as printed."""
    texts = [block.text.splitlines() for block in blocks("text") if block.path.name == Path(name).name]
    return [[re.split(r"\s{2,}", line.strip()) for line in lines[1:-1]] for lines in texts]
