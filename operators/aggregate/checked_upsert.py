"""Upserts by columns of which nobody knows that they are a key: a second row of a key is found, and refused.

The state has an entry for each key in the output. A row of another upstream key may take over the key of a row that is
retracted in the same epoch. If both rows exist at the end of an epoch, an error names the key and the rows.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from mixedmode.errors import InvalidJobError
from mixedmode.keys import decode_keys
from mixedmode.operators.aggregate.aggregator import aggregator_for
from mixedmode.operators.aggregate.changes import KeyedChanges
from mixedmode.operators.aggregate.functions import aggregate_function
from mixedmode.operators.aggregate.operator import AggregateOperator
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.upsert import UpsertOperator
from mixedmode.operators.interface import KEY_COLUMN, KEY_GROUP_COLUMN, WEIGHT_COLUMN, SubtaskContext
from mixedmode.operators.retractions import check_inserted
from mixedmode.operators.tables import column_of, shown_values
from mixedmode.state import StateDescriptor, StateTable
from mixedmode.state.arrow_bytes import values_at

_TEXT_MAX = 200  # characters of a row in a message

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CheckedUpsertOperator(UpsertOperator):
    """Turn rows into upserts by the key columns. Raise InvalidJobError if an epoch ends with two rows of one key."""

    @property
    def counter(self) -> AggregateOperator:
        """Return the aggregate whose state is that of this operator: the number of rows of each key, which is 1."""
        function = aggregate_function("count", None, None, has_event_time=False, where="")
        aggregator = aggregator_for({"rows": function}, arguments=0, counts_rows=True)
        return AggregateOperator(aggregator, self.key_schema, is_changelog=True, emits_retractions=False)

    @property
    @override
    def states(self) -> tuple[StateDescriptor, ...]:
        return self.counter.states

    @override
    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[KeyedChanges]:
        state = StateTable(self.states[0], context.backend)
        for table in tables:
            if table.num_rows:
                yield self._upserts(table.combine_chunks(), state)

    def _upserts(self, table: pa.Table, state: StateTable) -> KeyedChanges:
        keys = column_of(table, KEY_COLUMN)
        grouping, first_rows = segments(keys)
        first = pa.array(first_rows)
        stored_keys = state.stored_keys(column_of(table, KEY_GROUP_COLUMN).take(first).to_numpy(), keys.take(first))
        before, after = np.zeros(grouping.size, np.int64), np.zeros(grouping.size, np.int64)
        before[state.read(stored_keys)[0]] = 1
        np.add.at(after, grouping.codes, column_of(table, WEIGHT_COLUMN).to_numpy())
        after += before
        newest = self._newest(table, grouping, first_rows)
        self._check(table, grouping, before, after)
        _write(state, stored_keys, before, after)
        return KeyedChanges(
            names=tuple(field.name for field in self.output_fields),
            keys=decode_keys(keys.take(first), self.key_schema),
            existed=before > 0,
            exists=after > 0,
            results=[column.take(pa.array(newest)) for column in self._columns(table)],
            previous=None,
        )

    def _columns(self, table: pa.Table) -> list[pa.Array]:
        return [column_of(table, field.name) for field in self.input_fields[:-1]]  # without the weight

    def _newest(self, table: pa.Table, grouping: Grouping, first_rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return the position of the added row of each key; of several, one that is not retracted in this epoch."""
        is_added = column_of(table, WEIGHT_COLUMN).to_numpy() > 0
        newest = first_rows.copy()
        newest[grouping.codes[is_added]] = np.flatnonzero(is_added)
        added = np.bincount(grouping.codes[is_added], minlength=grouping.size)
        for code in np.flatnonzero(added > 1).tolist():
            left = self._left(table, np.flatnonzero(grouping.codes == code))
            newest[code] = left[0][0] if left else newest[code]
        return newest

    def _left(self, table: pa.Table, rows: npt.NDArray[np.intp]) -> list[tuple[int, str]]:
        """Return (position, text) of the rows that are added and not retracted, each as often as it is left."""
        taken = table.take(pa.array(rows))
        texts = [str(tuple(row)) for row in zip(*map(shown_values, self._columns(taken)), strict=True)]
        texts = texts or ["()"] * len(rows)
        weights, positions = Counter[str](), dict(zip(texts, rows.tolist(), strict=True))
        for text, weight in zip(texts, column_of(taken, WEIGHT_COLUMN).to_pylist(), strict=True):
            weights[text] += weight
        return [(positions[text], text) for text, weight in weights.items() for _ in range(weight)]

    def _check(self, table: pa.Table, grouping: Grouping, before: _Numbers, after: _Numbers) -> None:
        check_inserted(after)
        wrong = np.flatnonzero(after > 1)
        if not len(wrong):
            return
        code = int(wrong[0])
        rows = np.flatnonzero(grouping.codes == code)
        left = [text[:_TEXT_MAX] for _, text in self._left(table, rows)]
        key = decode_keys(column_of(table, KEY_COLUMN).slice(int(rows[0]), 1), self.key_schema)
        named = zip(self.key_schema.fields, key, strict=True)
        msg = (
            "two rows of an output have one key, and only one of them would be left. Name in the `key` of the output "
            "all columns that tell its rows apart, or make one row of them with key-by and aggregate, or with "
            "deduplicate. "
            f"key=({', '.join(f'{field.name}={shown_values(value)[0]!r}' for field, value in named)}), "
            f"columns=({', '.join(field.name for field in self.fields)}), "
            f"rows={' and '.join([*(['one that the output has'] if before[code] else []), *left[:2]])}, "
            f"keys_affected={len(wrong)}"
        )
        raise InvalidJobError(msg)


def _write(state: StateTable, stored_keys: Sequence[bytes], before: _Numbers, after: _Numbers) -> None:
    changed = np.flatnonzero(before != after)
    if len(changed):
        gone = np.flatnonzero(after[changed] == 0).tolist()
        state.write(values_at(stored_keys, changed), [pa.array(after[changed])], deleted=gone)
