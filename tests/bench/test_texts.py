"""Figures are written with three digits and a unit that fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode_bench.summary import Goal, Spread
from mixedmode_bench.texts import (
    bound_text,
    bytes_text,
    count_text,
    event_text,
    rounded,
    seconds_text,
    spread_text,
    times_text,
)

MICRO = "\N{MICRO SIGN}s"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (seconds_text(103.6), "104 s"),
        (seconds_text(9.999), "10.0 s"),
        (seconds_text(2.306), "2.31 s"),
        (seconds_text(0.022), "22.0 ms"),
        (event_text(1.04e-4), f"104 {MICRO}"),
        (event_text(9.999e-7), f"1.00 {MICRO}"),
        (event_text(2.31e-7), "231 ns"),
        (count_text(10_000_000), "10 M"),
        (count_text(4_329_000), "4.33 M"),
        (count_text(999_999), "1.00 M"),
        (count_text(850), "850"),
        (times_text(20.43), "20.4x"),
        (times_text(0.0079), "0.0079x"),
        (seconds_text(2.4e-5), "0.024 ms"),
        (seconds_text(0.0), "0.00 ms"),
        (bytes_text(900 * 1024), "900 KiB"),
        (bytes_text(1.42 * 2**30), "1.42 GiB"),
        (rounded("1.20 M"), "1.2 M"),
        (rounded("100 ns"), "100 ns"),
        (rounded("0"), "0"),
        (spread_text(Spread(0.021, 0.1, 0.4), "s"), "21.0 ms .. 0.40 s"),
        (spread_text(Spread(1.5, 1.5, 1.5), "x"), ""),
        (spread_text(Spread(655e3, 690e3, 704e3), "events/s"), "655 .. 704 k/s"),
    ],
)
def test_a_figure_is_written(text: str, expected: str) -> None:
    assert text == expected


@given(st.floats(1e-9, 1e5))
def test_what_is_written_is_the_value_to_two_digits_at_least(seconds: float) -> None:
    number, unit = seconds_text(seconds).split()
    size = {"s": 1, "ms": 1e-3}[unit]
    assert float(number.replace(",", "")) * size == pytest.approx(seconds, rel=0.005, abs=0.0051 * size)


def test_a_bound_says_which_side_it_is_on() -> None:
    spread = Spread(1, 2, 3)
    assert bound_text(Goal("w", "a / b", spread, "x", 15, None, is_met=False)) == ">= 15x"
    assert bound_text(Goal("w", "a", spread, "s", None, 0.35, is_met=False)) == "<= 0.35 s"
    assert bound_text(Goal("w", "a", spread, "events/s", 500_000, None, is_met=False)) == ">= 500 k/s"
