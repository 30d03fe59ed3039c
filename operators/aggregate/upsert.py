"""A change log turned into upserts of a key: what sql made of the last keyed step's rows, one change per key.

It keeps no state: within an epoch, the rows taken back and the rows added say whether a key was inserted, updated or
deleted.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.state import KeyedStateBackend, StateDescriptor
from operators.aggregate.aggregator import argument_name
from operators.aggregate.changes import WEIGHT_COLUMN, KeyedChanges
from operators.aggregate.operator import KEY_COLUMN, column_of
from operators.aggregate.segments import segments


@dataclass(frozen=True, slots=True)
class UpsertOperator:
    """`argument_types` are the columns beside the key."""

    key_schema: KeySchema
    argument_types: tuple[pa.DataType, ...]

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """None."""
        return ()

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """Columns of the operator's input beside key group and key."""
        arguments = [pa.field(argument_name(i), data_type) for i, data_type in enumerate(self.argument_types)]
        return (*arguments, pa.field(WEIGHT_COLUMN, pa.int64()))

    def process(self, table: pa.Table, backend: KeyedStateBackend) -> Iterator[KeyedChanges]:
        """Rows of a change log, sorted, whole keys. Raises InvalidJobError when a key has two rows at a time."""
        del backend
        table = table.combine_chunks()
        if table.num_rows == 0:
            return
        keys = column_of(table, KEY_COLUMN)
        grouping, first_rows = segments(keys)
        weights = column_of(table, WEIGHT_COLUMN).to_numpy()
        added = np.bincount(grouping.codes[weights > 0], minlength=grouping.size)
        removed = np.bincount(grouping.codes[weights < 0], minlength=grouping.size)
        self._check_one_row_per_key(added)
        newest = first_rows.copy()
        newest[grouping.codes[weights > 0]] = np.flatnonzero(weights > 0)
        results = [column_of(table, argument_name(i)).take(pa.array(newest)) for i in range(len(self.argument_types))]
        yield KeyedChanges(keys.take(pa.array(first_rows)), removed > 0, added > 0, results, None)

    def _check_one_row_per_key(self, added: npt.NDArray[np.intp]) -> None:
        if (added > 1).any():
            names = ", ".join(field.name for field in self.key_schema.fields)
            msg = (
                "the sql after the last key-by gives several rows for one key, so the output would not be one row per "
                "key. Give one row per key, or put the key-by after the sql. "
                f"key_columns={names}, keys_affected={int((added > 1).sum())}, keys={len(added)}"
            )
            raise InvalidJobError(msg)
