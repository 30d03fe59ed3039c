"""Registers over half a million rows in fifty thousand groups: rows folded to partials, and partials merged."""

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from mixedmode.operators.aggregate import Aggregator, Column, aggregate_function, aggregator_for
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import Rows
from mixedmode.operators.aggregate.values import Argument

ROWS, GROUPS = 500_000, 50_000

pytestmark = pytest.mark.benchmark(min_rounds=3, max_time=0.2)

_RNG = np.random.default_rng(11)
_INTEGERS = _RNG.integers(-(2**40), 2**40, ROWS)
_NUMBERS = pa.array(_INTEGERS)
_DOUBLES = pa.array(_RNG.random(ROWS))
_TEXTS = pa.array(_INTEGERS % 10_000).cast(pa.string())
_ODD = pa.array(_INTEGERS % 2 == 1)
_CODES, _TIMES_US = _RNG.permutation(np.arange(ROWS) % GROUPS), _RNG.integers(0, 2**40, ROWS)
CALLS: dict[str, tuple[str, pa.Array]] = {
    "sum-int64": ("sum", _NUMBERS),
    "sum-double": ("sum", _DOUBLES),
    "max-string": ("max", _TEXTS),
    "last-int64": ("last", _NUMBERS),
    "var-double": ("var_samp", _DOUBLES),
    "max-by-string": ("max_by", _TEXTS),
    "count-distinct-int64": ("count_distinct", _NUMBERS),
    "approx-count-distinct-string": ("approx_count_distinct", _TEXTS),
    "approx-percentile-double": ("approx_percentile", _DOUBLES),
    "collect-list-int64": ("collect_list", _NUMBERS),
    "filtered-sum-int64": ("sum", _NUMBERS),
}
_PARAMETERS: dict[str, tuple[float, ...]] = {"approx_percentile": (0.5,), "collect_list": (100,)}


@pytest.mark.benchmark(group=f"registers, {ROWS:,} rows folded")
@pytest.mark.parametrize("call", CALLS)
def test_fold(benchmark: BenchmarkFixture, call: str) -> None:
    aggregator, argument = _aggregator(call)
    grouping = Grouping(_CODES, GROUPS)
    columns = benchmark(lambda: aggregator.partials(grouping, _rows(argument)))
    assert [len(column) for column in columns] == [GROUPS] * len(columns)


@pytest.mark.benchmark(group=f"registers, {ROWS:,} partials merged")
@pytest.mark.parametrize("call", CALLS)
def test_merge(benchmark: BenchmarkFixture, call: str) -> None:
    aggregator, argument = _aggregator(call)
    one_each = Grouping(np.arange(ROWS), ROWS)
    partials = aggregator.partials(one_each, _rows(argument))
    columns = benchmark(aggregator.merge, Grouping(_CODES, GROUPS), partials)
    assert [len(column) for column in columns] == [GROUPS] * len(columns)


def _aggregator(call: str) -> tuple[Aggregator, pa.Array]:
    name, argument = CALLS[call]
    function = aggregate_function(
        name,
        0,
        argument.type,
        has_event_time=True,
        where="bench",
        by=Column(1, _NUMBERS.type) if name == "max_by" else None,
        parameters=_PARAMETERS.get(name, ()),
        condition=Column(2, _ODD.type) if call.startswith("filtered") else None,
    )
    return aggregator_for({call: function}, arguments=3, counts_rows=False), argument


def _rows(argument: pa.Array) -> Rows:
    columns = (argument, _NUMBERS, _ODD)
    return Rows({index: Argument(column) for index, column in enumerate(columns)}, _TIMES_US)
