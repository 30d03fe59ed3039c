"""Reads of plain keys: their rows without arrays of keys, which cost a read of one key as much as one of hundreds.

A key is plain if it has one column of integers or strings, and its text is the only one of this key: `7`, and neither
`07` nor `[7]`. So the key in a row is that of the text, and need not be decoded. A part is plain if its columns behind
the key follow from the stored values alone (`Part.columns`).

Invariant (tests/queryable/test_points.py): the rows of plain keys are those of `read_keys`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from mixedmode.checkpoint.types import OperatorState
from mixedmode.keys.one import encode_integer, encode_text, key_group
from mixedmode.queryable.entries import EntryReader
from mixedmode.queryable.parts import StateView
from mixedmode.state.keys import range_of_group

__all__ = ["PlainKey", "PlainRows", "plain_key", "read_plain"]

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")


class PlainKey(NamedTuple):
    """A key: the value of its column, and its bytes."""

    value: int | str
    encoded: bytes


#: returns the plain key in a text.  Raises ValueError for another text, OverflowError for a number beyond the type
_Decode = Callable[[str], PlainKey]


def plain_key(text: str, fields: Sequence[pa.Field]) -> PlainKey | None:
    """Return the plain key in a text; None if the text or the key columns are others.  fields: the key columns."""
    keys = plain_keys([text], fields)
    return None if keys is None else keys[0]


def plain_keys(texts: Sequence[str], fields: Sequence[pa.Field]) -> list[PlainKey] | None:
    """Return the plain key in each text; None if one is none.  fields: the key columns."""
    kind = fields[0].type if len(fields) == 1 else pa.null()
    if pa.types.is_signed_integer(kind):
        decode: _Decode = partial(_integer_key, bits=kind.bit_width)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        decode = _text_key
    else:
        return None
    try:
        return [decode(text) for text in texts]
    except (OverflowError, ValueError):
        return None


def _integer_key(text: str, *, bits: int) -> PlainKey:
    if _INTEGER.fullmatch(text) is None:
        raise ValueError
    value = int(text)
    return PlainKey(value, encode_integer(value, bits=bits))


def _text_key(text: str) -> PlainKey:
    if text.startswith("["):
        raise ValueError
    return PlainKey(text, encode_text(text))


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
    part = view.part
    keys = None if part.columns is None else plain_keys(texts, view.key_fields)
    if part.columns is None or keys is None:
        return None
    groups = [key_group(key.encoded, max_parallelism=max_parallelism) for key in keys]
    stored = [range_of_group(group, part.state_id)[0] + key.encoded for group, key in zip(groups, keys, strict=True)]
    values = list[bytes]()
    places = list[int | None]()
    for value in entries.values(operator, part.state_id, groups, stored):
        places.append(None if value is None else len(values))
        if value is not None:
            values.append(value)
    return PlainRows(part.name, view.key_fields[0].name, keys, stored, places, part.columns(values))
