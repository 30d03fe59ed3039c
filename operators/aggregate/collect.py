"""Registers that keep values instead of folding them: the distinct values of a group, or its first values in time.

Their state grows with the kept values: for a count of distinct values with the number of values, for a collected list
or set up to its limit. All groups are sorted at once, without a loop over groups or records.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from typing_extensions import override

from mixedmode.operators.aggregate.packed import Lists, distinct_by, earliest_by, pack, packed_fields, positions, unpack
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import Parts, Register, Rows
from mixedmode.operators.aggregate.values import Int64s, Values


@dataclass(frozen=True, slots=True)
class Distinct(Register):
    """The distinct non-NULL values: all of them, or the `limit` smallest.

    All NaN count as one value; 0.0 and -0.0 also count as one value. The smallest values of a union are among the
    smallest values of its parts. So the result is exact in spite of the limit.
    """

    argument: int
    kind: pa.DataType
    limit: int | None
    is_invertible = False
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """A packed list, in ascending order."""
        return packed_fields(self.kind)

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        return self._packed(distinct_by(grouping, rows.arguments[self.argument].normal))

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        lists = unpack(parts)
        return self._packed(distinct_by(grouping.repeated(lists.counts), lists.values))

    def _packed(self, lists: Lists) -> tuple[Values, ...]:
        if self.limit is not None and (lists.counts > self.limit).any():
            owners = lists.owners
            lists = lists.where(positions(owners, len(lists.counts)) < self.limit)
        return pack(lists)


@dataclass(frozen=True, slots=True)
class Collected(Register):
    """The first `limit` non-NULL values by (event time, value), or by value alone without event time.

    So the kept values and their order depend only on the records, not on their order of arrival.
    """

    argument: int
    kind: pa.DataType
    limit: int
    has_time: bool
    is_invertible = False

    @property
    def goes_by_time(self) -> bool:
        """True if the values are ordered by event time."""
        return self.has_time

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """A packed list of the values, and a packed list of their event times if the input has event times."""
        times = packed_fields(pa.int64()) if self.has_time else ()
        return (*packed_fields(self.kind), *times)

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        values = rows.arguments[self.argument].ordered
        if not self.has_time:
            return self._packed(grouping, np.zeros(len(grouping.codes), np.int64), values)
        assert rows.times_us is not None, "planned with event time"
        return self._packed(grouping, rows.times_us, values)

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        lists = unpack(self.values_of(parts))
        times = np.zeros(int(lists.counts.sum()), np.int64)
        if self.has_time:
            times = unpack(parts[-1:]).values.integers
        return self._packed(grouping.repeated(lists.counts), times, lists.values)

    def values_of(self, parts: Sequence[Values]) -> Sequence[Values]:
        """Return the columns that hold the values, without the event times."""
        return parts[:-1] if self.has_time else parts

    def _packed(self, grouping: Grouping, times: Int64s, values: Values) -> tuple[Values, ...]:
        lists, kept_times = earliest_by(grouping, times, values, self.limit)
        packed_times = pack(Lists(lists.counts, Values(kept_times))) if self.has_time else ()
        return (*pack(lists), *packed_times)
