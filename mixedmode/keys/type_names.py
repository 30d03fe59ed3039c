"""Names of the types that keys, arguments and stored rows may have, for documents in JSON.

A type with parts is an object: {"list": "int32"}, {"map": ["string", "int32"]}, {"struct": [["x", "int32"]]}.

Invariant (tests/keys/test_type_names.py): type_named(type_name(t)) == t for every type that can be a key or stored.
"""

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

__all__ = ["TypeName", "type_name", "type_named"]

TypeName = str | Mapping[str, Any]

_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")
_DECIMAL = re.compile(r"decimal128\((\d+), (-?\d+)\)")


def type_name(data_type: pa.DataType) -> TypeName:
    """Return the name of a type."""
    name: TypeName = str(data_type)
    if pa.types.is_struct(data_type):
        name = {"struct": [[field.name, type_name(field.type)] for field in data_type]}
    elif pa.types.is_map(data_type):
        name = {"map": [type_name(data_type.key_type), type_name(data_type.item_type)]}
    elif pa.types.is_list(data_type):
        name = {"list": type_name(data_type.value_type)}
    assert type_named(name) == data_type, data_type
    return name


def type_named(name: TypeName) -> pa.DataType:
    """Return the type with this name. Raise ValueError for a name that `type_name` does not return."""
    if not isinstance(name, str):
        return _with_parts(name)
    timestamp = _TIMESTAMP.fullmatch(name)
    if timestamp is not None:
        return pa.timestamp(timestamp[1], timestamp[2])
    decimal = _DECIMAL.fullmatch(name)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return pa.type_for_alias(name)


def _with_parts(name: Mapping[str, Any]) -> pa.DataType:
    match name:
        case {"struct": fields}:
            return pa.struct([(field, type_named(own)) for field, own in fields])
        case {"map": [key, item]}:
            return pa.map_(type_named(key), type_named(item))
        case {"list": value}:
            return pa.list_(type_named(value))
    msg = f"no name of a type: {name}"
    raise ValueError(msg)
