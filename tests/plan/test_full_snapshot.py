"""Some steps emit their full table in an epoch: the step downstream has no state, or the output is new."""

import pyarrow as pa
import pytest

from mixedmode.config.graph import MAIN
from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import AggregateOperator, MultisetAggregateOperator, UpsertOperator
from mixedmode.operators.interface import KeyedOperator
from mixedmode.operators.window import TimeWindowAggregateOperator
from mixedmode.plan.job_plan import JobPlan, ResultPlan
from mixedmode.plan.reads import Reads
from mixedmode.plan.stages import KeyedStage
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


def stage(name: str, operator: KeyedOperator, *reads: str) -> KeyedStage:
    found = Reads(reads or ("t",), sources=() if reads else ("t",), stages=reads, upstream=frozenset({"t"}))
    return KeyedStage(name, found, KEYS.fields, (), (), None, is_changelog=False, operator=operator, identity={})


def chain(**operators: KeyedOperator) -> JobPlan:
    names = list(operators)
    stages = [stage(name, operators[name], *names[i : i + 1]) for i, name in zip(range(-1, 9), names, strict=False)]
    return plan(*stages, **{MAIN: names[-1]})


def plan(*stages: KeyedStage, **outputs: str) -> JobPlan:
    results = {name: ResultPlan(Reads((step,), stages=(step,)), (), ("k",)) for name, step in outputs.items()}
    return JobPlan(stages, results, {}, ("t",), {}, {})


@pytest.mark.parametrize(
    ("steps", "with_state", "outputs", "giving"),
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
    steps: dict[str, KeyedOperator], with_state: str, outputs: list[str], giving: str
) -> None:
    assert chain(**steps).with_full_snapshot(list(with_state), outputs) == set(giving)


@pytest.mark.parametrize(
    ("with_state", "outputs", "giving"),
    [
        ("abc", ["x", "y"], ""),
        ("a", [], "a"),  # both branches are new
        ("ab", ["x"], ""),  # b has had the rows of a already, so a cannot emit its table to c
        ("ab", ["x", "y"], ""),
        ("abc", ["x"], "c"),  # only the output of one branch is new
    ],
)
def test_a_table_is_emitted_only_if_all_its_readers_are_new(with_state: str, outputs: list[str], giving: str) -> None:
    steps = stage("a", AGGREGATE), stage("b", AGGREGATE, "a"), stage("c", AGGREGATE, "a")
    assert plan(*steps, x="b", y="c").with_full_snapshot(list(with_state), outputs) == set(giving)


def test_only_what_keeps_all_that_it_has_given_can_give_it_again() -> None:
    assert stage("a", AGGREGATE).can_emit_full_snapshot
    assert stage("b", ROWS).can_emit_full_snapshot
    assert not stage("w", WINDOW).can_emit_full_snapshot
    assert not stage("u", UPSERT).can_emit_full_snapshot
    given = stage("a", AGGREGATE).with_full_snapshot()
    assert given.operator.emits_full_snapshot  # type: ignore[attr-defined]
    assert given.fingerprint == stage("a", AGGREGATE).fingerprint
    assert given.state_schema() == stage("a", AGGREGATE).state_schema()
