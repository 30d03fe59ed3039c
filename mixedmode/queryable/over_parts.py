"""The state of `over` steps as tables: the keys, and the rows that wait for the watermark."""

import numpy as np
import pyarrow as pa

from mixedmode.keys import decode_keys
from mixedmode.operators.join.counts import counts_of
from mixedmode.operators.over import KEYS, WAITING, OverOperator
from mixedmode.operators.row_columns import decoded_rows
from mixedmode.operators.top.rows import without_prefix
from mixedmode.operators.window.keys import TIME_BYTES
from mixedmode.queryable.parts import Part, free_name
from mixedmode.state import RowCodec, StateRange
from mixedmode.state.keys import PREFIX_BYTES, cut_keys

__all__ = ["over_parts"]

ROWS = pa.field("_rows", pa.int64())


def over_parts(operator: OverOperator) -> list[Part]:
    """Return the parts of the state."""
    return [
        Part("keys", KEYS, lambda found: _keys(operator, found), is_exact=True),
        Part("waiting", WAITING, lambda found: _waiting(operator, found), bytes_before=TIME_BYTES),
    ]


def _keys(operator: OverOperator, found: StateRange) -> pa.Table:
    """Return the key, and how many rows it has had."""
    schema = operator.layout.key_schema
    columns = decode_keys(cut_keys(found.keys, schema, before=PREFIX_BYTES), schema)
    stored = RowCodec(operator.states[0].fields).unpack(found.values)[0]
    names = [field.name for field in schema.fields]
    rows = decoded_rows(stored, operator.kept_layout.fields)[0]
    return pa.table([*columns, rows], names=[*names, free_name(ROWS.name, names)])


def _waiting(operator: OverOperator, found: StateRange) -> pa.Table:
    """Return the rows that wait, each as often as it came."""
    packed = without_prefix(found.keys, PREFIX_BYTES + TIME_BYTES)
    counts = counts_of(found.values)
    rows = pa.array(np.repeat(np.arange(len(counts)), counts))
    columns = [*operator.layout.unpack_keys(packed), *operator.layout.unpack_rows(packed)]
    return pa.table([column.take(rows) for column in columns], names=[field.name for field in operator.row_fields])
