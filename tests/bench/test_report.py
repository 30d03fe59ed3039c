"""The tables on the terminal: the fastest first, targets met or missed, and nothing cut off at a usual width."""

from dataclasses import replace

import pytest
from rich.console import Console

from mixedmode_bench.report import as_text
from mixedmode_bench.results import Document
from tests.bench.invented import count_sum, document, live


def printed(shown: Document, width: int) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(as_text(shown))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


@pytest.mark.parametrize("width", [80, 120, 200])
def test_nothing_is_cut_off(width: int) -> None:
    text = printed(document(), width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    assert "transform-with-state" in text


def test_a_wide_terminal_has_one_table_and_a_narrow_one_two() -> None:
    mixed_wide = [line for line in printed(document(), 120).splitlines() if line.startswith("mixed ")]
    assert any("2.31 s" in line and "2.59 GiB" in line for line in mixed_wide)
    mixed_narrow = [line for line in printed(document(), 80).splitlines() if line.startswith("mixed ")]
    assert not any("2.31 s" in line and "2.59 GiB" in line for line in mixed_narrow)
    assert any("2.59 GiB" in line for line in mixed_narrow)


def test_contestants_stand_in_the_order_of_their_time_per_event() -> None:
    text = printed(document(), 200)
    block = text[text.index("count-sum") : text.index("live epochs over")].splitlines()
    names = [line.split()[0] for line in block if line and " s " in line]
    assert names[:4] == ["duckdb", "mixed", "spark-batch", "flink-batch"]
    assert names[7] == "transform-with-state", "it took longest per event, though it ran over fewer"


def test_a_line_has_median_cold_rate_and_ratio_with_its_spread() -> None:
    text = printed(document(), 200)
    (line,) = [line for line in text.splitlines() if line.startswith("spark-streaming       ")]
    assert line.split()[:11] == [
        "spark-streaming",
        "47.2",
        "s",
        "99.1",
        "s",
        "212",
        "k",
        "20.4x",
        "19.6",
        "..",
        "21.5x",
    ]


def test_targets_say_what_was_met_and_what_was_missed() -> None:
    text = printed(document(), 120)
    assert "2 of 9 targets missed." in text
    rows = {line.split("  ")[1]: line for line in text.splitlines() if line.endswith((" yes", " NO"))}
    assert rows["flink-streaming / mixed"].endswith("NO")
    assert ">= 16x" in rows["flink-streaming / mixed"]
    assert rows["mixed / duckdb"].endswith("yes")
    assert "<= 4x" in rows["mixed / duckdb"]


def test_at_another_size_there_are_no_targets() -> None:
    small = replace(document(), measured=(replace(count_sum(), is_full=False), replace(live(), is_full=False)))
    text = printed(small, 120)
    assert "No targets" in text
    assert ">=" not in text


def test_a_workload_at_several_sizes_is_one_table_of_time_per_event() -> None:
    text = printed(document(), 120)
    assert text.count("scaling  time per event") == 1
    (row,) = [line for line in text.splitlines() if line.split()[:4] == ["10", "M", "10", "k"]]
    assert row.split()[4:] == ["160", "ns", "501", "ns", "45.1", "ns"]


def test_who_is_left_out_and_who_ran_over_less_is_said() -> None:
    text = printed(document(), 120)
    assert "transform-with-state-initial is left out: it begins with state" in text
    assert "transform-with-state ran over 1,000,000 events" in text
