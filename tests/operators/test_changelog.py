"""Keyed steps over changelogs: after every epoch they say what the rows that are there say, and retract exactly."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import (
    AggregateOperator,
    MultisetAggregateOperator,
    aggregate_function,
    aggregator_for,
)
from tests.operators.arguments import doubles
from tests.operators.changelogs import Follower, LogEpoch, Row, changelogs
from tests.operators.epochs import MemoryState, Operator, State, changelog_of, map_side, run_epoch
from tests.operators.partials import aggregator_of
from tests.random_cases import random_cases

KEYS = KeySchema((pa.field("k", pa.string()),))
NAMES = st.sampled_from([None, "", "a", "b", "a\x00"])
Calls = Sequence[tuple[str, pa.DataType | None]]

INVERTIBLE: Calls = (
    ("count", None),
    ("sum", pa.int64()),
    ("bool_and", pa.bool_()),
    ("avg", pa.decimal128(5, 1)),
    ("bit_xor", pa.int64()),
    ("median", pa.float64()),
    ("mode", pa.string()),
    ("mode_descending", pa.float64()),
)
NOT_INVERTIBLE: Calls = (
    ("sum", pa.float64()),
    ("min", pa.string()),
    ("var_samp", pa.int16()),
    ("count", pa.string()),
    ("bit_and", pa.int8()),
    ("bit_or", pa.int8()),
    ("bit_xor", pa.int8()),
    ("median", pa.int8()),
    ("mode", pa.int8()),
    ("sum_distinct", pa.int8()),
    ("avg_distinct", pa.decimal128(5, 1)),
)
#: whose sums depend on the order in which they are added
_UNEVEN = st.sampled_from([0.1, 0.2, 0.3, 0.7, 0.75, 1.0, 1e16, -1e16])
_TEXTS = st.none() | st.sampled_from(["", "x", "y"])
ROWS: dict[str, tuple[Calls, st.SearchStrategy[Row]]] = {
    "invertible": (
        INVERTIBLE,
        st.tuples(
            NAMES,
            st.none(),
            st.none() | st.integers(-3, 3),
            st.none() | st.booleans(),
            st.none() | st.decimals(-999, 999, places=1),
            st.none() | st.integers(-9, 9),
            st.none() | _UNEVEN | doubles(),
            _TEXTS,
            st.none() | _UNEVEN | doubles(),
        ),
    ),
    "not-invertible": (
        NOT_INVERTIBLE,
        st.tuples(
            NAMES,
            st.none() | _UNEVEN | doubles(),
            _TEXTS,
            st.none() | st.integers(-100, 100),
            _TEXTS,
            *[st.none() | st.integers(-9, 9)] * 6,
            st.none() | st.decimals(-999, 999, places=1),
        ),
    ),
}


def operator_of(calls: Calls) -> AggregateOperator | MultisetAggregateOperator:
    """The operator that a plan takes for a step over a changelog."""
    aggregator = aggregator_of(*calls, counts_rows=True)
    if aggregator.is_invertible:
        return AggregateOperator(aggregator, KEYS, is_changelog=True, emits_retractions=True)
    return MultisetAggregateOperator(aggregator, KEYS, types_of(calls), emits_retractions=True)


def types_of(calls: Calls) -> tuple[pa.DataType, ...]:
    return tuple(pa.int64() if data_type is None else data_type for _, data_type in calls)


def input_of(operator: Operator, calls: Calls, epoch: LogEpoch) -> pa.Table:
    keys = pa.array([row[0] for row in epoch.rows], pa.string())
    arguments = [pa.array([row[1 + i] for row in epoch.rows], t) for i, t in enumerate(types_of(calls))]
    return map_side(operator, [keys], arguments, weights=epoch.weights)


@pytest.mark.parametrize("kind", ROWS)
@settings(max_examples=random_cases(10))
@given(data=st.data())
def test_a_step_over_a_changelog_says_what_the_rows_that_are_there_say(
    new_state: Callable[[], State], kind: str, data: st.DataObject
) -> None:
    calls, rows = ROWS[kind]
    operator, state = operator_of(calls), new_state()
    assert isinstance(operator, AggregateOperator) == (kind == "invertible")
    follower = Follower(calls)
    for epoch in data.draw(changelogs(rows)):
        follower.follow(epoch, run_epoch(operator, state, input_of(operator, calls, epoch)))


@pytest.mark.parametrize("kind", ROWS)
@settings(max_examples=random_cases(15))
@given(data=st.data())
def test_when_every_row_was_retracted_no_state_is_left(kind: str, data: st.DataObject) -> None:
    calls, rows = ROWS[kind]
    operator, state = operator_of(calls), MemoryState()
    log = data.draw(changelogs(rows).filter(bool))
    left = log[-1].present
    for epoch in [*log, LogEpoch(left, [-1] * len(left), [])]:
        run_epoch(operator, state, input_of(operator, calls, epoch))
    assert state.entries == {}


# --- a chain: what one step retracts is what the next one has ------------------------------------------------------

FIRST: Calls = (("avg", pa.float64()),)
SECOND: Calls = (("sum", pa.float64()), ("max", pa.float64()))
THIRD: Calls = (("max", pa.float64()), ("count", pa.float64()))
#: how the keys of one step become those of the next; steps before it have finer keys
SECOND_KEY = {None: "x", "": "x", "a": "y", "b": "y", "a\x00": "y"}


@settings(max_examples=random_cases(30))
@given(epochs=st.lists(st.lists(st.tuples(NAMES, _UNEVEN | doubles(1e9)), max_size=8), max_size=4))
def test_three_steps_in_a_row_agree_on_every_double_they_pass_on(epochs: list[list[Row]]) -> None:
    first = AggregateOperator(aggregator_of(*FIRST), KEYS, is_changelog=False, emits_retractions=True)
    second, third = operator_of(SECOND), operator_of(THIRD)
    states = [MemoryState() for _ in range(3)]
    rows = list[Row]()
    for added in epochs:
        rows += added
        keys = pa.array([row[0] for row in added], pa.string())
        log = _step(first, states[0], map_side(first, [keys], [pa.array([row[1] for row in added], pa.float64())]))
        keys = pa.array([SECOND_KEY[name] for name in log.column("k").to_pylist()], pa.string())
        log = _step(second, states[1], _over(second, keys, log, ("avg_0", "avg_0")))
        keys = pa.array(["all"] * log.num_rows, pa.string())
        changes = run_epoch(third, states[2], _over(third, keys, log, ("sum_0", "sum_0")))
        for change in changes:
            (count,) = change.results[1].to_pylist()
            assert count == len({SECOND_KEY[row[0]] for row in rows}), "no row of the step before stays behind"


def _over(operator: Operator, keys: pa.Array, log: pa.Table, arguments: Sequence[str]) -> pa.Table:
    columns = [log.column(name).combine_chunks() for name in arguments]
    return map_side(operator, [keys], columns, weights=log.column("_weight").to_pylist())


def _step(operator: AggregateOperator | MultisetAggregateOperator, state: State, table: pa.Table) -> pa.Table:
    return changelog_of(operator, run_epoch(operator, state, table))


def test_a_sum_of_doubles_is_retracted_as_it_was_given_although_later_rows_sort_before_earlier_ones() -> None:
    calls: Calls = (("sum", pa.float64()),)
    operator, state = operator_of(calls), MemoryState()
    follower = Follower(calls)
    present = list[Row]()
    for added in ([1e16], [0.75, 1.0], [5.0]):  # 1e16 + 0.75 + 1.0 is 1e16, and 0.75 + 1.0 + 1e16 is 1e16 + 2
        rows: list[Row] = [("a", value) for value in added]
        present = [*present, *rows]
        epoch = LogEpoch(rows, [1] * len(rows), present)
        follower.follow(epoch, run_epoch(operator, state, input_of(operator, calls, epoch)))


# --- what the multiset keeps -----------------------------------------------------------------------------------------


def _min_of_doubles() -> MultisetAggregateOperator:
    functions = {"m": aggregate_function("min", 0, pa.float64(), has_event_time=False, where="")}
    aggregator = aggregator_for(functions, arguments=1, counts_rows=True)
    return MultisetAggregateOperator(aggregator, KEYS, (pa.float64(),), emits_retractions=False)


def _log(values: list[Any], weights: list[int]) -> pa.Table:
    keys = pa.array(["a"] * len(values), pa.string())
    return map_side(_min_of_doubles(), [keys], [pa.array(values, pa.float64())], weights=weights)


def test_equal_rows_are_one_entry_with_a_multiplicity() -> None:
    state = MemoryState()
    run_epoch(_min_of_doubles(), state, _log([1.5, 1.5, float("nan"), -float("nan"), None, None], [1] * 6))
    assert len(state.entries) == 3, "NaN is one value, and so is NULL"
    run_epoch(_min_of_doubles(), state, _log([1.5, float("nan"), None], [-1] * 3))
    assert len(state.entries) == 3, "each is there once"
    run_epoch(_min_of_doubles(), state, _log([1.5, float("nan"), None], [-1] * 3))
    assert state.entries == {}


def test_zeros_of_both_signs_are_two_rows() -> None:
    state = MemoryState()
    run_epoch(_min_of_doubles(), state, _log([0.0, -0.0], [1, 1]))
    (change,) = run_epoch(_min_of_doubles(), state, _log([-0.0], [-1]))
    assert str(change.results[0].to_pylist()) == "[0.0]", "what is retracted is the row that was given"


def test_a_row_that_was_never_there_cannot_be_retracted() -> None:
    state = MemoryState()
    run_epoch(_min_of_doubles(), state, _log([1.0], [1]))
    with pytest.raises(InvalidJobError, match=r"never inserted: .* affected=1"):
        run_epoch(_min_of_doubles(), state, _log([2.0, 1.0], [-1, 1]))


def test_an_empty_changelog_changes_nothing() -> None:
    assert run_epoch(_min_of_doubles(), MemoryState(), _log([], [])) == []


def test_the_state_of_a_multiset_is_described_for_the_manifest() -> None:
    (descriptor,) = _min_of_doubles().states
    assert descriptor.as_json() == {
        "state_id": 1,
        "name": "rows",
        "fields": [{"name": "multiplicity", "type": "int64"}],
    }
