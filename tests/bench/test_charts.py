"""Charts: made for what the result can answer, with the numbers they show beside them, right in light and in dark."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from mixedmode_bench.charts import charts
from mixedmode_bench.drawing import DARK, LIGHT, Chart, Palette, variables
from mixedmode_bench.results import Measured
from tests.bench.invented import count_sum, document, live, scaling

SVG = "{http://www.w3.org/2000/svg}"


def only(*measured: Measured) -> dict[str, Chart]:
    return {chart.name: chart for chart in charts(replace(document(), measured=measured))}


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    return {chart.name: chart.as_svg() for chart in charts(document())}


def test_each_question_has_its_chart() -> None:
    names = [chart.name for chart in charts(document())]
    assert names == ["time-per-event", "timeline-live", "growth-scaling", "stages", "memory"]


def test_what_the_result_cannot_answer_has_no_chart() -> None:
    assert only().keys() == set()
    assert only(*scaling()).keys() == {"growth-scaling"}
    bare_entries = tuple(
        replace(
            entry,
            runs=tuple(replace(run, peak_bytes={}, outcome=replace(run.outcome, profile={})) for run in entry.runs),
        )
        for entry in count_sum().entries
    )
    assert only(replace(count_sum(), entries=bare_entries)).keys() == {"time-per-event"}


def test_a_time_per_event_is_in_the_chart_and_in_its_table_and_its_description(drawn: dict[str, str]) -> None:
    chart = only(count_sum())["time-per-event"]
    row = next(row for row in chart.numbers.rows if row[0] == "count-sum: spark-streaming")
    assert row[1] == "4.72 \N{MICRO SIGN}s"
    assert "4.72 \N{MICRO SIGN}s   20.4x" in drawn["time-per-event"]
    assert "spark-streaming 4.72 \N{MICRO SIGN}s" in chart.description


def test_the_timeline_marks_the_flip_and_has_a_step_per_epoch(drawn: dict[str, str]) -> None:
    chart = only(live())["timeline-live"]
    epochs = [row[0] for row in chart.numbers.rows]
    assert sum(name.startswith("mixed, ") for name in epochs) == 1 + 16
    assert sum(name.startswith("spark-streaming, ") for name in epochs) == 8 + 16
    assert ">flip<" in drawn["timeline-live"]
    assert "large epochs 0.71 s, small epochs 0.22 s" in chart.description


def test_growth_is_over_keys_and_over_events(drawn: dict[str, str]) -> None:
    assert "over keys, 10 M events" in drawn["growth-scaling"]
    assert "over events, 1 M keys" in drawn["growth-scaling"]
    (one_axis,) = only(*scaling()[:4]).values()
    assert "over events" not in one_axis.as_svg(), "all of them have as many events"


def test_shares_of_work_and_of_the_driver_are_apart() -> None:
    rows = {row[0]: row[1:] for row in only(count_sum())["stages"].numbers.rows}
    assert rows["count-sum: fold"] == ("1.35 s", "25%")
    assert rows["count-sum: driver: tasks"] == ("2.22 s", "98%")


def test_stages_are_those_of_the_contestant_that_others_are_compared_with() -> None:
    mixed, *others = count_sum().entries
    runs = tuple(replace(run, outcome=replace(run.outcome, profile={"other": 1.0})) for run in others[-1].runs)
    faster = replace(others[-1], runs=runs)
    with_both = only(replace(count_sum(), entries=(faster, mixed)))["stages"]
    assert {row[0] for row in with_both.numbers.rows} >= {"count-sum: fold"}
    with_one = only(replace(count_sum(), entries=(faster,)))["stages"]
    assert [row[0] for row in with_one.numbers.rows] == ["count-sum: other"]


def test_a_stage_too_short_for_a_bar_is_in_the_table_only() -> None:
    mixed = count_sum().entries[0]
    profile = {"fold": 1.0, "blink": 1e-5}
    runs = tuple(replace(run, outcome=replace(run.outcome, profile=profile)) for run in mixed.runs)
    chart = only(replace(count_sum(), entries=(replace(mixed, runs=runs),)))["stages"]
    assert [row[0::2] for row in chart.numbers.rows] == [("count-sum: fold", "100%"), ("count-sum: blink", "<1%")]
    assert ">fold<" in chart.as_svg()
    assert ">blink<" not in chart.as_svg()


def test_an_svg_is_sound_named_and_described(drawn: dict[str, str]) -> None:
    for name, text in drawn.items():
        root = ET.fromstring(text.replace("<svg ", '<svg xmlns:xlink="http://www.w3.org/1999/xlink" ', 1))
        named = {child.get("id"): child.text for child in root}
        for part in (root.get("aria-labelledby") or "").split():
            assert named[part], name
        assert root.get("width") is None, "the page says how wide it is"


def test_names_within_svgs_are_not_shared(drawn: dict[str, str]) -> None:
    names = [found for text in drawn.values() for found in set(re.findall(r'\bid="([^"]*)"', text))]
    assert len(names) == len(set(names))
    for text in drawn.values():
        used = set(re.findall(r"url\(#([^)]*)\)", text)) | set(re.findall(r'href="#([^"]*)"', text))
        assert used <= set(re.findall(r'\bid="([^"]*)"', text))


def test_an_svg_takes_all_of_its_colours_from_the_page(drawn: dict[str, str]) -> None:
    for text in drawn.values():
        assert set(re.findall(r"#[0-9a-f]{6}\b", text)) == set()
        assert set(re.findall(r"var\(--(\w+)\)", text)) <= set(Palette.__slots__) | {"font"}


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read_on_its_paper(palette: Palette) -> None:
    for colour in (palette.ink, palette.quiet, palette.ours):
        assert contrast(colour, palette.paper) >= 4.5, colour
    data = (palette.peer, palette.backlog, palette.live, palette.first, palette.second, palette.third, palette.fourth)
    for colour in data:
        assert contrast(colour, palette.paper) >= 3, colour
    assert "--ink: #" in variables(palette)


def test_a_png_is_written_under_the_name_of_the_chart(tmp_path: Path) -> None:
    file = only(*scaling())["growth-scaling"].write_png(tmp_path)
    assert file == tmp_path / "growth-scaling.png"
    assert file.read_bytes().startswith(b"\x89PNG")


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
