"""What a keyed step says about the keys of one batch, and the two shapes in which it is passed on.

Upserts go to a sink: one row per changed key with `_op`. A changelog goes to another step: the previous row with
weight -1 and the new row with weight +1, which is all that the next aggregate needs to stay exact.
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
    """Changes of the keys of one batch; see operators.interface.Changes. All arrays are (n,) unless they say otherwise.

    `names` are those of the key columns, then those of the results. `previous` holds results for the rows where
    `existed`, (existed.sum(),) each; None when nobody asked for them.
    """

    names: tuple[str, ...]
    keys: Sequence[pa.Array]
    existed: npt.NDArray[np.bool_]
    exists: npt.NDArray[np.bool_]
    results: Sequence[pa.Array]
    previous: Sequence[pa.Array] | None

    def as_new(self) -> "KeyedChanges":
        """The same keys for a reader who has been given none of them before: what is there now is inserted."""
        previous = None if self.previous is None else [column.slice(0, 0) for column in self.previous]
        return replace(self, existed=np.zeros_like(self.existed), previous=previous)

    def upserts(self) -> pa.Table:
        """One row per changed key: key columns, results, `_op`. A deleted key has NULL results."""
        changed = self.existed | self.exists
        results = [_null_where(column, ~self.exists) for column in self.results]
        operations = np.where(self.exists, self.existed, np.int8(2)).astype(np.int8)
        columns = [*self.keys, *results, _OPERATIONS.take(pa.array(operations))]
        table = pa.table(columns, names=[*self.names, OP_COLUMN])
        return table if changed.all() else table.filter(pa.array(changed))

    def changelog(self) -> pa.Table:
        """Previous rows with `_weight` -1, then new rows with `_weight` +1: key columns, results, `_weight`."""
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
