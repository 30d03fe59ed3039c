"""The state that an `over` step keeps of a key: its number of rows, its last rows, and what its functions keep.

All of it is one encoded row (operators/row_columns.py). The last rows are an array of structs, the newest one last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.aggregate.values import Int64s
from mixedmode.operators.over.columns import TIME, SortedRows
from mixedmode.operators.row_columns import decoded_rows, encoded_rows

__all__ = ["History", "Kept", "KeptLayout"]

Groups = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class KeptLayout:
    """The layout of what is kept of a key.

    `rows_max`: how many of the last rows are kept; with `span_us`, so are those whose times are at most so long before
    the last one. `history`: {index: type} of the columns of these. `own`: the types of what each function keeps.
    """

    rows_max: int
    history: Mapping[int, pa.DataType]
    own: Sequence[Sequence[pa.DataType]]
    span_us: int | None = None

    @cached_property
    def fields(self) -> tuple[pa.Field, ...]:
        """The columns of the encoded row."""
        last = []
        if self.history:
            of_row = pa.struct([pa.field(_name(index), kind) for index, kind in self.history.items()])
            last = [pa.field("last_rows", pa.list_(of_row))]
        own = [
            pa.field(f"function{number}_{part}", kind)
            for number, types in enumerate(self.own)
            for part, kind in enumerate(types)
        ]
        return (pa.field("rows", pa.int64()), *last, *own)

    def unpacked(
        self, groups: Groups, keys: pa.LargeBinaryArray, found: npt.NDArray[np.intp], stored: pa.Array
    ) -> "Kept":
        """Return what is kept of keys (k,).  found: (m,) those that are stored; stored: (m,) their encoded rows."""
        places = np.zeros(len(keys), np.int64)
        is_missing = np.ones(len(keys), np.bool_)
        places[found], is_missing[found] = np.arange(len(found)), False
        taken = pa.array(places, mask=is_missing)
        rows, *rest = [column.take(taken) for column in decoded_rows(stored, self.fields)]
        history = History.of(rest.pop(0), self.history) if self.history else History.none(len(keys))
        parts = iter(rest)
        own = [[next(parts) for _ in types] for types in self.own]
        return Kept(self, groups, keys, pc.fill_null(rows, 0).to_numpy(), history, own)


@dataclass(frozen=True, slots=True)
class History:
    """The last rows of keys (k,): how many each has, and {index: column} of all of them, key by key."""

    lengths: Int64s
    columns: Mapping[int, pa.Array] = field(default_factory=dict)

    @classmethod
    def none(cls, keys: int) -> "History":
        """Return no rows of keys."""
        return cls(np.zeros(keys, np.int64))

    @classmethod
    def of(cls, lists: pa.ListArray, columns: Mapping[int, pa.DataType]) -> "History":
        """Return the rows of arrays of structs (k,)."""
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
        found = pc.list_flatten(lists).flatten()
        return cls(lengths, dict(zip(columns, found, strict=True)))

    def joined(self, index: int, values: pa.Array) -> pa.Array:
        """Return a column of the joined rows (see Places).  values: (n,) of the rows of the table."""
        rows = int(self.lengths.sum())
        if not rows:
            return values
        return pa.concat_arrays([self.columns.get(index, pa.nulls(rows, values.type)), values])

    def lists(self, types: Mapping[int, pa.DataType]) -> pa.ListArray:
        """Return the rows as arrays of structs (k,)."""
        fields = [pa.field(_name(index), kind) for index, kind in types.items()]
        rows = pa.StructArray.from_arrays([self.columns[index] for index in types], fields=fields)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths)])
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), rows)

    def slice(self, start: int, end: int) -> "History":
        """Return those of some of the keys."""
        first, rows = int(self.lengths[:start].sum()), int(self.lengths[start:end].sum())
        return History(self.lengths[start:end], {i: column.slice(first, rows) for i, column in self.columns.items()})

    def followed_by(self, other: "History") -> "History":
        """Return those of these keys, then those of others."""
        lengths = np.concatenate([self.lengths, other.lengths])
        columns = {i: pa.concat_arrays([column, other.columns[i]]) for i, column in self.columns.items()}
        return History(lengths, columns)


@dataclass(frozen=True, slots=True)
class Kept:
    """The state that is kept of keys (k,), which ascend.

    `rows`: (k,) how many rows a key has had; 0 for a new one. `own`: what each function keeps, NULL for a new key.
    """

    layout: KeptLayout
    groups: Groups
    keys: pa.LargeBinaryArray
    rows: Int64s
    history: History
    own: Sequence[Sequence[pa.Array]]

    def after(self, rows: SortedRows, own: Sequence[Sequence[pa.Array]]) -> "Kept":
        """Return what is kept after the rows of a table.  own: of the functions."""
        places, span_us = rows.places, self.layout.span_us
        history = self.history
        if self.layout.history:
            recent = 0 if span_us is None else rows.timeline.recent(span_us)
            indices, lengths = places.last_rows(self.layout.rows_max, recent)
            taken = pa.array(indices)
            history = History(lengths, {index: rows.joined[index].take(taken) for index in self.layout.history})
        return Kept(self.layout, self.groups, self.keys, self.rows + places.ends - places.starts, history, own)

    def packed(self) -> pa.Array:
        """Return the encoded rows (k,)."""
        last = [self.history.lists(self.layout.history)] if self.layout.history else []
        own = [part for parts in self.own for part in parts]
        return encoded_rows([pa.array(self.rows), *last, *own], self.layout.fields).cast(pa.large_binary())

    def slice(self, start: int, end: int) -> "Kept":
        """Return those of some of the keys."""
        own = [[part.slice(start, end - start) for part in parts] for parts in self.own]
        keys = self.keys.slice(start, end - start)
        history = self.history.slice(start, end)
        return Kept(self.layout, self.groups[start:end], keys, self.rows[start:end], history, own)

    def followed_by(self, other: "Kept") -> "Kept":
        """Return those of these keys, then those of others."""
        return Kept(
            self.layout,
            np.concatenate([self.groups, other.groups]),
            pa.concat_arrays([self.keys, other.keys]),
            np.concatenate([self.rows, other.rows]),
            self.history.followed_by(other.history),
            [
                [pa.concat_arrays(pair) for pair in zip(parts, others, strict=True)]
                for parts, others in zip(self.own, other.own, strict=True)
            ],
        )


def _name(index: int) -> str:
    return "time" if index == TIME else f"column{index}"
