"""Spreads, correlations and regressions with infinities and NaN: NaN, in whatever order the rows come and are merged.

Finite numbers are those of test_pairs.py. NULL stays NULL: without a value, of a sample of one, and where all values of
the other column are equal. The rules are those of Spark, but for covariances: Spark's covariance of infinities is NaN
or infinite, as its rows happen to come.
"""

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.differential.stories import local_cases
from tests.operators.calls import Asked, Row, found
from tests.operators.test_pairs import PAIRS, SHAPES

SPREADS = ["var_pop", "var_samp", "stddev_pop", "stddev_samp"]
VALUES = st.sampled_from([None, 0.0, 1.0, -2.5, math.inf, -math.inf, math.nan])


def _is_finite(values: Sequence[float]) -> bool:
    return all(map(math.isfinite, values))


def _is_level(values: Sequence[float]) -> bool:
    return _is_finite(values) and len(set(values)) == 1


def expected(function: str, y: list[float], x: list[float]) -> float | int | None:
    """Return the result over rows of which at least one number that the function looks at is not finite."""
    if function == "regr_count":
        return len(y)
    if function in ("regr_avgy", "regr_avgx"):
        values = y if function == "regr_avgy" else x
        return sum(values) / len(values)
    if function in ("covar_samp", "corr", "var_samp", "stddev_samp") and len(y) == 1:
        return None
    if (function == "corr" and (_is_level(y) or _is_level(x))) or (
        function in ("regr_slope", "regr_intercept", "regr_r2") and _is_level(x)
    ):
        return None
    return 1.0 if function == "regr_r2" and _is_level(y) else math.nan


@pytest.mark.parametrize("function", [*PAIRS, *SHAPES, *SPREADS])
@local_cases(0.1)
@given(values=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=6), data=st.data())
def test_what_is_not_finite_makes_nan_however_the_rows_are_split(
    function: str, values: list[tuple[Any, Any]], data: st.DataObject
) -> None:
    asked = Asked(function, (pa.float64(), pa.float64()), by=1 if function in PAIRS else None)
    rows = [Row(0, 0, pair) for pair in values]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    result = found(asked, rows, cuts)[0]
    if function in PAIRS:
        both = [pair for pair in values if None not in pair]
        y, x = [pair[0] for pair in both], [pair[1] for pair in both]
        seen = {"regr_sxx": x, "regr_syy": y, "regr_avgx": x, "regr_avgy": y}.get(function, [*y, *x])
    else:
        y = [pair[0] for pair in values if pair[0] is not None]
        seen, x = y, y
    assert _is_finite(seen) or repr(result) == repr(expected(function, y, x)), (values, cuts)
