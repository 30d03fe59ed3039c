"""The keyed aggregate over a change log when a row cannot be taken back from the registers (min, max, doubles, ...).

The one idea: keep each key's rows as a multiset (row -> multiplicity), and aggregate the rows of a changed key anew.
That is exact for every aggregate, doubles included, at the price of state and work in proportion to a key's rows.

State layout: stored key = key group | 1 | key | row, value = multiplicity. No key is a prefix of another one, so the
rows of a key are one range.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InternalError
from mixedmode.keys import KeySchema
from mixedmode.sort import sort_table
from mixedmode.state import KeyedStateBackend, RowCodec, StateDescriptor, StateTable
from mixedmode.state.keys import stored_keys
from operators.aggregate.aggregator import Aggregator, argument_name
from operators.aggregate.changes import WEIGHT_COLUMN, KeyedChanges
from operators.aggregate.operator import KEY_COLUMN, KEY_GROUP_COLUMN, column_of
from operators.aggregate.reduce import Grouping, sum_by
from operators.aggregate.registers import Rows
from operators.aggregate.segments import segments
from operators.aggregate.values import Argument, Values, from_ordered, ordered_kind, ordered_values

_MULTIPLICITY = pa.field("multiplicity", pa.int64())
_ROWS_STATE_ID = 1


@dataclass(frozen=True, slots=True)
class MultisetAggregateOperator:
    """State: every row of every key with its multiplicity. `argument_types` are the row's columns."""

    aggregator: Aggregator
    key_schema: KeySchema
    argument_types: tuple[pa.DataType, ...]
    needs_previous: bool

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The operator's only state."""
        return (StateDescriptor(_ROWS_STATE_ID, "rows", (_MULTIPLICITY,)),)

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """Columns of the operator's input beside key group and key: the arguments and the weight."""
        arguments = [pa.field(argument_name(i), data_type) for i, data_type in enumerate(self.argument_types)]
        return (*arguments, pa.field(WEIGHT_COLUMN, pa.int64()))

    @property
    def _codec(self) -> RowCodec:
        fields = [pa.field(argument_name(i), ordered_kind(t)) for i, t in enumerate(self.argument_types)]
        return RowCodec(tuple(fields))

    def process(self, table: pa.Table, backend: KeyedStateBackend) -> Iterator[KeyedChanges]:
        """Rows of a change log, sorted, whole keys: yields the changes; writes the new multiplicities."""
        table = table.combine_chunks()
        if table.num_rows == 0:
            return
        keys, key_groups = _distinct_keys(table)
        before = self._stored_rows(keys, key_groups, backend)
        rows = self._apply(table, backend)
        after = _after(before, rows)
        existed, previous = self._aggregate(before, len(keys))
        exists, results = self._aggregate(after, len(keys))
        shown = [column.filter(pa.array(existed)) for column in previous] if self.needs_previous else None
        yield KeyedChanges(keys, existed, exists, results, shown)

    def _apply(self, table: pa.Table, backend: KeyedStateBackend) -> "_RowChanges":
        """Net change of each distinct row of the batch, written to the state."""
        table = sort_table(self._with_row_keys(table)).combine_chunks()
        row_keys = column_of(table, KEY_COLUMN)
        grouping, first_rows = segments(row_keys)
        change = sum_by(grouping, column_of(table, WEIGHT_COLUMN).to_numpy())
        first = pa.array(first_rows)
        row_keys = row_keys.take(first)
        state = StateTable(self.states[0], backend)
        stored = state.stored_keys(column_of(table, KEY_GROUP_COLUMN).take(first).to_numpy(), row_keys)
        found, columns = state.read(stored)
        multiplicity = change.copy()
        multiplicity[found] += columns[0].to_numpy()
        _check_not_negative(multiplicity)
        existed = np.zeros(len(stored), np.bool_)
        existed[found] = True
        touched = np.flatnonzero((change != 0) & (existed | (multiplicity > 0)))
        kept = multiplicity[touched]
        state.write([stored[i] for i in touched], [pa.array(kept)], deleted=np.flatnonzero(kept == 0).tolist())
        return _RowChanges([stored[i] for i in touched], kept)

    def _with_row_keys(self, table: pa.Table) -> pa.Table:
        """Key group, key and row as one sortable key, and the weight."""
        arguments = [column_of(table, argument_name(i)) for i in range(len(self.argument_types))]
        rows = pa.array(self._codec.pack([ordered_values(a).to_arrow() for a in arguments]), pa.large_binary())
        keys = column_of(table, KEY_COLUMN).cast(pa.large_binary())
        if self.argument_types:
            keys = pc.binary_join_element_wise(keys, rows, pa.scalar(b"", pa.large_binary()))
        columns = [column_of(table, KEY_GROUP_COLUMN), keys, column_of(table, WEIGHT_COLUMN)]
        return pa.table(columns, names=[KEY_GROUP_COLUMN, KEY_COLUMN, WEIGHT_COLUMN])

    def _stored_rows(
        self, keys: pa.Array, key_groups: npt.NDArray[np.uint16], backend: KeyedStateBackend
    ) -> list["_StoredRows"]:
        """The committed rows of each key, key by key (a range scan each)."""
        codec = RowCodec((_MULTIPLICITY,))
        per_key = []
        for start in stored_keys(key_groups, keys.cast(pa.large_binary()), _ROWS_STATE_ID):
            found = backend.scan(_ROWS_STATE_ID, start, start + b"\xff")
            multiplicities = codec.unpack(found.values)[0].to_pylist()
            per_key.append(_StoredRows(start, dict(zip(found.keys, multiplicities, strict=True))))
        return per_key

    def _aggregate(self, per_key: Sequence["_StoredRows"], size: int) -> tuple[npt.NDArray[np.bool_], list[pa.Array]]:
        """Which keys have rows, and the results of all keys over their rows (unspecified where there are none)."""
        payloads = [row[len(stored.prefix) :] for stored in per_key for row in stored.rows]
        weights = np.array([n for stored in per_key for n in stored.rows.values()], np.int64)
        codes = np.repeat(np.arange(size), [len(stored.rows) for stored in per_key])
        columns = self._codec.unpack(payloads)
        arguments = {
            i: Argument(from_ordered(Values.from_arrow(column), data_type))
            for i, (column, data_type) in enumerate(zip(columns, self.argument_types, strict=True))
        }
        partials = self.aggregator.partials(Grouping(codes, size, weights), Rows(arguments))
        has_rows = np.bincount(codes, minlength=size) > 0
        return has_rows, self.aggregator.results(partials)


@dataclass(frozen=True, slots=True)
class _StoredRows:
    """Rows of one key: {stored row key: multiplicity}; every row key begins with `prefix`."""

    prefix: bytes
    rows: dict[bytes, int]


@dataclass(frozen=True, slots=True)
class _RowChanges:
    """New multiplicities of changed rows, sorted by stored row key; 0 means gone."""

    row_keys: list[bytes]
    multiplicities: npt.NDArray[np.int64]


def _after(before: Sequence[_StoredRows], changes: _RowChanges) -> list[_StoredRows]:
    """The rows of each key once the changes are in; keys and changes are both in stored order, and so are the rows.

    Doubles are added in that order, so the row that is taken back in a later epoch, computed from the stored rows, is
    to the last bit the row that was given now.
    """
    after = [_StoredRows(stored.prefix, dict(stored.rows)) for stored in before]
    at = 0
    for row_key, multiplicity in zip(changes.row_keys, changes.multiplicities.tolist(), strict=True):
        while not row_key.startswith(after[at].prefix):
            at += 1
        if multiplicity:
            after[at].rows[row_key] = multiplicity
        else:
            after[at].rows.pop(row_key, None)
    return [_StoredRows(stored.prefix, dict(sorted(stored.rows.items()))) for stored in after]


def _distinct_keys(table: pa.Table) -> tuple[pa.Array, npt.NDArray[np.uint16]]:
    keys = column_of(table, KEY_COLUMN)
    _, first_rows = segments(keys)
    first = pa.array(first_rows)
    return keys.take(first), column_of(table, KEY_GROUP_COLUMN).take(first).to_numpy()


def _check_not_negative(multiplicities: npt.NDArray[np.int64]) -> None:
    if (multiplicities < 0).any():
        msg = (
            "a row was taken back that its key never had. This is a defect; report it. "
            f"rows_affected={int((multiplicities < 0).sum())}"
        )
        raise InternalError(msg)
