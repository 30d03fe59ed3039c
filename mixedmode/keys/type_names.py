"""Names of the types that keys, arguments and stored rows may have, as text for documents.

Invariant (tests/keys/test_type_names.py): type_named(type_name(t)) == t for every type that can be a key.
"""

import re

import pyarrow as pa

__all__ = ["type_name", "type_named"]

_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")
_DECIMAL = re.compile(r"decimal128\((\d+), (-?\d+)\)")


def type_name(data_type: pa.DataType) -> str:
    """Return the name of a type."""
    name = str(data_type)
    assert type_named(name) == data_type, data_type
    return name


def type_named(name: str) -> pa.DataType:
    """Return the type with this name. Raise ValueError for a name that `type_name` does not return."""
    timestamp = _TIMESTAMP.fullmatch(name)
    if timestamp is not None:
        return pa.timestamp(timestamp[1], timestamp[2])
    decimal = _DECIMAL.fullmatch(name)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return pa.type_for_alias(name)
