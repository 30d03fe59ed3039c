"""Encoding of a key's row as bytes, and decoding.

Layout of a value of the state "keys": version u8 | msgpack map {name: value}, where a name is

    <state>            the value of a single-valued state
    <state>:expires    expiry of the state, or of the first entry of a map to expire, in ms since 1970
    <state>:size       number of stored entries of a map

A state without a value is left out; a key without any values has no row. So a new version of a program may add a state
or a ttl, and may add a field with a default to a dataclass. Golden bytes in tests/operators/process/test_codec.py pin
the layout. A change of the layout needs a new version number, and must still read the old version.

Source: https://github.com/msgpack/msgpack/blob/master/spec.md; nothing is ever pickled.
"""

import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from mixedmode.errors import CorruptStateError
from mixedmode.operators.process.descriptions import is_immutable
from mixedmode.operators.process.states import SingleState, State, ValueState

VERSION = 1
_VERSION_BYTE = bytes([VERSION])
_UNSET: Any = msgspec.UNSET


#: the exceptions of msgspec for a value that cannot be stored, or could not be read again
UNSTORABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)


class StateMismatchError(Exception):
    """State that a function left cannot be stored. `index` is the index of the key in its chunk, if known."""

    def __init__(self, reason: str, index: int | None = None) -> None:
        super().__init__(reason)
        self.index = index


class KeyCodec:
    """Codec for the rows of a function's states. A row is an object with `v_`, `e_` and `s_` attributes."""

    def __init__(self, states: Mapping[str, State]) -> None:
        fields: list[tuple[str, Any, Any]] = []
        names: dict[str, str] = {}
        for name, state in states.items():
            if isinstance(state, SingleState):
                fields.append((f"v_{name}", state.value_type | msgspec.UnsetType, _UNSET))
                names[f"v_{name}"] = name
            else:
                fields.append((f"s_{name}", int, 0))
                names[f"s_{name}"] = f"{name}:size"
            if state.ttl_ms is not None:
                fields.append((f"e_{name}", int | msgspec.UnsetType, _UNSET))
                names[f"e_{name}"] = f"{name}:expires"
        row = msgspec.defstruct("Row", fields, rename=names, omit_defaults=True, gc=False)
        singles = [state for state in states.values() if isinstance(state, SingleState)]
        self.new_row = row  #: () -> an empty row
        self._encode = msgspec.msgpack.Encoder().encode
        self._nothing = self._encode(row())  # an empty map; its msgpack encoding depends on the number of fields
        self._decode = msgspec.msgpack.Decoder(row).decode
        #: (attribute of the value, of the expiry or "", bytes of the default) of states with a mutable default
        self._defaults = [
            (f"v_{name}", "" if state.ttl_ms is None else f"e_{name}", state.default_bytes)
            for name, state in states.items()
            if isinstance(state, ValueState) and state.default_bytes is not None
        ]
        self._has_composed = any(state.scalar is None for state in singles)
        self._changes_in_place = not all(is_immutable(state.value_type) for state in singles)

    def pack(self, row: Any) -> bytes | None:
        """Return the bytes of a row; None for an empty row. Raise one of UNSTORABLE.

        A mutable default that is as it was is left out: to read it is not to set it.
        """
        data = self._encode(self._without_defaults(row) if self._defaults else row)
        return None if data == self._nothing else _VERSION_BYTE + data

    def _without_defaults(self, row: Any) -> Any:
        unset = [
            name
            for value_name, expiry_name, default in self._defaults
            if (value := getattr(row, value_name)) is not _UNSET and self._encode(value) == default
            for name in (value_name, expiry_name)
            if name
        ]
        return msgspec.structs.replace(row, **dict.fromkeys(unset, _UNSET)) if unset else row

    def check(self, packed: bytes | None) -> None:
        """Raise one of UNSTORABLE unless every value has its declared type. Scalars were checked when they were set."""
        if self._has_composed and packed is not None:
            self._decode(packed[1:])

    def unpack(self, packed: bytes) -> Any:
        """Return the row of packed bytes: the inverse of `pack`. Raise CorruptStateError for invalid bytes."""
        if packed[0] != VERSION:
            msg = (
                "the state of a key has a version that this program does not know. Start the program that wrote it, or "
                f"restore from an older checkpoint. version={packed[0]}, version_known={VERSION}"
            )
            raise CorruptStateError(msg)
        try:
            return self._decode(packed[1:])
        except msgspec.MsgspecError as error:
            msg = (
                "the state of a key does not fit the types that the function declares, so it is damaged, or the types "
                f"have changed. Restore from an older checkpoint, or declare the types that wrote it. reason={error}"
            )
            raise CorruptStateError(msg) from error

    def saved(self, row: Any) -> Any:
        """Return an independent copy of a row, for `restored`. Raise as `pack` and `check` do."""
        data = self._encode(row)
        if not self._has_composed:
            return copy.copy(row)
        self._decode(data)
        return data if self._changes_in_place else copy.copy(row)

    def restored(self, saved: Any) -> Any:
        """Return the row that was saved."""
        return self._decode(saved) if isinstance(saved, bytes) else saved
