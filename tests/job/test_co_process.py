"""Functions over two inputs: in which order they see the records, what is refused, what is said and kept of them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mixedmode.config import CoProcessStep, JobSpec
from mixedmode.config.load import job_spec_from_mapping
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, SideOutput, Sink, Source, Stream
from mixedmode.plan.explain import explain_plan
from mixedmode.plan.stages import JobPlan
from mixedmode.process import KeyedCoProcessFunction, KeyedProcessFunction, ListState
from mixedmode.queryable.parts import Moment
from mixedmode.queryable.views import views_of
from mixedmode.testing import run_job
from mixedmode.testing.local_plan import local_plan
from tests.config.refusals import messages

START = datetime(2026, 1, 1, tzinfo=UTC)
OUTPUT = "k string, seen string"


class Order(KeyedCoProcessFunction):
    """Emits, by a timer, what it has seen of a key in the order in which it has seen it."""

    seen = ListState(str)

    def process_left(self, record: Any, context: Any) -> None:
        self._note("left", record["amount"], context)

    def process_right(self, record: Any, context: Any) -> None:
        if record["age"] == 13:
            context.output("unlucky", {"k": context.current_key})
            raise ValueError(record["age"])
        self._note("right", record["age"], context)

    def on_timer(self, timestamp: int, context: Any) -> Iterator[dict[str, Any]]:
        yield {"k": context.current_key, "seen": " ".join(self.seen)}

    def _note(self, side: str, value: int, context: Any) -> None:
        self.seen.append(f"{side}{value}")
        context.timers.register_event_time_timer(microseconds(60))


class OneInput(KeyedProcessFunction):
    """A function of another kind."""


def microseconds(minutes: int) -> int:
    return int((START + timedelta(minutes=minutes)).timestamp()) * 1_000_000


def rows(column: str, *found: tuple[str, int, int]) -> list[dict[str, Any]]:
    return [{"k": k, column: value, "at": START + timedelta(minutes=at)} for k, value, at in found]


def job(**more: Any) -> tuple[Job, Stream, Stream]:
    sources = {
        name: Source.parquet(f"/{name}", schema=f"k string, {column} bigint, at timestamp", event_time="at")
        for name, column in (("orders", "amount"), ("customers", "age"))
    }
    made = Job("matched", sources=sources, checkpoint_dir="/c", parallelism=1, **more)
    return made, made.source("orders"), made.source("customers")


def written(**arguments: Any) -> Job:
    made, orders, customers = job()
    stream = orders.co_process(customers, **{"on": "k", "function": Order, "output": OUTPUT, **arguments})
    return made.output("o", stream, Sink.parquet("/out"))


def plan_of(complete: Job) -> tuple[JobPlan, str]:
    plan = local_plan(complete.spec, complete.where)
    return plan, explain_plan(complete.spec, plan, cores=1)


LEFT = rows("amount", ("a", 3, 2), ("a", 1, 1), ("b", 9, 5), ("a", 2, 1))
RIGHT = rows("age", ("a", 7, 1), ("b", 8, 5), ("a", 6, 0))


def test_the_records_of_a_key_come_by_time_and_those_of_the_left_first() -> None:
    found = run_job(written(), {"orders": LEFT, "customers": RIGHT}).table("o")
    told = {row["k"]: row["seen"].split() for row in found}
    assert told["b"] == ["left9", "right8"]
    assert told["a"][0] == "right6"
    assert sorted(told["a"][1:3]) == ["left1", "left2"]  # the order of records of one side and time is undefined
    assert told["a"][3:] == ["right7", "left3"]


def test_a_null_is_a_key_of_its_own() -> None:
    null: Any = None
    inputs = {"orders": rows("amount", (null, 1, 1)), "customers": rows("age", (null, 2, 0), ("a", 3, 0))}
    found = run_job(written(), inputs).table("o")
    assert {row["k"]: row["seen"] for row in found} == {None: "right2 left1", "a": "right3"}


def test_side_outputs_and_failures_are_those_of_a_process_function() -> None:
    unlucky = {"unlucky": SideOutput.parquet("/unlucky", schema="k string")}
    inputs = {"orders": LEFT, "customers": [*RIGHT, *rows("age", ("c", 13, 1))]}
    with pytest.raises(InvalidJobError, match=r"raised ValueError: 13.*method=process_right, key=\"c\""):
        run_job(written(outputs=unlucky), inputs)
    complete = written(outputs=unlucky, on_error="dead-letter", dead_letter=Sink.parquet("/dead"), name="matched")
    found = run_job(complete, inputs)
    assert len(found.table("o")) == 2
    assert found["unlucky"] == []  # the call is rolled back as a whole
    (letter,) = found["matched-dead-letter"]
    assert letter["key"] == '"c"'
    assert '"age": 13' in letter["record"]


def test_python_makes_the_step_of_a_job_file() -> None:
    complete = written(on="left.k = right.k", event_time=None, name="matched", parallelism=2, on_error="skip")
    (step,) = complete.steps
    assert isinstance(step, CoProcessStep)
    assert step.model_dump(by_alias=True, exclude_defaults=True) == {
        "name": "matched",
        "co-process": {
            "left": "orders AS left",
            "right": "customers AS right",
            "on": ("left.k = right.k",),
            "class": "tests.job.test_co_process:Order",
            "folder": step.co_process.folder,
            "output": OUTPUT,
            "on-error": "skip",
        },
        "parallelism": 2,
    }


def test_the_names_of_steps_that_have_none_are_names() -> None:
    assert [step.name for step in written().steps] == ["co_process_1"]


def test_explain_names_both_inputs_and_the_states() -> None:
    plan, text = plan_of(written())
    assert "function    tests.job.test_co_process:Order, the records of orders and customers of a key" in text
    assert "seen str" in text
    assert plan.stages[0].fingerprint["step"] == "co-process"
    assert [side["from"] for side in plan.stages[0].fingerprint["sides"]] == [["orders"], ["customers"]]  # type: ignore[attr-defined]


def test_the_state_is_read_by_name() -> None:
    plan, _ = plan_of(written())
    views = views_of(plan.stages[0].state_schema(), Moment(None, 0))
    assert list(views)[:2] == ["values", "seen"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on": "nobody"}, r"^steps\[0\]\.co-process\.on: left has no column nobody"),
        ({"output": "_k string"}, r"output: names that start with _ are kept"),
        ({"event_time": "nobody"}, r"there is no column nobody"),
        ({"function": OneInput}, r"this is no co-process function\. Name a class that derives from .*KeyedCoProcess"),
        ({"args": {"x": 1}}, r"the arguments do not fit the co-process function"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobError, match=message):
        plan_of(written(**arguments))


def test_a_union_and_an_unknown_argument_are_refused() -> None:
    _, orders, customers = job()
    arguments: dict[str, Any] = {"on": "k", "function": Order, "output": OUTPUT}
    with pytest.raises(InvalidJobError, match=r"^Stream\.co_process: .* the left is a union\."):
        orders.union(customers).co_process(customers, **arguments)
    with pytest.raises(TypeError, match=r"^co_process\(\) got an unexpected keyword argument 'wrong'$"):
        orders.co_process(customers, **(arguments | {"wrong": 1}))
    with pytest.raises(InvalidJobError, match=r"^Stream\.co_process: on_error cannot be ignore"):
        orders.co_process(customers, **(arguments | {"on_error": "ignore"}))


def document(**given: Any) -> dict[str, Any]:
    source = {"format": "parquet", "path": "in", "event-time": "at"}
    spec = {"left": "t", "right": "u", "on": "k", "class": "m:C", "output": "k string"}
    step = {"co-process": spec | {key.replace("_", "-"): value for key, value in given.items()}}
    return {
        "name": "matched",
        "execution": {"checkpointing": {"dir": "cp"}},
        "sources": {"t": source, "u": source | {"path": "other"}},
        "steps": [step],
        "sink": {"format": "parquet", "path": "out"},
    }


@pytest.mark.parametrize(
    ("given", "begin"),
    [
        ({"right": "t"}, "steps[0].co-process.right: both inputs have this name"),
        ({"right": "v"}, "steps[0].co-process.right: there is no source or step of this name."),
        ({"on": "upper(k)"}, "steps[0].co-process.on compares columns of the two inputs."),
        ({"on_error": "dead-letter"}, "steps[0].co-process.dead-letter is missing"),
        ({"klass": "m:C"}, "steps[0].co-process.klass is not a known key. Did you mean class?"),
        (
            {"outputs": {tag: {"format": "parquet", "path": tag, "schema": "k string"} for tag in ("x", "X")}},
            "steps[0].co-process.outputs.X: another one has this name already",
        ),
    ],
)
def test_a_wrong_job_file_is_refused_with_the_place(given: dict[str, Any], begin: str) -> None:
    found = messages(JobSpec, document(**given))
    assert any(message.startswith(begin) for message in found), found


def test_inputs_need_event_time_and_must_not_change() -> None:
    untimed = document()
    untimed["sources"]["u"].pop("event-time")
    (message,) = messages(JobSpec, untimed)
    assert message.startswith("sources.u.event-time is missing: co-process goes by the time of a record.")
    changing = document(right="totals")
    changing["steps"].insert(0, {"name": "totals", "from": "u", "key-by": "k", "aggregate": {"n": "count(*)"}})
    (message,) = messages(JobSpec, changing)
    assert message.startswith("steps[1].co-process cannot read the rows of the aggregate in steps[0], which change")


def test_paths_of_a_job_file_are_relative_to_it() -> None:
    spec = job_spec_from_mapping(document(outputs={"x": {"format": "parquet", "path": "x", "schema": "k string"}}))
    (step,) = spec.steps
    assert isinstance(step, CoProcessStep)
    assert ("steps", 0, "co-process", "outputs", "x") in spec.sinks
