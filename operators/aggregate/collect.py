"""Registers that keep values instead of folding them: the distinct values of a group, or its first values in time.

Their state grows with what they keep: a count of distinct values with the number of values, a collected list or set up
to its limit. All groups are sorted at once; nothing here loops over groups or records.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mixedmode.operators.aggregate.packed import Lists, distinct_by, earliest_by, pack, packed_fields, positions, unpack
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import Parts, Rows
from mixedmode.operators.aggregate.values import Int64s, Values


@dataclass(frozen=True, slots=True)
class Distinct:
    """The distinct values that are not NULL: all of them, or the `limit` smallest.

    All NaN are one value, and both zeros are. The smallest of a union are among the smallest of its parts, so a limit
    costs nothing in exactness.
    """

    argument: int
    kind: pa.DataType
    limit: int | None
    is_invertible = False
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """A packed list, ascending."""
        return packed_fields(self.kind)

    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """See Register."""
        return self._packed(distinct_by(grouping, rows.arguments[self.argument].normal))

    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        """See Register."""
        lists = unpack(parts)
        return self._packed(distinct_by(grouping.repeated(lists.counts), lists.values))

    def _packed(self, lists: Lists) -> tuple[Values, ...]:
        if self.limit is not None and (lists.counts > self.limit).any():
            owners = lists.owners
            lists = lists.where(positions(owners, len(lists.counts)) < self.limit)
        return pack(lists)


@dataclass(frozen=True, slots=True)
class Collected:
    """The first `limit` values that are not NULL, by (event time, value); by value alone where there is no event time.

    So which values are kept, and in which order, depends on the records alone, however they arrive.
    """

    argument: int
    kind: pa.DataType
    limit: int
    has_time: bool
    is_invertible = False

    @property
    def goes_by_time(self) -> bool:
        """As planned."""
        return self.has_time

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """A packed list of the values, and one of their event times if there are any."""
        times = packed_fields(pa.int64()) if self.has_time else ()
        return (*packed_fields(self.kind), *times)

    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """See Register."""
        values = rows.arguments[self.argument].ordered
        if not self.has_time:
            return self._packed(grouping, np.zeros(len(grouping.codes), np.int64), values)
        assert rows.times_us is not None, "planned with event time"
        return self._packed(grouping, rows.times_us, values)

    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        """See Register."""
        lists = unpack(self.values_of(parts))
        times = np.zeros(int(lists.counts.sum()), np.int64)
        if self.has_time:
            times = _integers(unpack(parts[-1:]).values)
        return self._packed(grouping.repeated(lists.counts), times, lists.values)

    def values_of(self, parts: Sequence[Values]) -> Sequence[Values]:
        """The columns of the values among all columns."""
        return parts[:-1] if self.has_time else parts

    def _packed(self, grouping: Grouping, times: Int64s, values: Values) -> tuple[Values, ...]:
        lists, kept_times = earliest_by(grouping, times, values, self.limit)
        packed_times = pack(Lists(lists.counts, Values(kept_times))) if self.has_time else ()
        return (*pack(lists), *packed_times)


def _integers(values: Values) -> Int64s:
    assert isinstance(values.data, np.ndarray), "times are integers"
    return values.data.astype(np.int64, copy=False)
