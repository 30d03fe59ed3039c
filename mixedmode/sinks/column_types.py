"""The types of an output's columns: by the names in the description of the output (`str` of the Arrow type), and what
a format cannot hold of them.
"""

import re
from collections.abc import Callable, Mapping

import pyarrow as pa

__all__ = ["has_empty_struct", "has_keys_with_parts", "has_plain_names", "type_of"]

_PLAIN_TYPES: Mapping[str, pa.DataType] = {
    str(data_type): data_type
    for data_type in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.date32()),
        *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.timestamp("us"), pa.null()),
        *(pa.time64("us"), pa.time64("ns"), pa.duration("us")),
    )
}
_PARAMETERS: Mapping[re.Pattern[str], Callable[[re.Match[str]], pa.DataType]] = {
    re.compile(r"decimal128\((\d+), (-?\d+)\)"): lambda found: pa.decimal128(int(found[1]), int(found[2])),
    re.compile(r"timestamp\[us, tz=([^\]]+)\]"): lambda found: pa.timestamp("us", found[1]),
}
_NOT_NULL = " not null"
_NAME_ENDS = ": "


class _RareTypeError(Exception):
    """A text that begins with no type of this module."""


def type_of(text: str) -> pa.DataType | None:
    """Return the type whose `str` is `text`; None for a rare type. Requires that no field has `: ` in its name."""
    try:
        data_type, rest = _type(text)
    except _RareTypeError:
        return None
    return None if rest else data_type


def has_plain_names(data_type: pa.DataType) -> bool:
    """Return whether `type_of` finds the type, which it cannot by the name of a field that has `: ` in it."""
    return all(_NAME_ENDS not in field.name and has_plain_names(field.type) for field in _parts(data_type))


def has_empty_struct(data_type: pa.DataType) -> bool:
    """Return whether a type is a struct without fields, or has one inside."""
    fields = _parts(data_type)
    return (pa.types.is_struct(data_type) and not fields) or any(has_empty_struct(field.type) for field in fields)


def has_keys_with_parts(data_type: pa.DataType) -> bool:
    """Return whether a type is a map whose keys are structs, lists or maps, or has one inside."""
    is_one = pa.types.is_map(data_type) and pa.types.is_nested(data_type.key_type)
    return bool(is_one) or any(has_keys_with_parts(field.type) for field in _parts(data_type))


def _parts(data_type: pa.DataType) -> list[pa.Field]:
    """Return the fields of a nested type; [] for another type."""
    return [data_type.field(number) for number in range(data_type.num_fields)]


def _type(text: str) -> tuple[pa.DataType, str]:
    """Return the type that a text begins with, and the rest of the text."""
    for name, plain in _PLAIN_TYPES.items():
        if text.startswith(name):
            return plain, text[len(name) :]
    for pattern, parse in _PARAMETERS.items():
        if match := pattern.match(text):
            return parse(match), text[match.end() :]
    kind, _, inner = text.partition("<")
    if kind == "map":
        key, rest = _type(inner)
        item, rest = _type(_after(", ", rest))
        return pa.map_(key, item), _after(">", rest)
    if kind not in ("list", "large_list", "struct"):
        raise _RareTypeError(text)
    fields, rest = _fields(inner)
    if kind == "struct":
        return pa.struct(fields), rest
    if len(fields) != 1:
        raise _RareTypeError(text)
    return (pa.list_ if kind == "list" else pa.large_list)(fields[0]), rest


def _fields(text: str) -> tuple[list[pa.Field], str]:
    """Return the fields that a text begins with, and what follows the bracket that closes them."""
    fields: list[pa.Field] = []
    while not text.startswith(">"):
        name, _, text = (_after(", ", text) if fields else text).partition(_NAME_ENDS)
        data_type, text = _type(text)
        fields.append(pa.field(name, data_type, nullable=not text.startswith(_NOT_NULL)))
        text = text.removeprefix(_NOT_NULL)
    return fields, text[1:]


def _after(sign: str, text: str) -> str:
    if not text.startswith(sign):
        raise _RareTypeError(text)
    return text.removeprefix(sign)
