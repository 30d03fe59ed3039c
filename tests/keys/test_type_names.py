"""The name of a type leads back to the type."""

import json

import pyarrow as pa
import pytest

from mixedmode.keys.type_names import TypeName, type_name, type_named

TYPES = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.date32()),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.decimal128(38, 18), pa.decimal128(5, 0)),
    *(pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("us", "America/New_York")),
    pa.list_(pa.struct([("a b, c: d>", pa.map_(pa.string(), pa.decimal128(5, 2))), ("", pa.struct([]))])),
]


@pytest.mark.parametrize("data_type", TYPES, ids=str)
def test_a_type_is_found_by_its_name(data_type: pa.DataType) -> None:
    assert type_named(json.loads(json.dumps(type_name(data_type)))) == data_type


@pytest.mark.parametrize("name", ["decimal128(5)", "list<item: int64>", "no type", "", {"array": "int32"}, {"map": []}])
def test_other_names_are_refused(name: TypeName) -> None:
    with pytest.raises(ValueError, match=r"alias|no name of a type"):
        type_named(name)
