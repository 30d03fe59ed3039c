"""The aggregates of a step share registers, and travel to tasks."""

import pickle

import pyarrow as pa

from mixedmode.operators.aggregate import Column, aggregate_function, argument_name
from mixedmode.operators.aggregate.aggregator import aggregator_for
from mixedmode.operators.aggregate.registers import Count, ExactSum, FloatSum
from tests.operators.partials import aggregator_of, fold

STEP = {
    name: aggregate_function(function, 0, pa.float64(), has_event_time=False, where="")
    for name, function in {"n": "count", "total": "sum", "mean": "avg"}.items()
}


def test_aggregates_that_need_the_same_register_share_it() -> None:
    aggregator = aggregator_for(STEP, arguments=1, counts_rows=False)
    assert aggregator.registers == (Count(0), FloatSum(0))
    assert [(f.name, f.type) for f in aggregator.state_fields] == [("_r0_0", pa.int64()), ("_r1_0", pa.float64())]


def test_registers_of_different_arguments_are_not_shared() -> None:
    aggregator = aggregator_of(("sum", pa.int64()), ("sum", pa.int64()))
    assert [r for r in aggregator.registers if isinstance(r, ExactSum)] == [ExactSum(0, 2), ExactSum(1, 2)]


def test_results_come_in_the_order_of_the_job() -> None:
    aggregator = aggregator_for(STEP, arguments=1, counts_rows=False)
    assert [f.name for f in aggregator.result_fields] == ["n", "total", "mean"]
    partials = fold(aggregator, [0, 0], [pa.array([1.0, 2.0])])
    assert [c.to_pylist() for c in aggregator.results(partials.columns)] == [[2], [3.0], [1.5]]


def test_a_step_over_a_changelog_counts_its_rows_first() -> None:
    aggregator = aggregator_for(STEP, arguments=1, counts_rows=True)
    assert aggregator.registers[0] == Count(None)
    partials = fold(aggregator, [0, 0, 1], [pa.array([1.0, None, None])], weights=[1, 1, -1])
    assert aggregator.row_counts(partials.columns).tolist() == [2, -1], "NULL arguments are rows, too"


def test_a_count_of_rows_that_the_job_asks_for_is_the_one_that_is_kept_anyway() -> None:
    aggregator = aggregator_of(("count", None), counts_rows=True)
    assert aggregator.registers == (Count(None),)


def test_rows_can_be_retracted_only_if_every_register_can() -> None:
    assert aggregator_of(("sum", pa.int64()), ("bool_or", pa.bool_())).is_invertible
    assert not aggregator_of(("sum", pa.int64()), ("max", pa.int64())).is_invertible


def test_which_aggregates_go_by_event_time_is_known_also_through_a_filter() -> None:
    when = Column(1, pa.bool_())
    for function in ("first", "last", "collect_list", "max", "collect_set"):
        for has_event_time in (True, False):
            if function in ("first", "last") and not has_event_time:
                continue
            limit = (3,) if function.startswith("collect") else ()
            for condition in (None, when):
                built = aggregate_function(
                    function,
                    0,
                    pa.int64(),
                    has_event_time=has_event_time,
                    where="",
                    parameters=limit,
                    condition=condition,
                )
                aggregator = aggregator_for({"n": STEP["n"], "a": built}, arguments=2, counts_rows=False)
                assert aggregator.goes_by_time == (has_event_time and function in ("first", "last", "collect_list")), (
                    function,
                    condition,
                )


def test_an_aggregator_is_shipped_to_tasks_and_computes_the_same_there() -> None:
    aggregator = aggregator_of(("avg", pa.decimal128(5, 2)), ("last", pa.string()))
    shipped = pickle.loads(pickle.dumps(aggregator))
    partials = fold(aggregator, [0], [pa.array([1], pa.decimal128(5, 2)), pa.array(["a"])], times_us=[5])
    assert shipped.results(partials.columns) == aggregator.results(partials.columns)
    assert shipped == aggregator


def test_arguments_are_named_by_number() -> None:
    assert [argument_name(i) for i in range(2)] == ["_arg0", "_arg1"]
