"""Joins without a bound in time: what `explain` says, what is refused, and what can be read of their state."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mixedmode.config.load import job_spec_from_mapping
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source, Stream
from mixedmode.operators.interface import Changelog
from mixedmode.operators.join.layout import JoinType
from mixedmode.plan.explain import explain_plan
from mixedmode.plan.explain_steps import growing_states
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.stored_operators import described, operator_from
from mixedmode.queryable.parts import Moment
from mixedmode.queryable.views import views_of
from mixedmode.state import StateRange
from mixedmode.testing.local_plan import local_plan
from tests.operators.epochs import MemoryState
from tests.operators.join.test_regular import operator_of, run

Build = Callable[[Stream, Stream], Stream]


def plan_of(build: Build) -> tuple[JobPlan, str]:
    """The plan of a job with two sources and one output, and what `explain` says."""
    sources = {
        name: Source.parquet(f"/{name}", schema=f"k string, {column} bigint, at timestamp", event_time="at")
        for name, column in (("orders", "amount"), ("customers", "age"))
    }
    job = Job("joined", sources=sources, checkpoint_dir="/c", parallelism=1)
    made = build(job.source("orders"), job.source("customers"))
    complete = job.output("o", made, Sink.parquet("/out"))
    plan = local_plan(complete.spec, complete.where)
    return plan, explain_plan(complete.spec, plan, cores=1)


def joined(kind: JoinType = "inner", **more: Any) -> Build:
    select = ["left.*"] if kind in ("semi", "anti") else ["left.*", "right.age"]
    return lambda left, right: left.join(right, on="k", type=kind, **{"select": select, **more})


def counted(build: Build) -> Build:
    return lambda left, right: build(left, right).key_by("k").aggregate(n="count(*)")


def refused(build: Build) -> str:
    with pytest.raises(InvalidJobError) as told:
        plan_of(build)
    return str(told.value)


@pytest.mark.parametrize(
    ("kind", "joins"),
    [
        ("inner", "each row of orders with each row of customers of its key, whatever their times are"),
        ("semi", "the rows of orders with a row of customers of their key"),
    ],
)
def test_a_join_of_added_rows_that_only_adds_rows_says_what_it_keeps(kind: JoinType, joins: str) -> None:
    plan, text = plan_of(joined(kind))
    assert plan.stages[0].emitted.changelog is Changelog.APPEND
    assert plan.stages[0].event_time is None
    assert f"  joins       {joins}" in text
    assert "  state       all rows of both sides, for ever: a row goes only when it is retracted" in text
    assert "\n  grows       " in text
    assert "\n  emits       " not in text
    assert [told.split(":")[0] for told in growing_states(plan.stages)] == ["the state of join_1 grows for ever"]


def test_a_step_behind_the_join_has_no_state_that_grows_with_every_row() -> None:
    plan, _ = plan_of(lambda left, right: left.as_of_join(right, on="k", select=["left.*", "right.age"]))
    assert list(growing_states(plan.stages)) == []


@pytest.mark.parametrize("kind", ["left", "right", "full", "anti"])
def test_other_joins_change_and_an_output_needs_a_step_with_a_key(kind: JoinType) -> None:
    plan, text = plan_of(counted(joined(kind)))
    assert plan.stages[0].emitted.changelog is Changelog.RETRACT
    assert "  emits       changes: a row is retracted when its match comes or goes" in text
    assert refused(joined(kind)).startswith("outputs.o.from: the join retracts rows, and its rows have no key")


@pytest.mark.parametrize("kind", ["inner", "semi"])
def test_a_join_of_rows_that_change_changes(kind: JoinType) -> None:
    build = counted(lambda left, right: counted(lambda a, _: a)(left, right).join(right, on="k", type=kind))
    plan, _ = plan_of(build)
    assert [stage.emitted.changelog for stage in plan.stages] == [Changelog.RETRACT] * 3
    assert [stage.is_changelog for stage in plan.stages] == [False, True, True]


def test_the_identity_is_the_type_the_key_and_the_columns_and_no_event_time() -> None:
    plan, _ = plan_of(joined())
    told = json.dumps(plan.stages[0].fingerprint)
    assert '"inner"' in told
    assert '"event-time": null' in told
    others = [joined("left"), joined(select=["left.k", "right.age"])]
    assert told not in {json.dumps(plan_of(counted(build))[0].stages[0].fingerprint) for build in others}


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        (lambda rows: rows.key_by("k").window(tumbling="1m").aggregate(n="count(*)"), "window"),
        (lambda rows: rows.key_by("k").deduplicate(keep="first"), "deduplicate"),
    ],
)
@pytest.mark.parametrize("kind", ["inner", "left"])
def test_steps_that_go_by_time_refuse_its_rows(
    kind: JoinType, behind: Callable[[Stream], Stream], expected: str
) -> None:
    told = refused(lambda left, right: behind(joined(kind)(left, right)))
    why = {"inner": "have no event time", "left": "change"}[kind]
    assert f"steps[1]['{expected}'] cannot read the rows of the join in steps[0], which {why}" in told


def test_a_process_function_refuses_rows_of_a_join_that_changes() -> None:
    step = {"name": "f", "key-by": "k", "process": "m:F", "output": "k string"}
    given = {
        "name": "j",
        "execution.runtime-mode": "batch",
        "sources": {name: {"format": "parquet", "path": f"/{name}"} for name in ("a", "b")},
        "steps": [{"name": "joined", "join": {"left": "a", "right": "b", "on": "k", "type": "left"}}, step],
        "sink": {"format": "parquet", "path": "/out"},
    }
    with pytest.raises(InvalidJobError, match=r"steps\[1\]\.process cannot read the rows of the join in steps\[0\]"):
        job_spec_from_mapping(given)


def test_a_join_has_as_of_or_within_and_not_both() -> None:
    given = {
        "name": "j",
        "execution.runtime-mode": "batch",
        "sources": {name: {"format": "parquet", "path": f"/{name}", "event-time": "at"} for name in ("a", "b")},
        "steps": [{"join": {"left": "a", "right": "b", "on": "k", "as-of": {}, "within": ["-1h", "1h"]}}],
        "sink": {"format": "parquet", "path": "/out"},
    }
    with pytest.raises(InvalidJobError, match=r"steps\[0\]\.join has as-of and within"):
        job_spec_from_mapping(given)


def test_a_semi_join_has_columns_of_the_left_only() -> None:
    told = refused(counted(joined("semi", select=["left.k", "right.age"])))
    assert "a semi join emits columns of the left" in told


def test_an_unknown_argument_is_refused_as_python_does() -> None:
    with pytest.raises(TypeError, match=r"join\(\) got an unexpected keyword argument 'how'"):
        joined(how="left")(*[Stream.__new__(Stream)] * 2)


def test_the_rows_of_both_sides_can_be_read_from_the_state() -> None:
    operator, state = operator_of("left", is_changelog=True), MemoryState()
    rows = [((0, "a", 1), 2), ((0, "b\x00", None), 1), ((1, "a", 7), 1), ((1, "a", 8), 1), ((0, None, 3), 1)]
    run(operator, state, rows)
    run(operator, state, [((1, "a", 8), -1)])
    stored = json.loads(json.dumps(described(operator)))
    found = operator_from(stored)
    assert (found.states, json.dumps(described(found))) == (operator.states, json.dumps(stored))
    schema = {"operator": stored, "states": [dict(one.as_json()) for one in operator.states]}
    views = views_of(schema, Moment(None, 0))
    assert list(views) == ["left", "right"]
    by_side = [[(key, value) for key, value in state.entries.items() if key[2] == side] for side in (0, 1)]
    tables = [
        view.part.decode(StateRange([key for key, _ in own], [value for _, value in own]))
        for view, own in zip(views.values(), by_side, strict=True)
    ]
    assert Counter(map(tuple, (row.values() for row in tables[0].to_pylist()))) == {("a", 1): 2, ("b\x00", None): 1}
    assert tables[1].to_pylist() == [{"k": "a", "v": 7}]
