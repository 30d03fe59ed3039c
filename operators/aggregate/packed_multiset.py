"""Aggregates that keep every row of a group and its multiplicity, so that any row can be retracted exactly.

They are for windows over rows that change: functions such as max, and sessions, which a retraction may divide. The
state of a group has three columns of packed lists (operators/aggregate/packed.py): the lengths of its rows, the rows in
the order of their bytes, and their multiplicities. A row is its event time and its arguments. A row whose multiplicity
becomes 0 is removed. Example: the rows 7, 3, 7 are stored as [3, 7] and [1, 2].

Invariant (tests/operators/window/test_changelog_windows.py): results do not depend on how the rows were split, merged
and retracted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from typing_extensions import override

from mixedmode.operators.aggregate.aggregator import Aggregator, argument_name
from mixedmode.operators.aggregate.packed import Lists, counted_by, pack, unpack
from mixedmode.operators.aggregate.reduce import Grouping, bytes_of_ranks, rank_bytes, sum_by
from mixedmode.operators.aggregate.registers import Rows
from mixedmode.operators.aggregate.values import Argument, Int64s, Values, from_ordered, ordered_kind, ordered_values
from mixedmode.operators.retractions import check_inserted
from mixedmode.state import RowCodec
from mixedmode.state.arrow_bytes import large_binary

_TIME = pa.field("_time", pa.int64())


@dataclass(frozen=True, slots=True)
class Parts:
    """Groups that were divided, (m,) each: the former group, the least and the greatest event time, and the state."""

    owners: Int64s
    first_us: Int64s
    last_us: Int64s
    columns: list[pa.Array]


@dataclass(frozen=True, slots=True)
class MultisetAggregator(Aggregator):
    """The aggregates of a window over rows that change. `argument_types` are the types of all arguments."""

    argument_types: tuple[pa.DataType, ...]

    @property
    @override
    def state_fields(self) -> tuple[pa.Field, ...]:
        return tuple(pa.field(name, pa.large_binary()) for name in ("_lengths", "_rows", "_multiplicities"))

    @property
    @override
    def is_invertible(self) -> bool:
        return True

    @property
    @override
    def goes_by_time(self) -> bool:
        return True

    @override
    def partials(self, grouping: Grouping, rows: Rows) -> list[pa.Array]:
        assert rows.times_us is not None, "windows have event time"
        arguments = [ordered_values(rows.arguments[i].column).to_arrow() for i in range(self.arguments)]
        return _packed(grouping, large_binary(self._codec.pack([pa.array(rows.times_us), *arguments])))

    @override
    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        rows, multiplicities = _unpacked(columns)
        return _packed(grouping.repeated(rows.counts).weighted(multiplicities), rows.values.data)

    @override
    def results(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        rows, multiplicities = _unpacked(columns)
        check_inserted(multiplicities)
        inner = Aggregator(self.outputs, self.registers, self.arguments)
        grouping = Grouping(rows.owners, len(rows.counts), multiplicities)
        return inner.results(inner.partials(grouping, self._rows(rows)))

    @override
    def row_counts(self, columns: Sequence[pa.Array]) -> Int64s:
        rows, multiplicities = _unpacked(columns)
        return sum_by(Grouping(rows.owners, len(rows.counts)), multiplicities)

    def parted(self, columns: Sequence[pa.Array], gap_us: int) -> Parts:
        """Divide each group where two rows are more than `gap_us` apart. A group without rows has no part."""
        rows, multiplicities = _unpacked(columns)
        check_inserted(multiplicities)
        owners, times = rows.owners, self._times(rows)
        order = np.lexsort((times, owners))
        owners, times = owners[order], times[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (owners[1:] != owners[:-1]) | (times[1:] - times[:-1] > gap_us)
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(order))[: len(first)] - 1
        part = Grouping(np.cumsum(begins) - 1, len(first), multiplicities[order])
        packed = _packed(part, rows.values.data.take(pa.array(order)))
        return Parts(owners[first], times[first], times[last], packed)

    @property
    def _codec(self) -> RowCodec:
        arguments = [pa.field(argument_name(i), ordered_kind(t)) for i, t in enumerate(self.argument_types)]
        return RowCodec((_TIME, *arguments))

    def _columns(self, rows: Lists) -> list[pa.Array]:
        return self._codec.unpack_after(rows.values.data, np.zeros(len(rows.values.data), np.int64))

    def _times(self, rows: Lists) -> Int64s:
        times: Int64s = self._columns(rows)[0].to_numpy()
        return times

    def _rows(self, rows: Lists) -> Rows:
        times, *columns = self._columns(rows)
        arguments = {
            i: Argument(from_ordered(Values.from_arrow(column), data_type))
            for i, (column, data_type) in enumerate(zip(columns, self.argument_types, strict=True))
        }
        return Rows(arguments, times.to_numpy())


def _packed(grouping: Grouping, rows: pa.LargeBinaryArray) -> list[pa.Array]:
    """Return the state of groups of packed rows (n,). The weights of the grouping are multiplicities."""
    ranks, dictionary = rank_bytes(rows)
    lists, multiplicities = counted_by(grouping, ranks)
    kept = Lists(lists.counts, bytes_of_ranks(lists.values, dictionary))
    return [column.to_arrow() for column in (*pack(kept), *pack(Lists(lists.counts, Values(multiplicities))))]


def _unpacked(columns: Sequence[pa.Array]) -> tuple[Lists, Int64s]:
    """Return the packed rows of each group, and the multiplicity of each row."""
    *rows, multiplicities = (Values.from_arrow(column) for column in columns)
    numbers = unpack([multiplicities]).values.data
    assert isinstance(numbers, np.ndarray), "multiplicities are numbers"
    return unpack(rows), numbers.astype(np.int64, copy=False)
