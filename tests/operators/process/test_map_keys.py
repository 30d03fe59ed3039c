"""Keys that are equal have one form and equal bytes; keys that differ have bytes that differ."""

import dataclasses
import math
from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.operators.process import MapState
from mixedmode.operators.process.map_keys import encoder, in_order, one_form


class Pair(NamedTuple):
    first: float
    second: Decimal


@dataclasses.dataclass(frozen=True)
class Place:
    at: float
    name: str


class Fixed(msgspec.Struct, frozen=True):
    price: Decimal


OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))
FLOATS = st.sampled_from([0.0, -0.0, 1.0, 1.5, -1e300, math.inf, math.nan, float("nan"), -float("nan")])
DECIMALS = st.builds(
    lambda digits, exponent: Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), exponent)),
    st.sampled_from([0, 1, 10, 15, -15, 150, 10**20]),
    st.integers(-3, 3),
) | st.sampled_from([Decimal("nan"), Decimal("-nan"), Decimal("inf"), Decimal("-0"), Decimal("1E+400")])
TIMES = st.times(timezones=OFFSETS) | st.builds(
    lambda hour, minutes: time(hour, 30, tzinfo=timezone(timedelta(minutes=minutes))),
    st.integers(0, 23),
    st.sampled_from([-1439, -90, -60, 0, 60, 90, 1439]),
)
SCALARS = FLOATS | DECIMALS | TIMES | st.integers(-2, 2) | st.text(max_size=1) | st.none()
KEYS = (
    SCALARS
    | st.tuples(FLOATS, DECIMALS)
    | st.builds(Pair, FLOATS, DECIMALS)
    | st.builds(Place, FLOATS, st.sampled_from(["a", "b"]))
    | st.builds(Fixed, DECIMALS)
    | st.frozensets(st.sampled_from(["a", "b", "c"]))
)


def is_nan(value: Any) -> bool:
    return isinstance(value, float | Decimal) and value != value  # noqa: PLR0124


def equal(a: Any, b: Any) -> bool:
    """Return whether two keys of one type are one key: they are equal in Python, or both are NaN."""
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, Place):
        return equal(a.at, b.at) and a.name == b.name
    if isinstance(a, Fixed):
        return equal(a.price, b.price)
    return bool(a == b) or (is_nan(a) and is_nan(b))


@given(KEYS, KEYS)
def test_keys_have_equal_bytes_if_and_only_if_they_are_equal(a: Any, b: Any) -> None:
    if type(a) is not type(b):
        return  # the keys of a state have one type
    forms = (one_form(a), one_form(b))
    assert (encoder(forms[0]) == encoder(forms[1])) == equal(a, b)
    assert ({forms[0]: 1}.get(forms[1]) == 1) == equal(a, b), "in a dict, too"


@given(KEYS)
def test_a_form_is_the_key_itself_to_python_and_has_no_other_form(key: Any) -> None:
    assert equal(one_form(key), key)
    assert type(one_form(key)) is type(key)
    assert encoder(one_form(one_form(key))) == encoder(one_form(key))


def test_sets_have_equal_bytes_in_any_order() -> None:
    assert encoder(frozenset(["a", "b", "c"])) == encoder(frozenset(["c", "a", "b"]))


def test_nan_is_the_greatest_key() -> None:
    assert sorted([math.nan, 2.0, -math.inf, math.inf], key=in_order)[:3] == [-math.inf, 2.0, math.inf]
    assert sorted([(math.nan, "a"), (1.0, "b")], key=in_order) == [(1.0, "b"), (math.nan, "a")]


@pytest.mark.parametrize("key", [1, "a", b"a", None, datetime(2001, 1, 1), timedelta(1), True])  # noqa: DTZ001
def test_other_keys_stay_as_they_are(key: Any) -> None:
    assert one_form(key) is key


@pytest.mark.parametrize(
    "key_type",
    [int | float, bool | int | None, Decimal | float, tuple[int | float, str], tuple[str, tuple[bool | int]]],
)
def test_numbers_of_several_types_are_no_keys_as_they_are_equal_and_their_bytes_differ(key_type: Any) -> None:
    with pytest.raises(InvalidJobError, match="the numbers in the keys of a map state have one type"):
        MapState(key_type, int)


@pytest.mark.parametrize("key_type", [int, int | None, int | str, float | str, tuple[int, float], bool | str])
def test_numbers_of_one_type_are_keys(key_type: Any) -> None:
    assert MapState(key_type, int).kind == "map"
