"""Figures in documents are those of the committed result files, and of nothing else."""

import re

import pytest

from tests.docs.results import FOLDER, KEPT, results_section
from tests.docs.test_snippets import document


@pytest.mark.parametrize("name", KEPT)
def test_the_results_are_there(name: str) -> None:
    assert (FOLDER / name).is_file()


def test_the_readme_quotes_only_what_the_benchmarks_page_shows() -> None:
    section = document("README.md").split("## Results\n", 1)[1].split("\n## ", 1)[0]
    figures = re.findall(r"\d[\d.,]*(?:x| s\b| M\b| k\b)", section)
    assert figures, "it quotes some"
    shown = document("docs/benchmarks.md")
    for figure in figures:
        assert figure in shown, figure


def test_the_benchmarks_page_shows_what_the_result_files_hold() -> None:
    page = document("docs/benchmarks.md")
    shown = page.split("## Results\n", 1)[1].split("\n## ", 1)[0]
    tables = shown[shown.index("### ") :].strip()
    assert tables == results_section().strip(), "python -m tests.docs.results prints them"
