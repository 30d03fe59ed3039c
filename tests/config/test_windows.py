"""Windows in a job: the spellings of each kind, what is refused, and that a window is written as it was given."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.config import (
    CumulatingSpec,
    GlobalSpec,
    SessionSpec,
    SlidingSpec,
    TumblingSpec,
    WindowSpec,
    format_duration_ms,
)
from tests.config.refusals import messages

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
NOT_A_DURATION = (
    "this is not a duration. Write whole numbers with their units, largest unit first, such as 500ms, 1s, 10m, 1h, 2d "
    "or 1h30m, or a bare 0."
)


def window(**kind: Any) -> WindowSpec:
    return WindowSpec.model_validate(kind)


@pytest.mark.parametrize("shape", [{"tumbling": "1h"}, {"tumbling": {"size": "60m"}}])
def test_a_tumbling_window_may_be_given_by_its_size_alone(shape: dict[str, Any]) -> None:
    kind = WindowSpec.model_validate(shape).kind
    assert isinstance(kind, TumblingSpec)
    assert (kind.size_ms, kind.offset_ms, kind.time_zone) == (HOUR_MS, 0, None)


def test_a_day_window_has_an_offset_and_a_time_zone() -> None:
    kind = window(tumbling={"size": "1d", "offset": "6h", "time-zone": "Europe/Berlin"}).kind
    assert isinstance(kind, TumblingSpec)
    assert (kind.size_ms, kind.offset_ms, kind.time_zone) == (DAY_MS, 6 * HOUR_MS, "Europe/Berlin")


def test_a_sliding_window_has_size_and_slide() -> None:
    kind = window(sliding={"size": "1h", "slide": "10m"}).kind
    assert isinstance(kind, SlidingSpec)
    assert (kind.size_ms, kind.slide_ms, kind.offset_ms, kind.time_zone) == (HOUR_MS, 10 * MINUTE_MS, 0, None)


def test_a_slide_need_not_divide_the_size() -> None:
    kind = window(sliding={"size": "1h", "slide": "7m"}).kind
    assert isinstance(kind, SlidingSpec)
    assert kind.slide_ms == 7 * MINUTE_MS


@pytest.mark.parametrize("shape", [{"session": "30m"}, {"session": {"gap": "30m"}}])
def test_a_session_may_be_given_by_its_gap_alone(shape: dict[str, Any]) -> None:
    kind = WindowSpec.model_validate(shape).kind
    assert isinstance(kind, SessionSpec)
    assert kind.gap_ms == 30 * MINUTE_MS


def test_a_cumulating_window_has_size_and_step() -> None:
    kind = window(cumulating={"size": "1d", "step": "1h", "time-zone": None}).kind
    assert isinstance(kind, CumulatingSpec)
    assert (kind.size_ms, kind.step_ms, kind.offset_ms, kind.time_zone) == (DAY_MS, HOUR_MS, 0, None)


def test_a_global_window_has_a_count() -> None:
    kind = window(**{"global": {"count": 100}}).kind
    assert isinstance(kind, GlobalSpec)
    assert kind.count == 100


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [" names no kind of window. Give it one of tumbling, sliding, session, cumulating, global."]),
        (
            {"tumbling": "1h", "session": "1h"},
            [" names several kinds of window. Keep one. found=tumbling, session"],
        ),
        (
            {"hopping": "1h"},
            [
                (
                    "hopping is not a known key. Did you mean sliding? Known keys here: tumbling, sliding, session, "
                    "cumulating, global, time."
                )
            ],
        ),
        ({"tumbling": "1 hour"}, [f"tumbling.size: {NOT_A_DURATION} found=1 hour"]),
        ({"tumbling": 3600}, [f"tumbling.size: {NOT_A_DURATION} found=3600"]),
        ({"tumbling": 0}, ["tumbling.size must be more than 0. found=0"]),
        ({"tumbling": {"offset": "1m"}}, ["tumbling.size is missing: length of a window. Add it."]),
        (
            {"tumbling": "36501d"},
            ["tumbling.size is longer than event times can be moved. Write at most 36500d. found=36501d"],
        ),
        (
            {"tumbling": {"size": "1h", "offset": "1h"}},
            ["tumbling.offset must be less than size, after which windows repeat. size=1h, offset=1h"],
        ),
        (
            {"tumbling": {"size": "1h", "slide": "10m"}},
            [
                (
                    "tumbling.slide is not a known key. Did you mean steps[].window.sliding.slide or "
                    "steps[].co-group.window.sliding.slide? Known keys here: size, offset, time-zone."
                )
            ],
        ),
        (
            {"tumbling": {"size": "36h", "time-zone": "Europe/Berlin"}},
            [
                (
                    "tumbling.time-zone is for windows of whole days, whose length differs from place to place and "
                    "from day to day. Remove it, or count in days. size=1d12h"
                )
            ],
        ),
        (
            {"tumbling": {"size": "1d", "time-zone": "Europe/Berln"}},
            [
                (
                    "tumbling.time-zone: this time zone is not known. Write its name in the IANA database, such as "
                    "Europe/Berlin. Did you mean Europe/Berlin? found=Europe/Berln"
                )
            ],
        ),
        (
            {"tumbling": {"size": "1d", "time-zone": "../etc"}},
            [
                (
                    "tumbling.time-zone: this time zone is not known. Write its name in the IANA database, such as "
                    "Europe/Berlin. found=../etc"
                )
            ],
        ),
        *(
            (
                {"tumbling": {"size": "1d", "time-zone": name}},
                [
                    (
                        "tumbling.time-zone: this time zone is not known. Write its name in the IANA database, such as "
                        f"Europe/Berlin. found={name}"
                    )
                ],
            )
            for name in ("localtime", "posixrules", "right/UTC")
        ),
        ({"tumbling": {"size": "1d", "time-zone": ""}}, ["tumbling.time-zone must not be empty."]),
        (
            {"sliding": "1h"},
            ["sliding.slide is missing: time from the start of one window to the start of the next. Add it."],
        ),
        (
            {"sliding": {"size": "10m", "slide": "1h"}},
            [
                (
                    "sliding.slide is more than size, so records between two windows would be lost. Make it at most "
                    "size. size=10m, slide=1h"
                )
            ],
        ),
        (
            {"sliding": {"size": "1d", "slide": "1s"}},
            [
                (
                    "sliding.slide puts every record into 86400 windows, and at most 10000 are possible. Make it "
                    "longer. size=1d, slide=1s"
                )
            ],
        ),
        (
            {"sliding": {"size": "2d", "slide": "12h", "time-zone": "Asia/Tokyo"}},
            [
                (
                    "sliding.time-zone is for windows of whole days, whose length differs from place to place and "
                    "from day to day. Remove it, or count in days. size=2d, slide=12h"
                )
            ],
        ),
        (
            {"cumulating": {"size": "1d", "step": "7h"}},
            ["cumulating.step must divide size, so that the last window is whole. size=1d, step=7h"],
        ),
        (
            {"cumulating": {"size": "1h", "step": "1d"}},
            ["cumulating.step must divide size, so that the last window is whole. size=1h, step=1d"],
        ),
        ({"session": {}}, ["session.gap is missing: a session ends when no record comes for this long. Add it."]),
        ({"session": ["30m"]}, ["session.gap: " + NOT_A_DURATION + " found=['30m']"]),
        ({"global": 100}, ["global must be a section of keys, not a whole number. Known keys here: count. found=100"]),
        ({"global": {"count": 0}}, ["global.count must be at least 1. found=0"]),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(given: dict[str, Any], expected: list[str]) -> None:
    assert messages(WindowSpec, given) == expected


_sizes = st.integers(1, 10_000)


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    """Any valid window, as a job file writes it."""
    kind = draw(st.sampled_from(["tumbling", "sliding", "session", "cumulating", "global"]))
    if kind == "session":
        return {kind: {"gap": format_duration_ms(draw(st.integers(1, DAY_MS)))}}
    if kind == "global":
        return {kind: {"count": draw(st.integers(1, 10**6))}}
    is_local = draw(st.booleans())
    unit_ms = DAY_MS if is_local else draw(st.sampled_from([1, 1_000, HOUR_MS]))
    part, count = draw(st.integers(1, 5)), draw(st.integers(1, 1_000))
    size_ms = part * count * unit_ms
    given: dict[str, Any] = {"size": format_duration_ms(size_ms)}
    if draw(st.booleans()):
        given["offset"] = format_duration_ms(draw(st.integers(0, size_ms - 1)))
    if is_local:
        given["time-zone"] = draw(st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns"]))
    if kind == "sliding":
        given["slide"] = format_duration_ms(draw(st.integers(part, part * count)) * unit_ms)
    if kind == "cumulating":
        given["step"] = format_duration_ms(part * unit_ms)
    return {kind: given}


@given(windows())
def test_a_window_is_the_same_when_it_is_read_from_its_own_document(shape: dict[str, Any]) -> None:
    spec = WindowSpec.model_validate(shape)
    document = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    assert WindowSpec.model_validate(document) == spec, document


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ({"tumbling": {"size": "60m"}}, {"tumbling": "1h"}),
        ({"session": {"gap": "30m"}}, {"session": "30m"}),
        ({"tumbling": {"size": "1d", "offset": "6h"}}, {"tumbling": {"size": "1d", "offset": "6h"}}),
        ({"sliding": {"size": "1h", "slide": "10m", "offset": 0}}, {"sliding": {"size": "1h", "slide": "10m"}}),
        ({"global": {"count": 5}}, {"global": {"count": 5}}),
    ],
)
def test_a_window_is_written_in_its_shortest_form(shape: dict[str, Any], expected: dict[str, Any]) -> None:
    document = WindowSpec.model_validate(shape).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    assert document == expected
