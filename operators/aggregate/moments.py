"""Registers of moments beyond the variance: products of two columns, and third and fourth powers of one column.

A merge treats each partial as `count` equal rows at the mean of the partial. It then adds the deviations within each
partial. All sums are of doubles, so the last bits depend on the order of the rows, as for
`Moments` in registers.py.

Sources: Chan, Golub, LeVeque (1979), as in registers.py; Pebay, "Formulas for robust, one-pass parallel computation of
covariances and arbitrary-order statistical moments" (2008).
"""

from dataclasses import dataclass

import pyarrow as pa
from typing_extensions import override

from mixedmode.operators.aggregate.reduce import Grouping, centred_by, count_by, sum_by, sum_floats_by
from mixedmode.operators.aggregate.registers import Parts, Register, Rows
from mixedmode.operators.aggregate.values import Argument, Bools, Int64s, Values
from mixedmode.operators.floats import Floats


@dataclass(frozen=True, slots=True)
class PairMoments(Register):
    """Moments of the rows in which `argument` (y) and `by` (x) are both not NULL: for covariance and regression."""

    argument: int
    by: int
    is_invertible = False
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """Count int64; means of y and x, sums of dy * dy, dx * dx and dy * dx of the deviations, float64."""
        return (pa.int64(), *(pa.float64(),) * 5)

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        y, x = rows.arguments[self.argument], rows.arguments[self.by]
        both = _both(y.valid, x.valid)
        grouping = grouping.where(both)
        counts = count_by(grouping)
        return _values(counts, *_pair_moments(grouping, _chosen(y, both), _chosen(x, both)))

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        grouping, counts, (y, x, *within) = _of_rows(grouping, parts)
        mean_y, mean_x, *between = _pair_moments(grouping.weighted(counts), y, x)
        sums = [sum_floats_by(grouping, part) + moved for part, moved in zip(within, between, strict=True)]
        return _values(sum_by(grouping, counts), mean_y, mean_x, *sums)


@dataclass(frozen=True, slots=True)
class ShapeMoments(Register):
    """Count, mean, and sums of the second to fourth powers of the deviations: for skewness and kurtosis."""

    argument: int
    is_invertible = False
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """Count int64; mean and three sums, float64."""
        return (pa.int64(), *(pa.float64(),) * 4)

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        argument = rows.arguments[self.argument]
        grouping = grouping.where(argument.valid)
        means, d = centred_by(grouping, _chosen(argument, argument.valid))
        squares = d * d
        sums = [sum_floats_by(grouping, powers) for powers in (squares, squares * d, squares * squares)]
        return _values(count_by(grouping), means, *sums)

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        """Merge the moments of the parts into those of all rows.

        The sums are those of the expanded powers of (a + d). Here a is a row's deviation from the mean of its part, and
        d is the deviation of that mean from the mean of all parts.
        """
        grouping, counts, (means, m2, m3, m4) = _of_rows(grouping, parts)
        mean, d = centred_by(grouping.weighted(counts), means)
        squares = d * d
        sums = [
            m2 + counts * squares,
            m3 + 3 * d * m2 + counts * squares * d,
            m4 + 4 * d * m3 + 6 * squares * m2 + counts * squares * squares,
        ]
        return _values(sum_by(grouping, counts), mean, *(sum_floats_by(grouping, column) for column in sums))


def _of_rows(grouping: Grouping, parts: Parts) -> tuple[Grouping, Int64s, list[Floats]]:
    """Return the partials that have rows: the groups, the numbers of rows, and the other columns.

    A partial without rows has mean 0. Far from other means, its squared deviation is infinite, and 0 times that is NaN.
    """
    counts, floats = parts[0].integers, [one.floats for one in parts[1:]]
    has_rows = counts > 0
    if has_rows.all():
        return grouping, counts, floats
    return grouping.where(has_rows), counts[has_rows], [column[has_rows] for column in floats]


def _pair_moments(grouping: Grouping, y: Floats, x: Floats) -> list[Floats]:
    """Return the means of y and x, and the sums of dy * dy, dx * dx and dy * dx, (size,) each."""
    mean_y, dy = centred_by(grouping, y)
    mean_x, dx = centred_by(grouping, x)
    return [mean_y, mean_x, *(sum_floats_by(grouping, product) for product in (dy * dy, dx * dx, dy * dx))]


def _both(one: Bools | None, other: Bools | None) -> Bools | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _chosen(argument: Argument, rows: Bools | None) -> Floats:
    return argument.floats if rows is None else argument.floats[rows]


def _values(counts: Int64s, *floats: Floats) -> tuple[Values, ...]:
    return (Values(counts), *map(Values, floats))
