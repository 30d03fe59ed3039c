"""Reads of plain keys: their rows without arrays of keys, which cost a read of one key as much as one of hundreds.

A key is plain if it has one column of integers or strings, and its text is the only one of this key: `7`, and neither
`07` nor `[7]`. So the key in a row is that of the text, and need not be decoded. A part is plain if its columns behind
the key follow from the stored values alone (`Part.columns`).

Invariant (tests/queryable/test_points.py): the rows of plain keys are those of `read_keys`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mixedmode.checkpoint.types import OperatorState
from mixedmode.keys.one import encode_integer, encode_text, key_group
from mixedmode.queryable.entries import EntryReader
from mixedmode.queryable.parts import StateView
from mixedmode.state.keys import range_of_group

__all__ = ["PlainKey", "PlainRows", "plain_key", "read_plain"]

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class PlainKey:
    """A key: the value of its column, and its bytes."""

    value: int | str
    encoded: bytes


def plain_key(text: str, fields: Sequence[pa.Field]) -> PlainKey | None:
    """Return the plain key in a text; None if the text or the key columns are others.  fields: the key columns."""
    if len(fields) != 1 or text.startswith("["):
        return None
    kind = fields[0].type
    try:
        if pa.types.is_signed_integer(kind):
            if _INTEGER.fullmatch(text) is None:
                return None
            return PlainKey(int(text), encode_integer(int(text), bits=kind.bit_width))
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return PlainKey(text, encode_text(text))
    except (OverflowError, UnicodeEncodeError):
        pass
    return None


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Rows of plain keys (n,).

    `stored` (n,) are the stored keys, by which rows are ordered. `places` (n,) are the rows of the keys in `columns`,
    None for a key without state.
    """

    name: str  #: of the part
    key_name: str
    keys: Sequence[PlainKey]
    stored: Sequence[bytes]
    places: Sequence[int | None]
    columns: Mapping[str, pa.Array | Sequence[Any]]  #: behind the key


def read_plain(
    entries: EntryReader, operator: OperatorState, view: StateView, texts: Sequence[str], *, max_parallelism: int
) -> PlainRows | None:
    """Return the rows of keys in texts; None if a key or the part is not plain."""
    part, keys = view.part, list[PlainKey]()
    if part.columns is None:
        return None
    for text in texts:
        key = plain_key(text, view.key_fields)
        if key is None:
            return None
        keys.append(key)
    groups = [key_group(key.encoded, max_parallelism=max_parallelism) for key in keys]
    stored = [range_of_group(group, part.state_id)[0] + key.encoded for group, key in zip(groups, keys, strict=True)]
    values = list[bytes]()
    places = list[int | None]()
    for value in entries.values(operator, part.state_id, groups, stored):
        places.append(None if value is None else len(values))
        if value is not None:
            values.append(value)
    return PlainRows(part.name, view.key_fields[0].name, keys, stored, places, part.columns(values))
