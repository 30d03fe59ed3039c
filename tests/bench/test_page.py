"""The page: whole in one file, with nothing from elsewhere, and with every number behind a picture."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mixedmode_bench.charts import charts
from mixedmode_bench.page import as_html, write_page
from mixedmode_bench.results import Document
from tests.bench.invented import count_sum, document

VOID = {"meta", "br", "link", "img"}


def html(shown: Document) -> str:
    return as_html(shown, charts(shown))


@pytest.fixture(scope="module")
def page() -> str:
    return html(document())


class Balance(HTMLParser):
    """Fails if an element is not closed where it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.open)


def test_it_is_sound_and_every_name_stands_once(page: str) -> None:
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    assert len(balance.ids) == len(set(balance.ids))


def test_nothing_is_fetched_and_nothing_is_run(page: str) -> None:
    assert "<script" not in page
    assert "@import" not in page
    addresses = re.findall(r'\b(?:src|href|xlink:href)="([^"#][^"]*)"', page)
    assert addresses == ["result.json"]
    assert re.findall(r"url\((?!#)", page) == []


def test_it_says_command_machine_and_versions(page: str) -> None:
    assert "<code>mixedmode bench count-sum live scaling --rounds 3 --cores 2</code>" in page
    assert "Example Processor 9000, 2 cores, 24.0 GiB, Linux 6.1" in page
    assert "pyspark 4.3.0" in page


def test_each_chart_has_its_numbers(page: str) -> None:
    found = charts(document())
    assert page.count("<svg ") == page.count("<details>") == len(found)
    for chart in found:
        assert f'<th scope="row">{chart.numbers.rows[-1][0]}</th>' in page


def test_targets_are_told_by_words_and_not_by_colour_alone(page: str) -> None:
    assert "7 of 9 targets met" in page
    assert page.count("\N{CHECK MARK} met") == 7
    assert page.count("\N{BALLOT X} missed") == 2


def test_text_from_outside_is_escaped() -> None:
    title = "<b>sum</b> & count"
    shown = replace(document(), command="mixedmode bench '<x>'", measured=(replace(count_sum(), title=title),))
    page = html(shown)
    assert "&lt;b&gt;sum&lt;/b&gt; &amp; count" in page
    assert "<b>sum" not in page
    assert "<x>" not in page


def test_a_result_of_nothing_is_a_page_without_charts() -> None:
    page = html(replace(document(), measured=()))
    assert "<svg" not in page
    assert "There are no targets" in page


def test_page_and_pictures_are_written_to_a_folder_that_may_not_be_there_yet(tmp_path: Path) -> None:
    shown = replace(document(), measured=(count_sum(),))
    file = write_page(shown, tmp_path / "new" / "out")
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert {path.stem for path in file.parent.glob("*.png")} == {"time-per-event", "stages", "memory"}
