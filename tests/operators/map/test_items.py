"""Items of list state as text: they come back as what they were, or are refused when they are put in."""

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.operators.map.items import ItemCodec, ItemMismatchError

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.integers(-(10**15), 10**15).map(lambda us: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us))
)
KEYS = st.text() | st.integers(-(2**63), 2**63 - 1) | st.binary()
PLAIN = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4))


class Color(enum.Enum):
    RED = "red"


@dataclass
class Range:
    start: int
    end: int
    tags: tuple[str, ...] = ()


@given(st.lists(PLAIN, max_size=5))
def test_plain_values_come_back_as_they_were(items: list[Any]) -> None:
    codec = ItemCodec(Any)
    found = codec.unpack(codec.pack(items))
    assert found == items
    assert repr(found) == repr(items), "1 is not 1.0, and True is not 1"


@given(st.lists(st.builds(Range, st.integers(0, 9), st.integers(0, 9), st.lists(st.text()).map(tuple)), max_size=3))
def test_items_of_a_declared_type_come_back_as_that_type(items: list[Range]) -> None:
    codec = ItemCodec(Range)
    assert codec.unpack(codec.pack(items)) == items


@pytest.mark.parametrize(
    ("item_type", "item"),
    [
        (int, 5),
        (str, "ü"),
        (Decimal, Decimal("1.50")),
        (Color, Color.RED),
        (date, date(2001, 1, 1)),
        (int | None, None),
    ],
)
def test_scalars_of_a_declared_type_come_back(item_type: Any, item: Any) -> None:
    codec = ItemCodec(item_type)
    assert codec.unpack(codec.pack([item])) == [item]


def test_a_number_of_numpy_is_taken_for_a_declared_number() -> None:
    codec = ItemCodec(int)
    assert [type(item) for item in codec.unpack(codec.pack([np.int64(3)]))] == [int]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ((1, 2), "it holds a tuple; without an item_type, an item is made of None, bool, int, float, str, bytes,"),
        ([{1, 2}], "it holds a set"),
        (Range(1, 2), "it holds a Range"),
        (datetime.fromisoformat("2001-01-01"), "it holds a datetime"),
        (Decimal(1), "it holds a Decimal"),
        (np.int64(3), "it holds a int64"),
        ({(1, 2): 3}, "a key is a tuple"),
        (2**70, "item 1 of snapshot cannot be kept: "),
    ],
)
def test_what_would_come_back_as_something_else_is_refused(item: Any, reason: str) -> None:
    with pytest.raises(ItemMismatchError) as caught:
        ItemCodec(Any).pack(["fine", item])
    assert str(caught.value).startswith("item 1 of snapshot cannot be kept: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize(("item_type", "item"), [(int, "5"), (str, 5), (Range, {"start": "x", "end": 2}), (Range, 3)])
def test_an_item_of_another_type_than_declared_is_refused(item_type: Any, item: Any) -> None:
    with pytest.raises(ItemMismatchError, match="item 0 of snapshot cannot be kept"):
        ItemCodec(item_type).pack([item])


@pytest.mark.parametrize("result", [None, "abc", {"a": 1}, 5])
def test_a_snapshot_that_is_no_list_is_refused(result: Any) -> None:
    with pytest.raises(
        ItemMismatchError, match=f"snapshot must return a list, and it returned a {type(result).__name__}"
    ):
        ItemCodec(Any).pack(result)


def test_a_time_in_another_zone_comes_back_as_the_same_instant() -> None:
    codec = ItemCodec(Any)
    when = datetime(2001, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert codec.unpack(codec.pack([when])) == [when]


def test_the_text_of_an_item_is_pinned() -> None:
    """Golden: a change of the layout takes a new version, and keeps reading this one."""
    assert ItemCodec(Any).pack([7, "a", {"n": [1.5, None]}]) == ("AQc=", "AaFh", "AYGhbpLLP/gAAAAAAADA")
    assert ItemCodec(Range).pack([Range(1, 2, ("x",))]) == ("AYOlc3RhcnQBo2VuZAKkdGFnc5GheA==",)


def test_a_type_that_cannot_be_stored_is_refused_before_anything_is_kept() -> None:
    with pytest.raises(InvalidJobError, match="a state cannot hold this type"):
        ItemCodec(object)


def test_a_field_with_a_default_may_be_added_and_another_type_is_refused() -> None:
    class Longer(msgspec.Struct):
        start: int
        end: int
        note: str = "none"

    texts = ItemCodec(Range).pack([Range(1, 2)])
    assert ItemCodec(Longer).unpack(texts) == [Longer(1, 2)]
    with pytest.raises(InvalidJobError) as caught:
        ItemCodec(str).unpack(texts)
    assert str(caught.value).startswith(
        "the list of a map function was stored with items of another type, and this version of the function cannot "
        "read it: Expected `str`, got `object`. Put item_type back (a new field needs a default), or give the job a new"
    )


@pytest.mark.parametrize("text", ["not base64!", "", "Agc="])
def test_what_is_no_item_is_damage(text: str) -> None:
    with pytest.raises(CorruptStateError, match=r"(an item of list state is damaged|has a version that this program)"):
        ItemCodec(Any).unpack([text])
