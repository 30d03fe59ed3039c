"""Points in time in texts: exactly what the text says, or refused."""

import doctest
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mixedmode
from mixedmode.config import instants
from mixedmode.config.instants import milliseconds_from, parse_instant, parse_time
from mixedmode.config.starts import StartPoint
from mixedmode.connectors.history.spec import SeamSpec
from mixedmode.connectors.kafka.source_spec import StartingSpec
from mixedmode.driver.backfill import backfill_range
from mixedmode.errors import InvalidJobError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
TIMES = st.tuples(st.integers(-(10**16), 10**17), ZONES).map(
    lambda of: (EPOCH + timedelta(microseconds=of[0])).astimezone(of[1])
)
#: modules that call `fromisoformat`: the parser, and one that reads the texts that this program writes itself
PARSERS = {"config/instants.py", "sinks/json_rows.py"}


@given(TIMES)
def test_every_microsecond_survives(at: datetime) -> None:
    assert parse_instant(at.isoformat()) == at
    assert parse_time(at.replace(tzinfo=None).isoformat()) == at.replace(tzinfo=None)


@pytest.mark.parametrize("digits", ["0000001", "000000000001", "1234567", "12345600000009"])
@pytest.mark.parametrize("point", [".", ","])
@pytest.mark.parametrize("zone", ["Z", "+01:00", ""])
def test_a_time_finer_than_a_microsecond_is_refused(digits: str, point: str, zone: str) -> None:
    assert parse_time(f"2026-11-24T08:00:00{point}{digits}{zone}") is None
    exact = parse_time(f"2026-11-24T08:00:00{point}{digits[:6]}000{zone}")
    assert exact is not None
    assert exact.microsecond == int(digits[:6])


@pytest.mark.parametrize("text", ["", "soon", "2026-11-24T08:00:00", "0001-01-01T00:00:00+01:00", "2026-13-01T00:00Z"])
def test_a_text_that_is_no_instant_is_none(text: str) -> None:
    assert parse_instant(text) is None


@given(st.integers(-(10**15), 10**15))
def test_a_record_of_whole_milliseconds_is_at_or_after_the_instant_if_it_is_after_the_millisecond(us: int) -> None:
    at = EPOCH + timedelta(microseconds=us)
    first = milliseconds_from(at)
    assert 1000 * (first - 1) < us <= 1000 * first


@pytest.mark.parametrize("text", ["2026-11-24T08:00:00.0000001Z", "2026-11-24T08:00:00.1234567+01:00"])
def test_every_setting_that_is_an_instant_refuses_what_it_would_cut_off(text: str) -> None:
    later = "2027-01-01T00:00:00Z"
    for parse in (
        lambda: StartPoint.parse(text),
        lambda: backfill_range(text, later),
        lambda: backfill_range("2020-01-01T00:00:00Z", text),
        lambda: SeamSpec(timestamp=text),
        lambda: StartingSpec(timestamp=text),
    ):
        with pytest.raises((InvalidJobError, ValueError), match=r"at most microseconds|refused"):
            parse()


def test_no_other_module_parses_times() -> None:
    package = Path(mixedmode.__file__).parent
    found = {str(path.relative_to(package)) for path in package.rglob("*.py") if "fromisoformat" in path.read_text()}
    assert found == PARSERS
    assert not [path for path in package.rglob("*.py") if re.search(r"strptime\(", path.read_text())]


def test_the_examples_are_right() -> None:
    assert doctest.testmod(instants).failed == 0
