"""The keyed aggregate over a changelog whose registers cannot retract a row (min, max, doubles, ...).

The operator keeps each key's rows as a multiset (row -> multiplicity), and recomputes the aggregates of a changed key
from these rows. The results are exact for every aggregate, including doubles. State and work are proportional to the
number of rows of a key.

State layout: stored key = key group | 1 | key | row, value = multiplicity. No key is a prefix of another key, so the
rows of a key are one contiguous range.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys import KeySchema, decode_keys, group_codes, key_widths
from mixedmode.operators.aggregate.aggregator import Aggregator, argument_name
from mixedmode.operators.aggregate.changelog import folded_rows, row_fields
from mixedmode.operators.aggregate.changes import KeyedChanges
from mixedmode.operators.aggregate.reduce import Grouping, sum_by
from mixedmode.operators.aggregate.registers import Rows
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.stored import StoredTable
from mixedmode.operators.aggregate.values import Argument, Int64s, Values, from_ordered, ordered_kind, ordered_values
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    WEIGHT_COLUMN,
    Batch,
    Changelog,
    Folded,
    OperatorBase,
    OperatorTraits,
    SubtaskContext,
)
from mixedmode.operators.retractions import check_inserted
from mixedmode.operators.tables import column_of
from mixedmode.sort import sort_table
from mixedmode.state import KeyedStateBackend, RowCodec, StateDescriptor, StateRange, StateTable
from mixedmode.state.arrow_bytes import large_binary, values_at
from mixedmode.state.keys import PREFIX_BYTES, stored_keys

_MULTIPLICITY = pa.field("multiplicity", pa.int64())
_ROWS_STATE_ID = 1


@dataclass(frozen=True, slots=True)
class MultisetAggregateOperator(OperatorBase):
    """Aggregate a changelog by key. The state is every row of every key with its multiplicity.

    `argument_types` are the types of a row's columns. `emits_retractions` and `emits_full_snapshot` are as in
    AggregateOperator.
    """

    aggregator: Aggregator
    key_schema: KeySchema
    argument_types: tuple[pa.DataType, ...]
    emits_retractions: bool
    emits_full_snapshot: bool = False

    combine = None  # retracted rows and added rows must stay separate

    @property
    def traits(self) -> OperatorTraits:
        """All rows of a key are in the state, so its result can always be computed again."""
        return OperatorTraits(
            emits=Changelog.RETRACT, can_emit_full_snapshot=True, state_uses_time=self.aggregator.goes_by_time
        )

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The operator's only state."""
        return (StateDescriptor(_ROWS_STATE_ID, "rows", (_MULTIPLICITY,)),)

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The arguments and the weight: the input columns other than key group and key."""
        return row_fields(self.argument_types)

    @property
    def output_key(self) -> tuple[pa.Field, ...]:
        """The key columns."""
        return self.key_schema.fields

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The key columns, then the results."""
        return (*self.key_schema.fields, *self.aggregator.result_fields)

    @property
    def _codec(self) -> RowCodec:
        fields = [pa.field(argument_name(i), ordered_kind(t)) for i, t in enumerate(self.argument_types)]
        return RowCodec(tuple(fields))

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return the rows unchanged."""
        del late_us
        return folded_rows(batch, self.key_schema, self.input_fields, max_parallelism=max_parallelism)

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[KeyedChanges]:
        """Apply sorted changelog rows. Yield the changes, and write the new multiplicities."""
        stored = StoredTable(context.backend, _ROWS_STATE_ID, context.groups) if self.emits_full_snapshot else None
        for table in tables:
            if table.num_rows:
                yield from self._process(table.combine_chunks(), context.backend, stored)
        if stored is not None:
            yield from self.stored_rows(stored.rest())

    def _process(
        self, table: pa.Table, backend: KeyedStateBackend, stored: StoredTable | None
    ) -> Iterator[KeyedChanges]:
        key_of_row, first_rows = segments(column_of(table, KEY_COLUMN))
        first = pa.array(first_rows)
        keys = column_of(table, KEY_COLUMN).take(first)
        key_groups = column_of(table, KEY_GROUP_COLUMN).take(first).to_numpy()
        prefixes = stored_keys(key_groups, keys.cast(pa.large_binary()), _ROWS_STATE_ID)
        if stored is not None:
            yield from self.stored_rows(stored.before(prefixes))
        before = _stored_rows(prefixes, backend)
        after = _after(before, self._apply(table, key_of_row.codes.astype(np.int64), backend))
        prefix_bytes = pc.binary_length(keys.cast(pa.large_binary())).to_numpy() + PREFIX_BYTES
        existed, previous = self._aggregate(before, prefix_bytes)
        exists, results = self._aggregate(after, prefix_bytes)
        shown = [column.filter(pa.array(existed)) for column in previous] if self.emits_retractions else None
        names = tuple(field.name for field in self.output_fields)
        changes = KeyedChanges(names, decode_keys(keys, self.key_schema), existed, exists, results, shown)
        yield changes.as_new() if self.emits_full_snapshot else changes

    def stored_rows(self, ranges: Iterator[StateRange]) -> Iterator[KeyedChanges]:
        """Yield the stored keys of `ranges` as inserts, with the aggregates of their rows."""
        names = tuple(field.name for field in self.output_fields)
        for found in ranges:
            rows, keys = self._rows_of(found)
            prefix_bytes = pc.binary_length(keys).to_numpy().astype(np.int64) + PREFIX_BYTES
            exists, results = self._aggregate(rows, prefix_bytes)
            columns = decode_keys(keys, self.key_schema)
            changes = KeyedChanges(names, columns, np.zeros_like(exists), exists, results, None)
            yield replace(changes, previous=[column.slice(0, 0) for column in results])

    def _rows_of(self, found: StateRange) -> tuple["_KeyRows", pa.LargeBinaryArray]:
        """Return the rows of a range of whole keys, and the distinct keys (k,)."""
        row_keys = pa.array(found.keys, pa.large_binary())
        ends = PREFIX_BYTES + key_widths(row_keys, self.key_schema, after=PREFIX_BYTES)
        keys = pa.array([key[PREFIX_BYTES:end] for key, end in zip(found.keys, ends, strict=True)], pa.large_binary())
        grouping, first_rows = segments(keys)
        multiplicities = RowCodec((_MULTIPLICITY,)).unpack(found.values)[0].to_numpy()
        return _KeyRows(grouping.codes.astype(np.int64), row_keys, multiplicities), keys.take(pa.array(first_rows))

    def _apply(self, table: pa.Table, key_of_row: Int64s, backend: KeyedStateBackend) -> "_KeyRows":
        """Write the new multiplicities of the rows that change, and return them. A deleted row has multiplicity 0.

        Sorting by key and row keeps the rows of a key together. So `key_of_row` (n,) is still valid after the sort.
        """
        table = sort_table(self._with_row_keys(table)).combine_chunks()
        row_keys = column_of(table, KEY_COLUMN)
        grouping, first_rows = segments(row_keys)
        change = sum_by(grouping, column_of(table, WEIGHT_COLUMN).to_numpy())
        first = pa.array(first_rows)
        state = StateTable(self.states[0], backend)
        stored = state.stored_keys(column_of(table, KEY_GROUP_COLUMN).take(first).to_numpy(), row_keys.take(first))
        found, columns = state.read(stored)
        multiplicity = change.copy()
        multiplicity[found] += columns[0].to_numpy()
        check_inserted(multiplicity)
        existed = np.zeros(len(stored), np.bool_)
        existed[found] = True
        touched = np.flatnonzero((change != 0) & (existed | (multiplicity > 0)))
        touched_keys = values_at(stored, touched)
        kept = multiplicity[touched]
        state.write(touched_keys, [pa.array(kept)], deleted=np.flatnonzero(kept == 0).tolist())
        return _KeyRows(key_of_row[first_rows][touched], large_binary(touched_keys), kept)

    def _with_row_keys(self, table: pa.Table) -> pa.Table:
        """Return a table of the key group, the key and row as one sortable key, and the weight."""
        arguments = [column_of(table, argument_name(i)) for i in range(len(self.argument_types))]
        rows = large_binary(self._codec.pack([ordered_values(a).to_arrow() for a in arguments]))
        keys = column_of(table, KEY_COLUMN).cast(pa.large_binary())
        if self.argument_types:
            keys = pc.binary_join_element_wise(keys, rows, pa.scalar(b"", pa.large_binary()))
        columns = [column_of(table, KEY_GROUP_COLUMN), keys, column_of(table, WEIGHT_COLUMN)]
        return pa.table(columns, names=[KEY_GROUP_COLUMN, KEY_COLUMN, WEIGHT_COLUMN])

    def _aggregate(self, rows: "_KeyRows", prefix_bytes: Int64s) -> tuple[npt.NDArray[np.bool_], list[pa.Array]]:
        """Return which keys have rows, and the results of all keys. Results of keys without rows are unspecified."""
        columns = self._codec.unpack_after(rows.row_keys, prefix_bytes[rows.key_of_row])
        arguments = {
            i: Argument(from_ordered(Values.from_arrow(column), data_type))
            for i, (column, data_type) in enumerate(zip(columns, self.argument_types, strict=True))
        }
        grouping = Grouping(rows.key_of_row, len(prefix_bytes), rows.multiplicities)
        has_rows = np.bincount(rows.key_of_row, minlength=len(prefix_bytes)) > 0
        return has_rows, self.aggregator.results(self.aggregator.partials(grouping, Rows(arguments)))


@dataclass(frozen=True, slots=True)
class _KeyRows:
    """Rows of the keys of a batch in stored order, (m,) each: index of the key, stored row key, multiplicity."""

    key_of_row: Int64s
    row_keys: pa.LargeBinaryArray
    multiplicities: Int64s

    def where(self, rows: npt.NDArray[np.bool_]) -> "_KeyRows":
        """Return the rows where `rows` is True."""
        return _KeyRows(self.key_of_row[rows], self.row_keys.filter(pa.array(rows)), self.multiplicities[rows])


def _stored_rows(prefixes: Sequence[bytes], backend: KeyedStateBackend) -> _KeyRows:
    """Read the committed rows of each key: the rows whose stored key begins with the key's prefix."""
    found = backend.scan_prefixes(_ROWS_STATE_ID, prefixes)
    multiplicities = RowCodec((_MULTIPLICITY,)).unpack(found.values)[0].to_numpy()
    return _KeyRows(found.prefix_of_row, pa.array(found.keys, pa.large_binary()), multiplicities)


def _after(before: _KeyRows, changes: _KeyRows) -> _KeyRows:
    """Return the rows after the changes, in stored order.

    Doubles are added in stored order. A later epoch computes the row to retract from the stored rows in the same
    order. So the retracted row equals the row that is emitted now, to the last bit.
    """
    both = _KeyRows(
        np.concatenate([before.key_of_row, changes.key_of_row]),
        pa.concat_arrays([before.row_keys, changes.row_keys]),
        np.concatenate([before.multiplicities, changes.multiplicities]),
    )
    codes = group_codes([both.row_keys]).codes
    is_current = both.multiplicities > 0
    is_current[: len(before.key_of_row)] &= ~np.isin(codes[: len(before.key_of_row)], codes[len(before.key_of_row) :])
    current = both.where(is_current)
    order = pc.sort_indices(current.row_keys)
    positions = order.to_numpy()
    return _KeyRows(current.key_of_row[positions], current.row_keys.take(order), current.multiplicities[positions])
