"""Buffers of Spark as registers: results are those of the rows, also after more rows were merged."""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate import Aggregator, Column, aggregate_function, aggregator_for
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import Rows
from mixedmode.operators.aggregate.values import Argument
from mixedmode.spark_state.buffers import buffers_of, registers_of

Kinds = Mapping[str, tuple[str, pa.DataType]]


def aggregator(calls: Kinds, by: pa.DataType | None = None) -> Aggregator:
    """Aggregates {output: (function, type)} over the argument 0, with the argument 1 as second column."""
    functions = {
        name: aggregate_function(
            function,
            0,
            kind,
            has_event_time=False,
            where=name,
            by=None if by is None else Column(1, by),
        )
        for name, (function, kind) in calls.items()
    }
    return aggregator_for(functions, arguments=2, counts_rows=False)


def after(found: Aggregator, stored: Sequence[Any], *new: pa.Array) -> list[list[Any]]:
    """The results of one key whose buffers in Spark are `stored`, after these new rows."""
    buffers = buffers_of(found, "step")
    fields = [field for buffer in buffers for field in buffer.fields]
    columns = [pa.array(values, field.type) for values, field in zip(stored, fields, strict=True)]
    before = registers_of(found, buffers, columns)
    rows = Rows({number: Argument(column) for number, column in enumerate(new)})
    groups = len(columns[0])
    partials = found.partials(Grouping(np.zeros(len(new[0]), np.intp), groups), rows)
    both = [pa.concat_arrays(pair) for pair in zip(before, partials, strict=True)]
    codes = np.concatenate([np.arange(groups), np.arange(groups)])
    return [column.to_pylist() for column in found.results(found.merge(Grouping(codes, groups), both))]


STRUCT = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
D122, D22 = pa.decimal128(12, 2), pa.decimal128(22, 2)


@pytest.mark.parametrize(
    ("function", "kind", "stored", "new", "expected"),
    [
        ("count", pa.int64(), [[3]], [4, None], 4),
        ("sum", pa.int64(), [[2**62]], [5, None], 2**62 + 5),
        ("sum", pa.int64(), [[None]], [None], None),
        ("sum", pa.int64(), [[None]], [-3], -3),
        ("sum", pa.int32(), [[-7]], [-3], -10),
        ("sum", pa.float64(), [[1.5]], [2.25], 3.75),
        ("sum", pa.float64(), [[None]], [None], None),
        ("sum", D122, [[Decimal("-1.25")], [False]], [Decimal("0.50")], Decimal("-0.75")),
        ("sum", D122, [[Decimal("0.00")], [True]], [None], None),
        (
            "sum",
            D122,
            [[Decimal("12345678901234567890.00")], [False]],
            [Decimal("-1.00")],
            Decimal("12345678901234567889.00"),
        ),
        ("sum", pa.decimal128(38, 0), [[Decimal(-(10**37))], [False]], [Decimal(1)], Decimal(1 - 10**37)),
        ("avg", pa.int64(), [[9.0], [2]], [3], 4.0),
        ("avg", pa.int64(), [[-9.0], [2]], [None], -4.5),
        ("avg", pa.int64(), [[2.0**70], [4]], [None], 2.0**68),
        ("avg", pa.int64(), [[0.0], [0]], [None], None),
        ("avg", pa.float64(), [[1.0], [1]], [2.0], 1.5),
        ("avg", D122, [[Decimal("1.00")], [2]], [Decimal("0.50")], Decimal("0.500000")),
        ("min", pa.int64(), [[3]], [4], 3),
        ("min", pa.string(), [["b"]], ["a"], "a"),
        ("max", pa.float64(), [[math.inf]], [1.0], math.inf),
        ("max", D122, [[None]], [Decimal("1.00")], Decimal("1.00")),
        ("max", pa.decimal128(30, 2), [[Decimal("-5.00")]], [Decimal("-6.00")], Decimal("-5.00")),
        ("max", STRUCT, [[{"x": 1, "y": ["b"]}]], [{"x": 1, "y": ["b", None]}, None], {"x": 1, "y": ["b", None]}),
        ("min", STRUCT, [[{"x": None, "y": None}]], [{"x": 1, "y": []}], {"x": None, "y": None}),
        ("count_if", pa.bool_(), [[3]], [True, False], 4),
        ("bool_and", pa.bool_(), [[True]], [True], True),
        ("bool_and", pa.bool_(), [[False]], [True], False),
        ("bool_and", pa.bool_(), [[None]], [None], None),
        ("bool_or", pa.bool_(), [[False]], [False], False),
        ("bool_or", pa.bool_(), [[True]], [False], True),
        ("var_pop", pa.float64(), [[2.0], [2.0], [2.0]], [2.0], 2 / 3),
        ("stddev_samp", pa.float64(), [[1.0], [1.0], [0.0]], [3.0], math.sqrt(2)),
        ("bit_xor", pa.int64(), [[6]], [3], 5),
        ("bit_and", pa.int64(), [[None]], [3], 3),
        ("bit_or", pa.int32(), [[4]], [3], 7),
        ("kurtosis", pa.float64(), [[2.0], [0.0], [2.0], [0.0], [2.0]], [None], -2.0),
    ],
)
def test_a_buffer_is_the_state_of_the_rows_before(
    function: str, kind: pa.DataType, stored: list[list[Any]], new: list[Any], expected: object
) -> None:
    ((result,),) = after(aggregator({"x": (function, kind)}), stored, pa.array(new, kind))
    assert result == (pytest.approx(expected) if isinstance(expected, float) else expected)


def test_calls_share_the_register_of_the_buffer_that_has_all_of_it() -> None:
    """sum(x) of Spark counts no rows: the count is that of avg(x) and count(x), and the sum that of sum(x)."""
    kind = pa.int64()
    found = aggregator({"s": ("sum", kind), "a": ("avg", kind), "n": ("count", kind)})
    assert len(found.registers) == 2
    stored = [[2**60 + 1], [float(2**60)], [3], [3]]
    assert after(found, stored, pa.array([5], kind)) == [[2**60 + 6], [(2**60 + 6) / 4], [4]]


def test_equal_calls_have_one_buffer() -> None:
    kind = pa.int64()
    found = aggregator({"s": ("sum", kind), "again": ("sum", kind)})
    assert after(found, [[4]], pa.array([5], kind)) == [[9], [9]]


def test_the_value_of_the_greatest() -> None:
    found = aggregator({"x": ("max_by", pa.string())}, by=pa.float64())
    assert after(found, [["a"], [-0.0]], pa.array(["b"]), pa.array([0.5])) == [["b"]]
    assert after(found, [["a"], [0.5]], pa.array(["b"]), pa.array([-1.0])) == [["a"]]
    structs = aggregator({"x": ("max_by", STRUCT)}, by=STRUCT)
    small, large = {"x": 1, "y": []}, {"x": 1, "y": [None]}
    assert after(structs, [[large], [small]], *[pa.array([one], STRUCT) for one in (small, large)]) == [[small]]
    assert after(found, [[None], [None]], pa.array([None], pa.string()), pa.array([None], pa.float64())) == [[None]]


def test_products_of_two_columns() -> None:
    x, y = [1.0, 2.0, 4.0, 7.0], [2.0, 1.0, 5.0, 9.0]
    first = slice(0, 3)
    mean_x, mean_y = np.mean(x[first]), np.mean(y[first])
    dx, dy = np.array(x[first]) - mean_x, np.array(y[first]) - mean_y
    stored = [[3.0], [mean_x], [mean_y], [float(dx @ dy)], [float(dx @ dx)], [float(dy @ dy)]]
    kind = pa.float64()
    new = (pa.array(x[3:]), pa.array(y[3:]))
    ((corr,),) = after(aggregator({"c": ("corr", kind)}, by=kind), stored, *new)
    assert corr == pytest.approx(np.corrcoef(x, y)[0, 1])
    ((covariance,),) = after(aggregator({"c": ("covar_samp", kind)}, by=kind), stored[:4], *new)
    assert covariance == pytest.approx(np.cov(x, y)[0, 1])


@pytest.mark.parametrize(("function", "stored"), [("sum", [[None], [False]]), ("avg", [[None], [3]])])
def test_a_sum_that_spark_has_dropped_is_refused(function: str, stored: list[list[Any]]) -> None:
    with pytest.raises(InvalidJobError, match="too large for its type"):
        after(aggregator({"x": (function, D122)}), stored, pa.array([None], D122))


@pytest.mark.parametrize("function", ["count_distinct", "sum_distinct", "approx_count_distinct", "median", "mode"])
def test_a_function_with_another_buffer_is_refused_by_name(function: str) -> None:
    with pytest.raises(InvalidJobError, match=f"output=x, function={function}"):
        buffers_of(aggregator({"x": (function, pa.int64())}), "step")


def test_booleans_that_would_share_a_count_are_refused() -> None:
    both = aggregator({"x": ("bool_and", pa.bool_()), "y": ("bool_or", pa.bool_())})
    with pytest.raises(InvalidJobError, match="functions=bool_and, bool_or"):
        buffers_of(both, "step")
