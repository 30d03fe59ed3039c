"""The changes that a keyed step emits for the keys of one batch, as upserts or as a changelog.

Upserts go to a sink: one row per changed key with `_op`. A changelog goes to another step: the previous row with
weight -1 and the new row with weight +1. The next aggregate needs nothing else to stay exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.interface import DELETE, INSERT, OP_COLUMN, OP_TYPE, UPDATE, WEIGHT_COLUMN

_OPERATIONS = pa.array([INSERT, UPDATE, DELETE], OP_TYPE)


@dataclass(frozen=True, slots=True)
class KeyedChanges:
    """Changes of the keys of one batch; see operators.interface.Changes. Arrays are (n,) unless stated otherwise.

    `names` are the names of the key columns, then of the results. `existed` and `exists` say which keys had a row
    before, and have one now. `previous` holds the earlier results of the keys that `existed`, (existed.sum(),) each; it
    is None if the step emits no retractions.
    """

    names: tuple[str, ...]
    keys: Sequence[pa.Array]
    existed: npt.NDArray[np.bool_]
    exists: npt.NDArray[np.bool_]
    results: Sequence[pa.Array]
    previous: Sequence[pa.Array] | None

    def as_new(self) -> "KeyedChanges":
        """Return the changes for a reader that has seen none of these keys: every key that exists now is inserted."""
        previous = None if self.previous is None else [column.slice(0, 0) for column in self.previous]
        return replace(self, existed=np.zeros_like(self.existed), previous=previous)

    def upserts(self) -> pa.Table:
        """Return one row per changed key: key columns, results, `_op`. A deleted key has NULL results."""
        changed = self.existed | self.exists
        results = [_null_where(column, ~self.exists) for column in self.results]
        operations = np.where(self.exists, self.existed, np.int8(2)).astype(np.int8)
        columns = [*self.keys, *results, _OPERATIONS.take(pa.array(operations))]
        table = pa.table(columns, names=[*self.names, OP_COLUMN])
        return table if changed.all() else table.filter(pa.array(changed))

    def changelog(self) -> pa.Table:
        """Return previous rows with `_weight` -1, then new rows with +1: key columns, results, `_weight`."""
        assert self.previous is not None, "the step was planned without previous results"
        retracted = self._weighted(self.existed, self.previous, -1)
        results = [column.filter(pa.array(self.exists)) for column in self.results]
        return pa.concat_tables([retracted, self._weighted(self.exists, results, 1)])

    def _weighted(self, rows: npt.NDArray[np.bool_], results: Sequence[pa.Array], weight: int) -> pa.Table:
        keys = [column.filter(pa.array(rows)) for column in self.keys]
        weights = pa.array(np.full(int(rows.sum()), weight, np.int64))
        return pa.table([*keys, *results, weights], names=[*self.names, WEIGHT_COLUMN])


def _null_where(column: pa.Array, rows: npt.NDArray[np.bool_]) -> pa.Array:
    if not rows.any():
        return column
    return pc.if_else(pa.array(~rows), column, pa.scalar(None, column.type))
