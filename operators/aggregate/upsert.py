"""The operator that turns a changelog into upserts, one per key, after SQL that follows the last keyed step.

It keeps no state. Within an epoch, the retracted rows and the added rows of a key show whether the key was inserted
(only added), updated (both) or deleted (only retracted).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema, decode_keys
from mixedmode.operators.aggregate.aggregator import argument_name
from mixedmode.operators.aggregate.changelog import folded_rows, row_fields
from mixedmode.operators.aggregate.changes import KeyedChanges
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.interface import (
    KEY_COLUMN,
    WEIGHT_COLUMN,
    Batch,
    Changelog,
    Folded,
    OperatorBase,
    OperatorTraits,
    SubtaskContext,
)
from mixedmode.operators.tables import column_of


@dataclass(frozen=True, slots=True)
class UpsertOperator(OperatorBase):
    """Turn a changelog into upserts. `fields` are the columns other than the key."""

    key_schema: KeySchema
    fields: tuple[pa.Field, ...]

    traits = OperatorTraits(emits=Changelog.RETRACT)
    combine = None  # retracted rows and added rows must stay separate

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The input columns other than key group and key."""
        return row_fields([field.type for field in self.fields])

    @property
    def output_key(self) -> tuple[pa.Field, ...]:
        """The key columns."""
        return self.key_schema.fields

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The key columns, then the other columns."""
        return (*self.key_schema.fields, *self.fields)

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return the rows unchanged."""
        del late_us
        return folded_rows(batch, self.key_schema, self.input_fields, max_parallelism=max_parallelism)

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[KeyedChanges]:
        """Yield the upserts of sorted changelog rows. Raise InvalidJobError if a key has two rows at a time."""
        del context
        for table in tables:
            if table.num_rows:
                yield self._changes(table.combine_chunks())

    def _changes(self, table: pa.Table) -> KeyedChanges:
        keys = column_of(table, KEY_COLUMN)
        grouping, first_rows = segments(keys)
        weights = column_of(table, WEIGHT_COLUMN).to_numpy()
        added = np.bincount(grouping.codes[weights > 0], minlength=grouping.size)
        removed = np.bincount(grouping.codes[weights < 0], minlength=grouping.size)
        self._check_one_row_per_key(added)
        newest = first_rows.copy()
        newest[grouping.codes[weights > 0]] = np.flatnonzero(weights > 0)
        results = [column_of(table, argument_name(i)).take(pa.array(newest)) for i in range(len(self.fields))]
        names = tuple(field.name for field in self.output_fields)
        columns = decode_keys(keys.take(pa.array(first_rows)), self.key_schema)
        return KeyedChanges(names, columns, removed > 0, added > 0, results, None)

    def _check_one_row_per_key(self, added: npt.NDArray[np.intp]) -> None:
        if (added > 1).any():
            names = ", ".join(field.name for field in self.key_schema.fields)
            msg = (
                "the sql after the last key-by returns several rows for one key, so the output would not be one row "
                "per key. Give one row per key, or put the key-by after the sql. "
                f"key_columns={names}, keys_affected={int((added > 1).sum())}, keys={len(added)}"
            )
            raise InvalidJobError(msg)
