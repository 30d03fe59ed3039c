"""Some steps emit their full table in an epoch: the step downstream has no state, or the output is new."""

import pyarrow as pa
import pytest

from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import AggregateOperator, MultisetAggregateOperator, UpsertOperator
from mixedmode.operators.interface import KeyedOperator
from mixedmode.operators.window import TimeWindowAggregateOperator
from mixedmode.plan.stages import MAIN, JobPlan, KeyedStage
from mixedmode.time import Tumbling
from tests.operators.partials import aggregator_of

KEYS = KeySchema((pa.field("k", pa.string()),))
AGGREGATE = AggregateOperator(aggregator_of(("count", None)), KEYS, is_changelog=False, emits_retractions=True)
ROWS = MultisetAggregateOperator(
    aggregator_of(("max", pa.int64()), counts_rows=True), KEYS, (pa.int64(),), emits_retractions=False
)
WINDOW = TimeWindowAggregateOperator(
    aggregator_of(("count", None)), KEYS, Tumbling(60, 0, None), 0, None, emits_retractions=True
)
UPSERT = UpsertOperator(KEYS, ())


def stage(name: str, operator: KeyedOperator) -> KeyedStage:
    return KeyedStage(name, (), KEYS.fields, (), (), None, is_changelog=False, operator=operator, identity={})


def plan(**operators: KeyedOperator) -> JobPlan:
    stages = tuple(stage(name, operator) for name, operator in operators.items())
    return JobPlan((), stages, (), ("k",), (), {}, ("t",), {}, {})


@pytest.mark.parametrize(
    ("chain", "with_state", "outputs", "giving"),
    [
        ({"a": AGGREGATE, "b": ROWS}, "ab", [MAIN], ""),  # goes on as it was
        ({"a": AGGREGATE, "b": ROWS}, "", [], ""),  # a fresh job has nothing to give
        ({"a": AGGREGATE, "b": ROWS}, "ab", [], "b"),  # a new output
        ({"a": AGGREGATE, "b": ROWS}, "ab", ["late"], "b"),
        ({"a": AGGREGATE, "b": ROWS}, "a", [], "a"),  # b is new; what it gives is all that the output needs
        ({"a": AGGREGATE, "b": ROWS, "c": AGGREGATE}, "ab", [], "b"),
        ({"a": AGGREGATE, "b": ROWS, "c": AGGREGATE}, "a", [], "a"),
        ({"a": AGGREGATE, "upsert": UPSERT}, "a", [MAIN], ""),  # sql behind has no state, and follows the output
        ({"a": AGGREGATE, "upsert": UPSERT}, "a", [], "a"),
        ({"a": AGGREGATE, "b": ROWS, "upsert": UPSERT}, "ab", [], "b"),
        ({"a": AGGREGATE, "b": ROWS, "upsert": UPSERT}, "a", [], "a"),
        ({"w": WINDOW}, "w", [], ""),  # windows that have fired are gone
        ({"w": WINDOW, "b": ROWS}, "wb", [], "b"),
    ],
)
def test_what_is_new_is_given_all_that_it_has_missed(
    chain: dict[str, KeyedOperator], with_state: str, outputs: list[str], giving: str
) -> None:
    assert plan(**chain).with_full_snapshot(list(with_state), outputs) == set(giving)


def test_only_what_keeps_all_that_it_has_given_can_give_it_again() -> None:
    assert stage("a", AGGREGATE).can_emit_full_snapshot
    assert stage("b", ROWS).can_emit_full_snapshot
    assert not stage("w", WINDOW).can_emit_full_snapshot
    assert not stage("u", UPSERT).can_emit_full_snapshot
    given = stage("a", AGGREGATE).with_full_snapshot()
    assert given.operator.emits_full_snapshot  # type: ignore[attr-defined]
    assert given.fingerprint == stage("a", AGGREGATE).fingerprint
    assert given.state_schema() == stage("a", AGGREGATE).state_schema()
