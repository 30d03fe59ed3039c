"""Registers over half a million rows in fifty thousand groups: rows folded to partials, and partials merged."""

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from operators.aggregate import Aggregator, aggregate_function, aggregator_for
from operators.aggregate.reduce import Grouping
from operators.aggregate.registers import Rows
from operators.aggregate.values import Argument

ROWS, GROUPS = 500_000, 50_000

pytestmark = pytest.mark.benchmark(min_rounds=3, max_time=0.2)

_RNG = np.random.default_rng(11)
_INTEGERS = _RNG.integers(-(2**40), 2**40, ROWS)
_NUMBERS = pa.array(_INTEGERS)
_DOUBLES = pa.array(_RNG.random(ROWS))
_TEXTS = pa.array(_INTEGERS % 10_000).cast(pa.string())
_CODES, _TIMES_US = _RNG.permutation(np.arange(ROWS) % GROUPS), _RNG.integers(0, 2**40, ROWS)
CALLS: dict[str, tuple[str, pa.Array]] = {
    "sum-int64": ("sum", _NUMBERS),
    "sum-double": ("sum", _DOUBLES),
    "max-string": ("max", _TEXTS),
    "last-int64": ("last", _NUMBERS),
    "var-double": ("var_samp", _DOUBLES),
}


@pytest.mark.benchmark(group=f"registers, {ROWS:,} rows folded")
@pytest.mark.parametrize("call", CALLS)
def test_fold(benchmark: BenchmarkFixture, call: str) -> None:
    aggregator, argument = _aggregator(call)
    grouping = Grouping(_CODES, GROUPS)
    columns = benchmark(lambda: aggregator.partials(grouping, Rows({0: Argument(argument)}, _TIMES_US)))
    assert [len(column) for column in columns] == [GROUPS] * len(columns)


@pytest.mark.benchmark(group=f"registers, {ROWS:,} partials merged")
@pytest.mark.parametrize("call", CALLS)
def test_merge(benchmark: BenchmarkFixture, call: str) -> None:
    aggregator, argument = _aggregator(call)
    one_each = Grouping(np.arange(ROWS), ROWS)
    partials = aggregator.partials(one_each, Rows({0: Argument(argument)}, _TIMES_US))
    columns = benchmark(aggregator.merge, Grouping(_CODES, GROUPS), partials)
    assert [len(column) for column in columns] == [GROUPS] * len(columns)


def _aggregator(call: str) -> tuple[Aggregator, pa.Array]:
    name, argument = CALLS[call]
    function = aggregate_function(name, 0, argument.type, has_event_time=True, where="bench")
    return aggregator_for({call: function}, arguments=1, counts_rows=False), argument
