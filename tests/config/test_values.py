"""Durations and sizes: every documented spelling is read, everything else is refused."""

import doctest

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mixedmode.config import calls, values
from mixedmode.config.values import SIZE_BYTES_MAX, format_bytes, parse_bytes
from mixedmode.durations import DURATION_MS_MAX, format_duration_ms, parse_duration_ms
from mixedmode.errors import InvalidJobError


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("500ms", 500),
        ("1s", 1_000),
        ("10m", 600_000),
        ("1h", 3_600_000),
        ("2d", 172_800_000),
        ("1h30m", 5_400_000),
        ("1d2h3m4s5ms", 93_784_005),
        ("5m10ms", 300_010),
        ("007s", 7_000),
        ("0s", 0),
        ("0", 0),
        (0, 0),
        (f"{DURATION_MS_MAX}ms", DURATION_MS_MAX),
    ],
)
def test_a_duration_in_a_documented_form_is_read(text: str | int, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    "value",
    ["", "5", 5, 0.0, False, True, None, "1.5s", "-1s", "1 s", "30m1h", "1s1s", "1S", "1sec", "h", "٣s", "1s\n", [1]],
)
def test_anything_else_is_no_duration_and_the_forms_are_named(value: object) -> None:
    with pytest.raises(InvalidJobError) as caught:
        parse_duration_ms(value)
    assert str(caught.value) == (
        "this is not a duration. Write whole numbers with their units, largest unit first, such as 500ms, 1s, 10m, "
        f"1h, 2d or 1h30m, or a bare 0. found={value}"
    )


@pytest.mark.parametrize("text", [f"{DURATION_MS_MAX + 1}ms", "9" * 5_000 + "d"])
def test_a_duration_that_event_times_cannot_express_is_refused(text: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        parse_duration_ms(text)
    assert str(caught.value) == (
        "this duration is longer than event times can express. Write at most 4611686018427387ms. found=" + text
    )


@given(st.integers(0, DURATION_MS_MAX))
@example(0)
@example(DURATION_MS_MAX)
def test_a_duration_is_read_back_as_it_was_written(duration_ms: int) -> None:
    assert parse_duration_ms(format_duration_ms(duration_ms)) == duration_ms


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("256MB", 256 * 1024 * 1024),
        ("64KiB", 65_536),
        ("64kb", 65_536),
        ("4g", 4 * 1024**3),
        ("2T", 2 * 1024**4),
        ("1TiB", 1024**4),
        ("10B", 10),
        ("10", 10),
        (10, 10),
        (0, 0),
        (SIZE_BYTES_MAX, SIZE_BYTES_MAX),
    ],
)
def test_a_size_in_a_documented_form_is_read(text: str | int, size_bytes: int) -> None:
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize("value", ["", "MB", "1.5GB", 1.5, -1, "-1", "1 MB", "1XB", "1KKB", "1iB", True, None, "٣MB"])
def test_anything_else_is_no_size_and_the_forms_are_named(value: object) -> None:
    with pytest.raises(InvalidJobError) as caught:
        parse_bytes(value)
    assert str(caught.value) == (
        "this is not a size. Write a whole number of bytes, or one with a unit, such as 64KB, 256MB or 4GB (1 MB is "
        f"1024 * 1024 bytes; MiB and M mean the same). found={value}"
    )


def test_a_size_of_more_than_64_bits_is_refused() -> None:
    with pytest.raises(InvalidJobError) as caught:
        parse_bytes("8388608TB")
    assert str(caught.value) == (
        "this size is more than 64 bits can count. Write at most 9223372036854775807. found=8388608TB"
    )


@given(
    st.integers(0, SIZE_BYTES_MAX) | st.sampled_from([1024**power * count for power in range(5) for count in (1, 3)])
)
def test_a_size_is_read_back_as_it_was_written(size_bytes: int) -> None:
    assert parse_bytes(format_bytes(size_bytes)) == size_bytes


@pytest.mark.parametrize("module", [values, calls])
def test_the_examples_in_the_docstrings_hold(module: object) -> None:
    results = doctest.testmod(module)  # type: ignore[arg-type]  # any module
    assert results.attempted > 0
    assert results.failed == 0
