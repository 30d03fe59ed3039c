"""What a keyed step says about the keys of one batch, and the two shapes in which it is passed on.

Upserts go to a sink: one row per changed key with `_op`. A change log goes to another step: the previous row with
weight -1 and the new row with weight +1, which is all that the next aggregate needs to stay exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys import KeySchema, decode_keys

OP_COLUMN = "_op"
WEIGHT_COLUMN = "_weight"
INSERT, UPDATE, DELETE = "insert", "update", "delete"
OP_TYPE = pa.string()


@dataclass(frozen=True, slots=True)
class KeyedChanges:
    """The keys of one batch that have records in it, in state order; all arrays (n,) unless they say otherwise.

    `previous` holds results for the rows where `existed`, (existed.sum(),) each; None when nobody asked for them.
    """

    keys: pa.Array
    existed: npt.NDArray[np.bool_]
    exists: npt.NDArray[np.bool_]
    results: Sequence[pa.Array]
    previous: Sequence[pa.Array] | None

    def upserts(self, key_schema: KeySchema, fields: Sequence[pa.Field]) -> pa.Table:
        """One row per changed key: key columns, results, `_op`. A deleted key has NULL results."""
        changed = self.existed | self.exists
        results = [_null_where(column, ~self.exists) for column in self.results]
        operations = np.where(self.exists, np.where(self.existed, UPDATE, INSERT), DELETE)
        columns = [*decode_keys(self.keys, key_schema), *results, pa.array(operations, OP_TYPE)]
        names = [*(field.name for field in key_schema.fields), *(field.name for field in fields), OP_COLUMN]
        table = pa.table(columns, names=names)
        return table if changed.all() else table.filter(pa.array(changed))

    def change_log(self, key_schema: KeySchema, fields: Sequence[pa.Field]) -> pa.Table:
        """Previous rows with `_weight` -1, then new rows with `_weight` +1: key columns, results, `_weight`."""
        assert self.previous is not None, "the step was planned without previous results"
        names = [*(field.name for field in key_schema.fields), *(field.name for field in fields)]
        retracted = self._weighted(key_schema, names, self.existed, self.previous, -1)
        results = [column.filter(pa.array(self.exists)) for column in self.results]
        return pa.concat_tables([retracted, self._weighted(key_schema, names, self.exists, results, 1)])

    def _weighted(
        self,
        key_schema: KeySchema,
        names: list[str],
        rows: npt.NDArray[np.bool_],
        results: Sequence[pa.Array],
        weight: int,
    ) -> pa.Table:
        keys = self.keys.filter(pa.array(rows))
        weights = pa.array(np.full(len(keys), weight, np.int64))
        return pa.table([*decode_keys(keys, key_schema), *results, weights], names=[*names, WEIGHT_COLUMN])


def _null_where(column: pa.Array, rows: npt.NDArray[np.bool_]) -> pa.Array:
    if not rows.any():
        return column
    return pc.if_else(pa.array(~rows), column, pa.scalar(None, column.type))
