"""Joins by time: what `explain` says of late rows, conditions and versions, and what their identity is."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mixedmode.config import JoinStep
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.plan.explain import explain_plan
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.join_operators import JoinedInput
from mixedmode.plan.joins import selection
from mixedmode.testing.local_plan import local_plan
from tests.local_engine import CONDITIONS

#: names that make each other when they are put together with `_`
PARTS = st.sampled_from(["a", "b", "c", "a_b", "b_c", "a_b_c", "left", "right", "left_a", "right_a"])
COLUMNS = st.lists(PARTS, min_size=1, max_size=4, unique=True)


def plan_of(kind: str, **given: Any) -> tuple[JobPlan, str]:
    """The plan of a join of two sources, and what `explain` says."""
    schema = "k string, amount bigint, at timestamp"
    sources = {name: Source.parquet(f"/{name}", schema=schema, event_time="at") for name in ("orders", "payments")}
    job = Job("joined", sources=sources, checkpoint_dir="/c", parallelism=1)
    given = {"on": "k", "select": ["left.k", "right.amount"], "name": "j", **given}
    made = getattr(job.source("orders"), kind)(job.source("payments"), **given)
    complete = job.output("o", made, Sink.parquet("/out"))
    plan = local_plan(complete.spec, complete.where, CONDITIONS)
    return plan, explain_plan(complete.spec, plan, cores=4)


@given(st.lists(PARTS, min_size=2, max_size=2, unique=True), st.tuples(COLUMNS, COLUMNS))
@example(["a", "a_b"], (["b_c"], ["c"]))
def test_the_columns_that_expressions_read_have_different_names(
    aliases: list[str], columns: tuple[list[str], list[str]]
) -> None:
    left, right = (
        JoinedInput(alias, tuple(pa.field(name, pa.string()) for name in own), None, ())
        for alias, own in zip(aliases, columns, strict=True)
    )
    read = [f"{side.alias}.{field.name}" for side in (left, right) for field in side.fields]
    select = [f"{read[0]} AS kept", f"concat({', '.join(read)}) AS made"]
    join = {"left": f"l AS {left.alias}", "right": f"r AS {right.alias}", "on": "k", "select": select}
    found = selection(JoinStep.model_validate({"join": join}), (left, right), lambda *_: "join")
    names = [name for name, _, _ in found.columns]
    assert len({name.lower() for name in names}) == len(names) == 1 + len(read)
    assert found.sql is not None
    assert all(f"`{name}`" in found.sql for name in names)


def test_explain_says_where_late_rows_of_each_side_go() -> None:
    plan, text = plan_of("interval_join", within=("0s", "1h"), late_right=Sink.parquet("/late"))
    fates = "those of orders are counted and dropped, those of payments go to the sink j-late-right"
    assert f"  late        rows before the watermark: {fates}" in text
    assert "rows of the right that came too late" in text
    (stage,) = plan.stages
    assert {name: [field.name for field in fields] for name, fields in stage.side_outputs.items()} == {
        "j-late-right": ["k", "amount", "at"]
    }


def test_a_condition_is_told_and_is_part_of_the_identity() -> None:
    condition = "left.amount < right.amount"
    plan, text = plan_of("interval_join", within=("0s", "1h"), condition=condition)
    assert f"  condition   {condition}; a pair without it is none." in text
    (stage,) = plan.stages
    assert [[field.name for field in side] for side in stage.operator.layout.sides] == [["k", "amount"], ["amount"]]  # type: ignore[attr-defined]
    without, _ = plan_of("interval_join", within=("0s", "1h"), select=["left.k", "left.amount", "right.amount AS paid"])
    assert condition in json.dumps(stage.fingerprint)
    assert condition not in json.dumps(without.stages[0].fingerprint)


def test_the_event_time_of_pairs_has_a_name_of_its_own_or_is_that_of_a_side_that_each_has() -> None:
    for kind, column in (("left", "right.at"), ("full", "left.at"), ("inner", "right.amount AS At")):
        with pytest.raises(InvalidJobError, match="the column that `event-time` adds to the result has the name of"):
            plan_of("interval_join", within=("0s", "1h"), type=kind, select=["left.k", column], event_time="at")
    for column, delay in (("left.at AS At", "1h"), ("right.at", "2h")):
        plan, text = plan_of("interval_join", within=("-2h", "1h"), select=["left.k", column], event_time="at")
        assert plan.stages[0].emitted.event_time == column.rpartition(" ")[2].removeprefix("right.")
        assert f"  delay       a row is emitted up to {delay} behind the watermark" in text
    with pytest.raises(InvalidJobError, match="names that start with _ are kept"):
        plan_of("interval_join", within=("0s", "1h"), event_time="_at")


def test_a_window_over_a_join_without_the_time_of_the_left_says_what_keeps_it() -> None:
    schema = "k string, amount bigint, at timestamp"
    job = Job("joined", sources={"a": Source.parquet("/a", schema=schema, event_time="at")}, checkpoint_dir="/c")
    rows = job.source("a").as_of_join(job.source("a"), on="k", select=["left.k", "right.amount"])
    counted = job.output("o", rows.key_by("k").window(tumbling="1m").aggregate(n="count(*)"), Sink.parquet("/out"))
    with pytest.raises(
        InvalidJobError, match=r"that of the left after another join\. `select` and sql between the two"
    ):
        local_plan(counted.spec, counted.where)
    again = job.output("o", rows.as_of_join(job.source("a"), on="k", select=["left.k"]), Sink.parquet("/out"))
    with pytest.raises(InvalidJobError, match="`select` and the sql between must keep that column"):
        local_plan(again.spec, again.where)


def test_a_tie_break_may_change_as_long_as_the_columns_stay() -> None:
    kept, ordered, more = (
        plan_of("as_of_join", **given)[0].stages[0].fingerprint
        for given in ({}, {"tie_break": "amount"}, {"tie_break": "at"})
    )
    assert kept == ordered != more


def test_a_tolerance_may_change_but_not_appear_or_go_as_long_as_there_is_state() -> None:
    plans = [plan_of("as_of_join", **given) for given in ({}, {"tolerance": "5m"}, {"tolerance": "1h"})]
    without, short, long = (plan.stages[0].fingerprint for plan, _ in plans)
    assert short == long != without
    assert (
        "  state       rows of both sides that the watermark has not passed, and one row of the right per key"
        in (plans[0][1])
    )
    assert "one row of the right per key, until it is too old to be met" in plans[1][1]
