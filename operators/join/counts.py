"""States of a join that store how many equal rows there are."""

from collections.abc import Sequence

import pyarrow as pa

from mixedmode.operators.aggregate.values import Int64s
from mixedmode.state import RowCodec, StateDescriptor

__all__ = ["counted_state", "counts_of", "values_of"]

_FIELDS = (pa.field("rows", pa.int64()),)
_CODEC = RowCodec(_FIELDS)


def counted_state(state_id: int, name: str, *, is_read_by_key: bool = True) -> StateDescriptor:
    """Return a state whose values are the numbers of equal rows."""
    return StateDescriptor(state_id, name, _FIELDS, is_read_by_key=is_read_by_key)


def counts_of(values: Sequence[bytes]) -> Int64s:
    """Return the number of rows of each value (n,)."""
    counts: Int64s = _CODEC.unpack(values)[0].to_numpy()
    return counts


def values_of(counts: Int64s) -> Sequence[bytes]:
    """Return the value of each number of rows (n,)."""
    return _CODEC.pack([pa.array(counts)])
