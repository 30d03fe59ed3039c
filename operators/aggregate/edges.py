"""Registers that keep the value at the smallest or greatest ordering value: first, last, min_by and max_by.

The code first finds the greatest (or smallest) ordering value. Among ties it takes the greatest (or smallest) kept
value, where NULL is smaller than any value. So the answer depends on the records alone (I2 of registers.py).
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from typing_extensions import override

from mixedmode.operators.aggregate.reduce import Grouping, bytes_of_ranks, extreme_by, rank_bytes
from mixedmode.operators.aggregate.registers import Parts, Register, Rows
from mixedmode.operators.aggregate.values import Bools, Values


@dataclass(frozen=True, slots=True)
class EdgeInTime(Register):
    """The value of the record with the smallest (first) or greatest (last) event time; the value may be NULL."""

    argument: int
    last: bool
    kind: pa.DataType
    is_invertible = False
    goes_by_time = True

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """Event time in microseconds, NULL if there was no record; and the value in its ordered form."""
        return (pa.int64(), self.kind)

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """Take the value of the edge; every row has an event time."""
        assert rows.times_us is not None, "first/last are planned only where there is an event time"
        return _edge(grouping, Values(rows.times_us), rows.arguments[self.argument].ordered, largest=self.last)

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        return _edge(grouping, parts[0], parts[1], largest=self.last)


@dataclass(frozen=True, slots=True)
class EdgeBy(Register):
    """The value of `argument` in the record with the smallest or greatest `by`. Records with NULL in `by` are ignored.

    0.0 and -0.0 in `by` are a tie, as in Spark.
    """

    argument: int
    by: int
    largest: bool
    kind: pa.DataType
    by_kind: pa.DataType
    is_invertible = False
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """`by` in its ordered form, NULL if it was NULL in every record; and the value in its ordered form."""
        return (self.by_kind, self.kind)

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        by, values = rows.arguments[self.by].normal, rows.arguments[self.argument].ordered
        return _edge(grouping, by, values, largest=self.largest)

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        return _edge(grouping, parts[0], parts[1], largest=self.largest)


def _edge(grouping: Grouping, by: Values, values: Values, *, largest: bool) -> tuple[Values, Values]:
    """Return the extreme of `by` in each group, and the value of that row. Both are NULL if every `by` is NULL."""
    edges, is_edge = _extremes(grouping, by, largest=largest)
    ties = np.flatnonzero(is_edge if by.valid is None else is_edge & by.valid)
    return edges, _best(Grouping(grouping.codes[ties], grouping.size), values.take(ties), largest=largest)


def _extremes(grouping: Grouping, by: Values, *, largest: bool) -> tuple[Values, Bools]:
    """Return the extreme of each group, and a mask (n,) of the rows equal to it. NULL rows have any mask value."""
    if isinstance(by.data, pa.Array):
        ranks, dictionary = rank_bytes(by.data)
        edges, is_edge = _extremes(grouping, Values(ranks, by.valid), largest=largest)
        return bytes_of_ranks(edges, dictionary), is_edge
    edges = extreme_by(grouping, by, largest=largest)
    assert isinstance(edges.data, np.ndarray), "integers in, integers out"
    return edges, by.data == edges.data[grouping.codes]


def _best(grouping: Grouping, values: Values, *, largest: bool) -> Values:
    """Return the extreme value of each group, where NULL is smaller than any value.

    For values [NULL, 3, 5] the largest is 5, and the smallest is NULL.
    """
    best = extreme_by(grouping, values, largest=largest)
    if largest or values.valid is None:
        return best
    valid = np.ones(grouping.size, np.bool_) if best.valid is None else best.valid.copy()
    valid[grouping.codes[~values.valid]] = False
    return Values(best.data, valid)
