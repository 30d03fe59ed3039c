"""The computation of covariance, correlation, regression, skewness and kurtosis from moments.

The formulas and their NULL rules are Spark's: NULL without a value, and wherever a formula would divide by 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mixedmode.operators.aggregate.moments import PairMoments, ShapeMoments
from mixedmode.operators.aggregate.registers import Moments
from mixedmode.operators.aggregate.results import State
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.floats import Floats


@dataclass(frozen=True, slots=True)
class PairResult:
    """The result of a function of two columns; `function` is a key of PAIR_FORMULAS."""

    register: PairMoments
    function: str

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        counts, *floats = state[self.register]
        moments = _PairColumns(counts.integers, *(one.floats for one in floats))
        with np.errstate(divide="ignore"):
            numbers, is_null = PAIR_FORMULAS[self.function](moments)
        return pa.array(numbers, mask=is_null)


@dataclass(frozen=True, slots=True)
class Shape:
    """Skewness, or excess kurtosis; NULL if all values are equal."""

    register: ShapeMoments
    is_kurtosis: bool

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        counts, _, *sums = state[self.register]
        n, (m2, m3, m4) = counts.data.astype(np.float64), (one.floats for one in sums)
        with np.errstate(divide="ignore"):
            numbers = n * m4 / (m2 * m2) - 3.0 if self.is_kurtosis else np.sqrt(n) * m3 / np.sqrt(m2 * m2 * m2)
        return pa.array(numbers, mask=(n == 0) | (m2 == 0))


@dataclass(frozen=True, slots=True)
class SquareSum:
    """The sum of squared deviations; NULL without a value."""

    register: Moments

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        counts, _, squares = state[self.register]
        return pa.array(squares.data, mask=counts.data == 0)


@dataclass(frozen=True, slots=True)
class _PairColumns:
    """The columns of PairMoments, (g,) each."""

    n: Int64s
    mean_y: Floats
    mean_x: Floats
    yy: Floats
    xx: Floats
    yx: Floats

    @property
    def spread(self) -> Floats:
        """The divisor that turns a covariance into a correlation."""
        root: Floats = np.sqrt(self.yy * self.xx)
        return root


_Formula = Callable[[_PairColumns], tuple[Floats, Bools]]


def _r2(m: _PairColumns) -> tuple[Floats, Bools]:
    is_level = m.yy == 0
    correlation = m.yx / m.spread
    return np.where(is_level, 1.0, correlation * correlation), (m.xx == 0) | (~is_level & (m.spread == 0))


#: {name: function that returns the results and a mask of NULLs, (g,) each}
PAIR_FORMULAS: Mapping[str, _Formula] = {
    "covar_pop": lambda m: (m.yx / m.n, m.n == 0),
    "covar_samp": lambda m: (m.yx / (m.n - 1), m.n <= 1),
    "corr": lambda m: (m.yx / m.spread, (m.n <= 1) | (m.yy == 0) | (m.xx == 0) | (m.spread == 0)),
    "regr_sxy": lambda m: (m.yx, m.n == 0),
    "regr_slope": lambda m: (m.yx / m.xx, m.xx == 0),
    "regr_intercept": lambda m: (m.mean_y - m.yx / m.xx * m.mean_x, m.xx == 0),
    "regr_r2": _r2,
}
