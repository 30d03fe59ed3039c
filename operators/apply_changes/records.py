"""Packed records of changes, and the parts of them: key, sequence, whether a record deletes, and the row."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from mixedmode.keys import KeySchema, decode_keys
from mixedmode.keys.rows import cut
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.top.rows import Parts, RowLayout, parts_of

__all__ = ["Records"]

_DELETES_BYTES = 2  # of an encoded boolean: the marker of NULL, and the value


@dataclass(frozen=True)
class Records:
    """Records (n,), packed in a layout whose order columns are the sequence, and then whether a record deletes.

    may_delete: whether there is the latter. has_history: of the records of one key and one sequence, one counts; else
    of all records of a key.
    """

    layout: RowLayout
    packed: pa.LargeBinaryArray
    may_delete: bool
    has_history: bool

    @cached_property
    def keys(self) -> pa.LargeBinaryArray:
        """The encoded keys, (n,)."""
        return cut(self._parts.data, self._parts.starts, self._parts.key_ends)

    @cached_property
    def codes(self) -> Int64s:
        """The number of each record's key, (n,); records of one key are neighbours."""
        return segments(self.keys)[0].codes.astype(np.int64)

    @cached_property
    def units(self) -> pa.LargeBinaryArray:
        """The bytes that records have in common of which one counts, (n,): the key, or key and sequence."""
        return cut(self._parts.data, self._parts.starts, self._sequence_ends) if self.has_history else self.keys

    @cached_property
    def rows(self) -> pa.LargeBinaryArray:
        """The columns of the rows as bytes, (n,)."""
        return cut(self._parts.data, self._parts.order_ends, self._parts.row_ends)

    @cached_property
    def deletes(self) -> Bools:
        """True for a record that deletes, (n,)."""
        if not self.may_delete:
            return np.zeros(len(self.packed), np.bool_)
        found: Bools = self._parts.data[self._parts.order_ends - 1] != 0
        return found

    @cached_property
    def last_of_units(self) -> Int64s:
        """The record of each unit that counts, which is the last one, (m,)."""
        _, first_rows = segments(self.units)
        return np.append(first_rows[1:], len(self.packed)) - 1 if len(first_rows) else first_rows

    def sequences(self) -> pa.Array:
        """Return the sequence of each record, (n,), if that is one column."""
        encoded = cut(self._parts.data, self._parts.key_ends, self._sequence_ends)
        return decode_keys(encoded, KeySchema((pa.field("sequence", self.layout.order[0].data_type),)))[0]

    @cached_property
    def _parts(self) -> Parts:
        return parts_of(self.packed)

    @property
    def _sequence_ends(self) -> Int64s:
        return self._parts.order_ends - (_DELETES_BYTES if self.may_delete else 0)
