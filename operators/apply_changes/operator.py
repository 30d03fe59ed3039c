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

from mixedmode.errors import InvalidJobError
from mixedmode.keys import decode_keys
from mixedmode.operators.aggregate.changes import KeyedChanges
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.stored import StoredTable
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.apply_changes.placed import Placed
from mixedmode.operators.apply_changes.records import Records
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
from mixedmode.operators.top.rows import OrderColumn, RowLayout, taken, without_prefix
from mixedmode.sort import Combine, sort_order, sort_table, take_rows
from mixedmode.state import KeyedStateBackend, StateDescriptor, StateRange, StateTable
from mixedmode.state.keys import PREFIX_BYTES, stored_keys

__all__ = ["END", "START", "ApplyChangesOperator"]

START, END = "__START_AT", "__END_AT"  #: the columns of a version, as Spark names them
Groups = npt.NDArray[np.uint16]
_STATE_ID = 0


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
        rows = self._records(column_of(table, KEY_COLUMN)).last_of_units
        return table if len(rows) == table.num_rows else take_rows(table, rows)

    def stored_rows(self, ranges: Iterator[StateRange]) -> Iterator[KeyedChanges]:
        """Yield the rows of the stored keys of `ranges` as inserts."""
        for found in ranges:
            records = self._records(without_prefix(found.keys, PREFIX_BYTES))
            everyone = np.ones(len(found.keys), np.bool_)
            yield self._changes(_Epoch(records, everyone, everyone), everything=True)

    def _records(self, packed: pa.LargeBinaryArray) -> Records:
        return Records(self.layout, packed, self.deletes, self.has_history)

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
        new, groups = self._records(column_of(table, KEY_COLUMN)), column_of(table, KEY_GROUP_COLUMN).to_numpy()
        _, first_rows = segments(new.keys)
        groups = groups[first_rows]
        prefixes = stored_keys(groups, taken(new.keys, first_rows), _STATE_ID)
        if stored is not None:
            yield from self.stored_rows(stored.before(prefixes))
        found = backend.scan_prefixes(_STATE_ID, prefixes)
        epoch = self._merged(without_prefix(found.keys, PREFIX_BYTES), found.prefix_of_row, new, groups)
        yield self._changes(epoch, everything=self.emits_full_snapshot)
        self._write(epoch, groups, backend)

    def _merged(self, stored: pa.LargeBinaryArray, stored_codes: Int64s, new: Records, groups: Groups) -> "_Epoch":
        """Return the stored and the new records of keys (k,) in their order, each once.

        stored_codes: the number of each stored record's key. groups: the key group (k,) of each key.
        """
        if not len(stored):
            return _Epoch(new, np.zeros(len(new.packed), np.bool_), np.ones(len(new.packed), np.bool_))
        codes = np.concatenate([stored_codes, new.codes])
        both = pa.concat_arrays([stored, new.packed])
        order = sort_order(pa.table([pa.array(groups[codes]), both], names=[KEY_GROUP_COLUMN, KEY_COLUMN]))
        both, is_stored = both.take(pa.array(order)), order < len(stored)
        _, first_rows = segments(both)
        records = self._records(taken(both, first_rows))
        after = np.zeros(len(records.packed), np.bool_)
        after[records.last_of_units] = True
        return _Epoch(records, np.logical_or.reduceat(is_stored, first_rows), after)

    def _changes(self, epoch: "_Epoch", *, everything: bool) -> KeyedChanges:
        """Return the rows that records change; or every row that there is, as an insert."""
        records, columns = epoch.records, self.layout.unpack_rows(epoch.records.packed)
        places = segments(records.units)[0].codes.astype(np.int64)
        old, new = (self._placed(records, columns, mask, places) for mask in (epoch.before, epoch.after))
        shown = new.exists if everything else old.exists | new.exists
        changed = np.flatnonzero(shown if everything else shown & ~old.equals(new, records.rows, places))
        old, new = old.at(changed), new.at(changed)
        current = new.where(new.exists, old)
        begins = pa.array(current.begins)
        sequences = records.sequences() if self.has_history else None
        keys = [column.take(begins) for column in decode_keys(records.keys, self.layout.key_schema)]
        previous = old.at(np.flatnonzero(old.exists)).columns(columns, sequences) if self.emits_retractions else None
        changes = KeyedChanges(
            names=tuple(field.name for field in self.output_fields),
            keys=[*keys, *([] if sequences is None else [sequences.take(begins)])],
            existed=old.exists,
            exists=new.exists,
            results=current.columns(columns, sequences),
            previous=previous,
        )
        return changes.as_new() if everything else changes

    def _placed(self, records: Records, columns: Sequence[pa.Array], mask: Bools, places: Int64s) -> Placed:
        """Return the versions that some of the records make, each at the place of the record that it begins with."""
        numbers = np.flatnonzero(mask)
        codes, deletes = records.codes[numbers], records.deletes[numbers]
        if self.tracked is None:
            found = newest(codes, deletes)
        else:
            found = versions(codes, deletes, self._differ(columns, numbers))
        ends = np.where(found.ends < 0, -1, np.append(numbers, -1)[found.ends])
        placed = Versions(numbers[found.begins], numbers[found.rows], ends)
        return Placed.of(placed, places, int(places[-1]) + 1 if len(places) else 0)

    def _differ(self, columns: Sequence[pa.Array], numbers: Int64s) -> Bools:
        """Return whether each of these records differs from the one before it in a tracked column, (m,)."""
        if not self.tracked or not len(numbers):
            return np.zeros(len(numbers), np.bool_)
        fields = [self.layout.row_fields[index] for index in self.tracked]
        tracked = [columns[index].take(pa.array(numbers)) for index in self.tracked]
        return differs_from_before(encoded_rows(tracked, fields, zeros_tie=True).cast(pa.large_binary()))

    def _write(self, epoch: "_Epoch", groups: Groups, backend: KeyedStateBackend) -> None:
        """Write the records that count now and did not, and delete those that do not any more."""
        if backend.drops_writes:
            return
        records, touched = epoch.records, np.flatnonzero(epoch.before != epoch.after)
        state = StateTable(self.states[0], backend)
        keys = state.stored_keys(groups[records.codes[touched]], taken(records.packed, touched))
        deletes = pa.array(records.deletes[touched].astype(np.int64))
        state.write(keys, [deletes], deleted=np.flatnonzero(~epoch.after[touched]).tolist())

    def _sequence(self, name: str) -> pa.Field:
        return pa.field(name, self.layout.order[0].data_type)


@dataclass(frozen=True, slots=True)
class _Epoch:
    """Distinct records (n,) of some keys, in their order, and which of them count before and after the epoch."""

    records: Records
    before: Bools
    after: Bools
