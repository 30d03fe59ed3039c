"""Encoding of the items of a list state as text, and decoding.

Layout: base64 of  version u8 | msgpack of the value.  Pinned by golden text in tests/operators/map/test_items.py; a
change of it needs a new version number, and must still read the old version.

An item that is accepted is restored unchanged; any other item is rejected at once. With a declared type, the encoded
bytes are decoded as this type as a check. Without one, an item may contain only values that MessagePack preserves.

Source: https://github.com/msgpack/msgpack/blob/master/spec.md; nothing is ever pickled.
"""

import base64
import binascii
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.operators.process.codec import UNSTORABLE
from mixedmode.operators.process.descriptions import describe, written
from mixedmode.operators.process.scalars import scalar_of

__all__ = ["ItemCodec", "ItemMismatchError"]

VERSION = 1
_VERSION_BYTE = bytes([VERSION])
_PLAIN = (bool, int, float, str, bytes)
_ADVICE = (
    "without an item_type, an item is made of None, bool, int, float, str, bytes, datetime with a time zone, and lists "
    "and dicts of these; others would come back as something else. Declare item_type in the class"
)


class ItemMismatchError(Exception):
    """An item cannot be kept. The text says which item, and why."""


class ItemCodec:
    """Codec for items of one type. The type Any allows all values that MessagePack preserves."""

    def __init__(self, item_type: Any) -> None:
        """Raise InvalidJobError if values of the type cannot be stored and read again."""
        self._item_type = item_type
        if item_type is not Any:
            describe(item_type)
        self._scalar = None if item_type is Any else scalar_of(item_type)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(item_type).decode

    def pack(self, items: Any) -> tuple[str, ...]:
        """Return the text of each item. Raise ItemMismatchError for the first item that cannot be kept."""
        if not isinstance(items, list | tuple):
            msg = f"snapshot must return a list, and it returned a {type(items).__name__}: {items!r:.100}"
            raise ItemMismatchError(msg)
        return tuple(self._pack(number, item) for number, item in enumerate(items))

    def unpack(self, texts: Sequence[str]) -> list[Any]:
        """Return the items of their texts: the inverse of `pack`.

        Raise InvalidJobError for items of another type, and CorruptStateError for texts that are not items.
        """
        return [self._unpack(text) for text in texts]

    def _pack(self, number: int, item: Any) -> str:
        try:
            packed = self._encode(self._checked(item))
        except UNSTORABLE as error:
            msg = f"item {number} of snapshot cannot be kept: {error}. item={item!r:.100}"
            raise ItemMismatchError(msg) from error
        return base64.b64encode(_VERSION_BYTE + packed).decode()

    def _checked(self, item: Any) -> Any:
        if self._item_type is Any:
            _check_plain(item)
        elif self._scalar is not None:
            return self._scalar.convert(item)
        else:
            self._decode(self._encode(item))
        return item

    def _unpack(self, text: str) -> Any:
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            msg = f"an item of list state is damaged. Restore from an older checkpoint. item={text:.100}"
            raise CorruptStateError(msg) from error
        if data[:1] != _VERSION_BYTE:
            msg = (
                "an item of list state has a version that this program does not know. Start the program that wrote it, "
                f"or restore from an older checkpoint. version={data[:1].hex()}, version_known={VERSION}"
            )
            raise CorruptStateError(msg)
        try:
            return self._decode(data[1:])
        except msgspec.MsgspecError as error:
            msg = (
                "the list of a map function was stored with items of another type, and this version of the function "
                f"cannot read it: {error}. Put item_type back (a new field needs a default), or give the job a new "
                f"execution.checkpointing.dir and output. item_type={written(self._item_type)}"
            )
            raise InvalidJobError(msg) from error


def _check_plain(value: Any) -> None:
    """Raise TypeError for a value that MessagePack would restore as a different value."""
    found = type(value)
    if value is None or found in _PLAIN or (found is datetime and value.tzinfo is not None):
        return
    if found is list:
        for each in value:
            _check_plain(each)
    elif found is dict:
        for key, each in value.items():
            if type(key) not in _PLAIN:
                msg = f"a key is a {type(key).__name__}; {_ADVICE}"
                raise TypeError(msg)
            _check_plain(each)
    else:
        msg = f"it holds a {found.__name__}; {_ADVICE}"
        raise TypeError(msg)
