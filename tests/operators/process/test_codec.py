"""The row of a key: its bytes, pinned, and what is said of bytes that are no row."""

from typing import Any

import pytest

from mixedmode.errors import CorruptStateError
from mixedmode.operators.process import ListState, MapState, Ttl, ValueState
from mixedmode.operators.process.codec import KeyCodec

STATES: dict[str, Any] = {
    "count": ValueState(int, default=0),
    "name": ValueState(str, ttl=Ttl("1s")),
    "items": ListState(int),
    "seen": MapState(str, int, ttl=Ttl("1s")),
}


def filled(codec: KeyCodec) -> Any:
    row: Any = codec.new_row()
    row.v_count, row.v_name, row.e_name, row.v_items, row.s_seen, row.e_seen = 300, "é", 5, [1, 2], 2, 7
    return row


def test_the_layout_of_a_row_is_pinned() -> None:
    codec = KeyCodec(STATES)
    assert codec.pack(filled(codec)) == (
        b"\x01\x86"
        b"\xa5count\xcd\x01\x2c"
        b"\xa4name\xa2\xc3\xa9"
        b"\xacname:expires\x05"
        b"\xa5items\x92\x01\x02"
        b"\xa9seen:size\x02"
        b"\xacseen:expires\x07"
    )


def test_a_row_comes_back_as_it_was() -> None:
    codec = KeyCodec(STATES)
    packed = codec.pack(filled(codec))
    assert packed is not None
    assert codec.unpack(packed) == filled(codec)


def test_a_row_with_nothing_in_it_has_no_bytes() -> None:
    for count in (0, 1, 20):  # msgpack has several kinds of map
        codec = KeyCodec({f"s{i}": ValueState(int) for i in range(count)})
        assert codec.pack(codec.new_row()) is None


def test_what_a_program_does_not_know_is_left_out_and_what_it_lacks_is_unset() -> None:
    codec, other = KeyCodec(STATES), KeyCodec({"count": STATES["count"], "more": ValueState(int)})
    packed = codec.pack(filled(codec))
    assert packed is not None
    row = other.unpack(packed)
    assert row.v_count == 300
    assert other.pack(row) == b"\x01\x81\xa5count\xcd\x01\x2c"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (b"\x09\x80", "has a version that this program does not know. .* version=9, version_known=1"),
        (b"\x01\xc1", "does not fit the types that the function declares.*reason=MessagePack data is malformed"),
        (b"\x01\x81\xa5count\xa1x", "reason=Expected `int`, got `str` - at `\\$.count`"),
        (b"\x01", "reason=Input data was truncated"),
    ],
)
def test_bytes_that_are_no_row_are_refused(damage: bytes, message: str) -> None:
    with pytest.raises(CorruptStateError, match=message):
        KeyCodec(STATES).unpack(damage)
