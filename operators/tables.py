"""Helpers for Arrow tables that all operators share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.operators.interface import KEY_COLUMN, KEY_GROUP_COLUMN


def column_of(table: pa.Table, name: str) -> pa.Array:
    """Return a column of a table as one array."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def shown_values(column: pa.Array) -> list[Any]:
    """Return the values of a column (n,) for a message; dates and times that Python cannot hold are numbers."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):
        return column.cast(_with_numbers(column.type)).to_pylist()  # type: ignore[no-any-return]


def _with_numbers(data_type: pa.DataType) -> pa.DataType:
    """Return the type with integers in place of dates and times, also within structs, lists and maps."""
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, _with_numbers(field.type)) for field in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(_with_numbers(data_type.key_type), _with_numbers(data_type.item_type))
    if pa.types.is_list(data_type):
        return pa.list_(_with_numbers(data_type.value_type))
    if pa.types.is_date32(data_type):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(data_type) else data_type


def halves(table: pa.Table, first_rows: npt.NDArray[np.intp]) -> tuple[pa.Table, pa.Table]:
    """Return a table sorted by key as two, with half of its keys each.  first_rows: (k,) of each key, k > 1."""
    middle = int(first_rows[len(first_rows) // 2])
    return table.slice(0, middle), table.slice(middle)


def keyed_table(
    keys: Sequence[pa.Array],
    key_schema: KeySchema,
    payload: Sequence[pa.Array],
    fields: Sequence[pa.Field],
    *,
    max_parallelism: int,
) -> pa.Table:
    """Return a table of `_key_group`, `_key` and `fields` from key and payload columns (n,), rows in the same order."""
    encoded = encode_keys(keys, key_schema)
    groups = pa.array(key_groups(encoded, max_parallelism=max_parallelism))
    return pa.table(
        [groups, encoded, *payload], names=[KEY_GROUP_COLUMN, KEY_COLUMN, *(field.name for field in fields)]
    )
