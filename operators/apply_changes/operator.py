"""The operator of a step with `apply-changes`: the rows of a table, from the records of its changes.

Of the records of a key, the one with the greatest sequence is its row, or deletes it. With history, there is a row for
each version (versions.py). Records may arrive in any order: what the step emits depends on their sequence alone. Of
several records with one key and one sequence, one counts: one that deletes, else the greatest row.

Records are packed (operators/top/rows.py), ordered by sequence, then by whether they delete. The packed record is the
key in the sorter and in the state, so both deliver the records of a key in their order.

State layout: stored key = key group | 0 | packed record, value = 1 if it deletes. Without history, it has the last
record of each key; with history, all that count. The records of one key and one epoch are held in memory, and with
history all records of a key that changes.

Source: slowly changing dimensions of type 1 and 2 (R. Kimball, The Data Warehouse Toolkit, 1996), with the columns and
the order of events of Spark's AUTO CDC (https://issues.apache.org/jira/browse/SPARK-56249).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema, decode_keys
from mixedmode.keys.rows import cut
from mixedmode.operators.aggregate.changes import KeyedChanges
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.stored import StoredTable
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.apply_changes.versions import Versions, differs_from_before, newest, versions
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    Batch,
    Changelog,
    Folded,
    OperatorBase,
    OperatorTraits,
    SubtaskContext,
)
from mixedmode.operators.row_columns import encoded_rows
from mixedmode.operators.tables import column_of
from mixedmode.operators.top.candidates import candidates
from mixedmode.operators.top.fold import packed_table, whole_keys
from mixedmode.operators.top.rows import OrderColumn, RowLayout, keys_of, parts_of, taken, without_prefix
from mixedmode.sort import Combine, sort_order, sort_table, take_rows
from mixedmode.state import KeyedStateBackend, StateDescriptor, StateRange, StateTable
from mixedmode.state.keys import PREFIX_BYTES, stored_keys

__all__ = ["END", "START", "ApplyChangesOperator"]

START, END = "__START_AT", "__END_AT"  #: the columns of a version, as Spark names them
Groups = npt.NDArray[np.uint16]
_STATE_ID = 0
_DELETES_BYTES = 2  # of an encoded boolean: the marker of NULL, and the value


@dataclass(frozen=True, slots=True)
class ApplyChangesOperator(OperatorBase):
    """Emit the rows of a table. Output: the key, the columns of the row; with history also `__START_AT`, `__END_AT`.

    The arguments of a batch are the columns of the row, and those of the order besides: `order_arguments` has the
    indices of the columns of the sequence, one with history, and last that of whether a record deletes, if `deletes`.
    `tracked`: the columns of the row, by index, whose change begins a version; None without history. `where` begins the
    messages about records.
    """

    layout: RowLayout
    order_arguments: tuple[int, ...]
    deletes: bool
    tracked: tuple[int, ...] | None
    where: str
    emits_retractions: bool = False
    emits_full_snapshot: bool = False

    traits = OperatorTraits(emits=Changelog.RETRACT, can_emit_full_snapshot=True, state_uses_time=False)

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The records that count, in their order."""
        return (StateDescriptor(_STATE_ID, "records", (pa.field("deletes", pa.int64()),), is_read_by_key=False),)

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """None: the record itself is the sorter's key."""
        return ()

    @property
    def has_history(self) -> bool:
        """True if each version is a row."""
        return self.tracked is not None

    @property
    def output_key(self) -> tuple[pa.Field, ...]:
        """The key columns, and the sequence with which a version begins."""
        return (*self.layout.key_schema.fields, *([self._sequence(START)] if self.has_history else []))

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The key, the other columns of the row, and the sequence with which a version ends; NULL if it goes on."""
        return (*self.output_key, *self.layout.row_fields, *([self._sequence(END)] if self.has_history else []))

    @property
    def combine(self) -> Combine | None:
        """The function that keeps, of records of which one counts, that one."""
        return self.counting

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return the packed records of a batch; without history, those that may be the last ones of their keys.

        Raise InvalidJobError for a record without a key or a sequence.
        """
        del late_us  # a row is never final, so no record is late
        keys, columns = list(batch.keys), list(batch.arguments)
        order = [columns[index] for index in self.order_arguments]
        self._check(keys, order[: len(order) - self.deletes])
        drops_rows = not self.has_history
        if drops_rows:
            last = OrderColumn(order[0].type, descending=True, nulls_first=False)
            found = candidates(keys, order[0], last, 1)
            drops_rows = found.has_more
            if found.rows is not None:
                numbers = pa.array(found.rows)
                keys, columns, order = ([one.take(numbers) for one in given] for given in (keys, columns, order))
        row = columns[: len(self.layout.row_fields)]
        table = packed_table(self.layout, keys, order, row, max_parallelism=max_parallelism)
        return Folded(self.counting(sort_table(table)) if drops_rows else table)

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[KeyedChanges]:
        """Merge sorted records with the stored ones of their keys. Yield the changed rows, and write the records."""
        backend = context.backend
        stored = StoredTable(backend, _STATE_ID, context.groups) if self.emits_full_snapshot else None
        for table in whole_keys(tables, self.counting):
            yield from self._process(self.counting(table), backend, stored)
        if stored is not None:
            yield from self.stored_rows(stored.rest())

    def counting(self, table: pa.Table) -> pa.Table:
        """Return the records of a sorted table that count: the last one of each sequence, or of each key."""
        table = table.combine_chunks()
        if not table.num_rows:
            return table
        _, first_rows = segments(self._units(column_of(table, KEY_COLUMN)))
        if len(first_rows) == table.num_rows:
            return table
        return take_rows(table, np.append(first_rows[1:], table.num_rows) - 1)

    def stored_rows(self, ranges: Iterator[StateRange]) -> Iterator[KeyedChanges]:
        """Yield the rows of the stored keys of `ranges` as inserts."""
        for found in ranges:
            packed = without_prefix(found.keys, PREFIX_BYTES)
            everyone = np.ones(len(packed), np.bool_)
            yield self._changes(_Records(packed, everyone, everyone), everything=True)

    def _check(self, keys: Sequence[pa.Array], sequence: Sequence[pa.Array]) -> None:
        """Raise InvalidJobError for NULL in a key or in the sequence."""
        names = [field.name for field in self.layout.key_schema.fields]
        for name, column in [*zip(names, keys, strict=True), *(("sequence-by", column) for column in sequence)]:
            if column.null_count:
                what = "sequence" if name == "sequence-by" else "key"
                msg = (
                    f"{self.where}: a record of a change has no {what}, so nobody can say which row it changes, or "
                    f"when. Correct the records, or drop those in a sql step before. column={name}, "
                    f"records={column.null_count:,}"
                )
                raise InvalidJobError(msg)

    def _process(
        self, table: pa.Table, backend: KeyedStateBackend, stored: StoredTable | None
    ) -> Iterator[KeyedChanges]:
        packed, groups = column_of(table, KEY_COLUMN), column_of(table, KEY_GROUP_COLUMN).to_numpy()
        keys = keys_of(packed)
        _, first_rows = segments(keys)
        groups, keys = groups[first_rows], taken(keys, first_rows)
        prefixes = stored_keys(groups, keys, _STATE_ID)
        if stored is not None:
            yield from self.stored_rows(stored.before(prefixes))
        found = backend.scan_prefixes(_STATE_ID, prefixes)
        records = self._merged(without_prefix(found.keys, PREFIX_BYTES), found.prefix_of_row, packed, groups)
        yield self._changes(records, everything=self.emits_full_snapshot)
        self._write(records, groups, backend)

    def _merged(
        self,
        stored: pa.LargeBinaryArray,
        stored_codes: Int64s,
        new: pa.LargeBinaryArray,
        groups: Groups,
    ) -> "_Records":
        """Return the stored and the new records of keys (k,) in their order, each once.

        stored_codes: the number of each stored record's key. groups: the key group (k,) of each key.
        """
        if not len(stored):
            return _Records(new, np.zeros(len(new), np.bool_), np.ones(len(new), np.bool_))
        grouping, _ = segments(keys_of(new))
        codes = np.concatenate([stored_codes, grouping.codes.astype(np.int64)])
        both = pa.concat_arrays([stored, new])
        order = sort_order(pa.table([pa.array(groups[codes]), both], names=[KEY_GROUP_COLUMN, KEY_COLUMN]))
        both, is_stored = both.take(pa.array(order)), order < len(stored)
        _, first_rows = segments(both)
        packed = taken(both, first_rows)
        before = np.logical_or.reduceat(is_stored, first_rows)
        _, firsts = segments(self._units(packed))
        after = np.zeros(len(packed), np.bool_)
        after[np.append(firsts[1:], len(packed)) - 1] = True
        return _Records(packed, before, after)

    def _changes(self, records: "_Records", *, everything: bool) -> KeyedChanges:
        """Return the rows that records change; or every row that there is, as an insert."""
        parts = parts_of(records.packed)
        rows = cut(parts.data, parts.order_ends, parts.row_ends)
        columns = self.layout.unpack_rows(records.packed)
        units, _ = segments(self._units(records.packed))
        places = units.codes.astype(np.int64)
        old, new = (self._placed(records, columns, mask, places) for mask in (records.before, records.after))
        shown = new.exists if everything else old.exists | new.exists
        changed = np.flatnonzero(shown if everything else shown & ~old.equals(new, rows, places))
        old, new = old.at(changed), new.at(changed)
        current = new.where(new.exists, old)
        keys = [column.take(pa.array(current.begins)) for column in self.layout.unpack_keys(records.packed)]
        sequences = self._sequences(records.packed) if self.has_history else None
        starts = [] if sequences is None else [sequences.take(pa.array(current.begins))]
        previous = old.at(np.flatnonzero(old.exists)).columns(columns, sequences) if self.emits_retractions else None
        changes = KeyedChanges(
            names=tuple(field.name for field in self.output_fields),
            keys=[*keys, *starts],
            existed=old.exists,
            exists=new.exists,
            results=current.columns(columns, sequences),
            previous=previous,
        )
        return changes.as_new() if everything else changes

    def _placed(self, records: "_Records", columns: Sequence[pa.Array], mask: Bools, places: Int64s) -> "_Placed":
        """Return the versions that some of the records make, each at the place of the record that it begins with."""
        numbers = np.flatnonzero(mask)
        grouping, _ = segments(taken(keys_of(records.packed), numbers))
        codes, deletes = grouping.codes.astype(np.int64), self._deletes(records.packed)[numbers]
        if self.tracked is None:
            found = newest(codes, deletes)
        else:
            found = versions(codes, deletes, self._differ(columns, numbers))
        ends = np.where(found.ends < 0, -1, np.append(numbers, -1)[found.ends])
        placed = Versions(numbers[found.begins], numbers[found.rows], ends)
        return _Placed.of(placed, places, int(places[-1]) + 1 if len(places) else 0)

    def _differ(self, columns: Sequence[pa.Array], numbers: Int64s) -> Bools:
        """Return whether each of these records differs from the one before it in a tracked column, (m,)."""
        if not self.tracked:
            return np.zeros(len(numbers), np.bool_)
        fields = [self.layout.row_fields[index] for index in self.tracked]
        tracked = [columns[index].take(pa.array(numbers)) for index in self.tracked]
        return differs_from_before(encoded_rows(tracked, fields, zeros_tie=True).cast(pa.large_binary()))

    def _write(self, records: "_Records", groups: Groups, backend: KeyedStateBackend) -> None:
        """Write the records that count now and did not, and delete those that do not any more."""
        touched = np.flatnonzero(records.before != records.after)
        packed = taken(records.packed, touched)
        grouping, _ = segments(keys_of(records.packed))
        state = StateTable(self.states[0], backend)
        keys = state.stored_keys(groups[grouping.codes[touched]], packed)
        deletes = pa.array(self._deletes(packed).astype(np.int64))
        state.write(keys, [deletes], deleted=np.flatnonzero(~records.after[touched]).tolist())

    def _units(self, packed: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """Return the bytes (n,) that records of which one counts have in common: the key, or key and sequence."""
        parts = parts_of(packed)
        ends = self._sequence_ends(parts.order_ends) if self.has_history else parts.key_ends
        return cut(parts.data, parts.starts, ends)

    def _deletes(self, packed: pa.LargeBinaryArray) -> Bools:
        """Return whether each record deletes, (n,)."""
        parts = parts_of(packed)
        if not self.deletes:
            return np.zeros(len(packed), np.bool_)
        found: Bools = parts.data[parts.order_ends - 1] != 0
        return found

    def _sequences(self, packed: pa.LargeBinaryArray) -> pa.Array:
        """Return the sequence of each record, (n,)."""
        parts = parts_of(packed)
        encoded = cut(parts.data, parts.key_ends, self._sequence_ends(parts.order_ends))
        return decode_keys(encoded, KeySchema((self._sequence(START),)))[0]

    def _sequence_ends(self, order_ends: Int64s) -> Int64s:
        return order_ends - (_DELETES_BYTES if self.deletes else 0)

    def _sequence(self, name: str) -> pa.Field:
        return pa.field(name, self.layout.order[0].data_type)


@dataclass(frozen=True, slots=True)
class _Records:
    """Distinct records (n,) of some keys, in their order, and which of them count before and after the epoch."""

    packed: pa.LargeBinaryArray
    before: Bools
    after: Bools


@dataclass(frozen=True, slots=True)
class _Placed:
    """Versions at places (p,): -1 where there is none. Two sets of versions have each version at one place."""

    begins: Int64s
    rows: Int64s
    ends: Int64s

    @classmethod
    def of(cls, found: Versions, places: Int64s, count: int) -> "_Placed":
        """Return versions at the places (n,) of the records that they begin with."""
        columns = np.full((3, count), -1)
        columns[:, places[found.begins]] = found.begins, found.rows, found.ends
        return cls(*columns)

    @property
    def exists(self) -> Bools:
        """True where there is a version."""
        return self.begins >= 0

    def at(self, places: Int64s) -> "_Placed":
        """Return those at some places."""
        return _Placed(self.begins[places], self.rows[places], self.ends[places])

    def where(self, mask: Bools, other: "_Placed") -> "_Placed":
        """Return these where `mask` is true, and those of another set elsewhere."""
        pairs = ((self.begins, other.begins), (self.rows, other.rows), (self.ends, other.ends))
        return _Placed(*(np.where(mask, own, others) for own, others in pairs))

    def equals(self, other: "_Placed", rows: pa.Array, places: Int64s) -> Bools:
        """Return where both have the same version, (p,).  rows: the columns of each record, as bytes."""
        found = self.exists & other.exists
        both = np.flatnonzero(found)
        ends = np.append(places, -1)
        own, others = (rows.take(pa.array(one.rows[both])) for one in (self, other))
        same_rows = pc.equal(own, others).to_numpy(zero_copy_only=False)
        found[both] = same_rows & (ends[self.ends[both]] == ends[other.ends[both]])
        return found

    def columns(self, columns: Sequence[pa.Array], sequences: pa.Array | None) -> list[pa.Array]:
        """Return the columns of the rows, and the sequences of their ends, if there are any."""
        found = [column.take(pa.array(self.rows)) for column in columns]
        if sequences is None:
            return found
        return [*found, sequences.take(pa.array(np.maximum(self.ends, 0), mask=self.ends < 0))]
