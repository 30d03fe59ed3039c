"""Functions over two inputs: in which order they see the records, what is refused, what is said and kept of them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from mixedmode.config import CoProcessStep, JobSpec
from mixedmode.config.load import job_spec_from_mapping
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source, Stream, side_output
from mixedmode.plan.explain import explain_plan
from mixedmode.plan.job_plan import JobPlan
from mixedmode.process import CoGroupFunction, KeyedCoProcessFunction, KeyedProcessFunction, ListState
from mixedmode.queryable.parts import Moment
from mixedmode.queryable.views import views_of
from mixedmode.testing import run_graph
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
    found = run_graph(written(), {"orders": LEFT, "customers": RIGHT}).table("o")
    told = {row["k"]: row["seen"].split() for row in found}
    assert told["b"] == ["left9", "right8"]
    assert told["a"][0] == "right6"
    assert sorted(told["a"][1:3]) == ["left1", "left2"]  # the order of records of one side and time is undefined
    assert told["a"][3:] == ["right7", "left3"]


def test_a_null_is_a_key_of_its_own() -> None:
    null: Any = None
    inputs = {"orders": rows("amount", (null, 1, 1)), "customers": rows("age", (null, 2, 0), ("a", 3, 0))}
    found = run_graph(written(), inputs).table("o")
    assert {row["k"]: row["seen"] for row in found} == {None: "right2 left1", "a": "right3"}


def test_side_outputs_and_failures_are_those_of_a_process_function() -> None:
    unlucky = {"unlucky": side_output(Sink.parquet("/unlucky"), schema="k string")}
    inputs = {"orders": LEFT, "customers": [*RIGHT, *rows("age", ("c", 13, 1))]}
    with pytest.raises(InvalidJobError, match=r"raised ValueError: 13.*method=process_right, key=\"c\""):
        run_graph(written(outputs=unlucky), inputs)
    complete = written(outputs=unlucky, on_error="dead-letter", dead_letter=Sink.parquet("/dead"), name="matched")
    found = run_graph(complete, inputs)
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


def test_a_session_of_a_co_group_is_of_the_rows_of_both_inputs() -> None:
    made = grouped(session="4m", tumbling=None)
    first = {
        "orders": rows("amount", ("a", 1, 1), ("a", 2, 8)),
        "customers": rows("age", ("a", 7, 4), ("a", 8, 13)),
    }
    late = {"orders": rows("amount", ("a", 3, 2)), "customers": rows("age", ("a", 9, 16))}
    found = run_graph(made, first, live=[late])
    minutes = [
        ((row["window_start"] - START) // timedelta(minutes=1), (row["window_end"] - START) // timedelta(minutes=1))
        for row in found.table("o")
    ]
    assert minutes == [(1, 12)]
    assert [(row["amounts"], row["ages"]) for row in found.table("o")] == [([1, 2], [7])]
    plan, text = plan_of(made)
    assert "windows     sessions of both sides, gap 4m; emitted when the watermark is past their end" in text
    assert "rows of both sides whose session has not ended, and the bounds of these sessions" in text
    (stage,) = plan.stages
    assert stage.fingerprint["window"] == {"kind": "session", "gap-ms": 240_000}
    assert list(views_of(stage.state_schema(), Moment(None, 0))) == ["waiting-left", "waiting-right"]


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
    with pytest.raises(TypeError, match=r"^co_process\(\) got an unexpected keyword argument 'wrong'\."):
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


class Both(CoGroupFunction):
    """One row for each key and window with rows of both inputs."""

    def co_group(self, left: pa.Table, right: pa.Table, context: Any) -> Any:
        if left.num_rows == 0 or right.num_rows == 0:
            return None
        if right.column("age")[0].as_py() == 13:
            raise ValueError(context.current_key)
        return {"amounts": left.column("amount").to_pylist(), "ages": right.column("age").to_pylist()}


def grouped(**arguments: Any) -> Job:
    made, orders, customers = job()
    given: dict[str, Any] = {
        "on": "k",
        "function": Both,
        "output": "amounts array<bigint>, ages array<bigint>",
        "tumbling": "10m",
    }
    stream = orders.co_group(customers, **(given | arguments))
    return made.output("o", stream, Sink.parquet("/out"))


def test_a_co_group_emits_a_row_with_its_key_and_window() -> None:
    inputs = {"orders": [*LEFT, *rows("amount", ("a", 4, 12))], "customers": [*RIGHT, *rows("age", ("c", 5, 1))]}
    found = run_graph(grouped(), inputs).table("o")
    bounds = {"window_start": START, "window_end": START + timedelta(minutes=10)}
    assert sorted(found, key=lambda row: str(row["k"])) == [
        bounds | {"k": "a", "amounts": [1, 2, 3], "ages": [6, 7]},
        bounds | {"k": "b", "amounts": [9], "ages": [8]},
    ]


def test_a_row_is_late_for_a_co_group_when_its_window_was_emitted() -> None:
    first = {"orders": rows("amount", ("a", 1, 1), ("a", 2, 30)), "customers": rows("age", ("a", 7, 1), ("a", 8, 30))}
    late = {"orders": rows("amount", ("a", 3, 2)), "customers": rows("age", ("a", 9, 31))}
    found = run_graph(grouped(), first, live=[late]).table("o")
    assert [(row["amounts"], row["ages"]) for row in found] == [([1], [7]), ([2], [8, 9])]


def test_a_failure_of_a_co_group_names_the_key_and_the_window() -> None:
    inputs = {"orders": LEFT, "customers": rows("age", ("b", 13, 1))}
    text = r"raised ValueError: b\..*method=co_group, key=\"b\", window=2026-01-01 00:00:00\+00:00 to .*test_co_process"
    with pytest.raises(InvalidJobError, match=text):
        run_graph(grouped(), inputs)
    with pytest.raises(InvalidJobError, match=r"does not match the step's output: .*operator=co_group_1"):
        run_graph(grouped(output="others bigint"), {"orders": LEFT, "customers": RIGHT})


def test_late_rows_and_failed_rows_of_a_co_group_have_outputs() -> None:
    """The rows of the key that failed come one by one, of both inputs; each side has its own late rows."""
    sinks = {name: Sink.parquet(f"/{name}") for name in ("late_left", "late_right", "dead_letter")}
    failing = grouped(on_error="dead-letter", **sinks)
    first = {
        "orders": [*LEFT, *rows("amount", ("a", 1, 50))],
        "customers": [*rows("age", ("b", 13, 1)), *rows("age", ("a", 8, 50))],
    }
    late = {"orders": rows("amount", ("a", 30, 3)), "customers": rows("age", ("z", 31, 4))}
    found = run_graph(failing, first, live=[late])
    assert [row["k"] for row in found.table("o")] == ["a"]
    assert [(row["amount"], row["at"]) for row in found["co_group_1-late-left"]] == [(30, START + timedelta(minutes=3))]
    assert [(row["k"], row["age"]) for row in found["co_group_1-late-right"]] == [("z", 31)]
    letters = found["co_group_1-dead-letter"]
    assert [letter["key"] for letter in letters] == ['"b"'] * 2
    assert sorted(('"age": 13' in letter["record"], '"amount": 9' in letter["record"]) for letter in letters) == [
        (False, True),
        (True, False),
    ]
    counted = run_graph(grouped(on_error="skip"), first)
    assert [row["k"] for row in counted.table("o")] == ["a"]
    _, text = plan_of(failing)
    assert "on error    dead-letter: what failed is left out, and goes to an output of its own" in text
    assert "late        rows of windows that were emitted: those of orders go to the sink co_group_1-late-left" in text


def test_explain_fingerprint_and_state_of_a_co_group() -> None:
    plan, text = plan_of(grouped(sliding="10m", slide="5m", tumbling=None))
    assert "windows     sliding, 10m every 5m; emitted when the watermark reaches their end" in text
    assert "function    tests.job.test_co_process:Both, the rows of orders and customers of a key and window" in text
    assert "rows of both sides whose window has not ended, once for each of their windows" in text
    (stage,) = plan.stages
    assert stage.fingerprint["window"] == {"kind": "sliding", "size-ms": 600_000, "slide-ms": 300_000}
    assert list(views_of(stage.state_schema(), Moment(None, 0))) == ["waiting-left", "waiting-right"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on": "nobody"}, r"^steps\[0\]\.co-group\.on: left has no column nobody"),
        ({"output": "K string"}, r"output: the step adds the bounds of the window and the key .* column=K$"),
        ({"output": "window_end timestamp"}, r"output: the step adds the bounds of the window and the key"),
        ({"function": Order}, r"this is no co-group function\. Name a class that derives from .*CoGroupFunction"),
        ({"session": "10m"}, r"^Stream\.co_group: a window is of one kind\. .* found=tumbling, session"),
        ({"session": "10m", "tumbling": None, "slide": "1m"}, r"^Stream\.co_group: slide is not a known"),
        ({"tumbling": None}, r"^Stream\.co_group: a window is of one kind"),
        ({"tumbling": "0s"}, r"^Stream\.co_group: tumbling must be more than 0"),
        ({"wrong": 1}, r"unexpected keyword argument"),
    ],
)
def test_what_does_not_fit_a_co_group_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidJobError, TypeError), match=message):
        plan_of(grouped(**arguments))


@pytest.mark.parametrize(
    ("window", "begin"),
    [
        ({"global": {"count": 3}}, "steps[0].co-group.window.global is not a known key."),
        ({"tumbling": "1h", "time": "processing"}, "steps[0].co-group.window.time is not a known key."),
        ({"tumbling": "1h", "sliding": {"size": "2h", "slide": "1h"}}, "steps[0].co-group.window names several kinds"),
        (None, "steps[0].co-group.window is missing"),
    ],
)
def test_windows_that_do_not_end_with_event_time_are_refused(window: Any, begin: str) -> None:
    given = document()
    given["steps"] = [{"co-group": given["steps"][0]["co-process"] | {"window": window}}]
    assert any(message.startswith(begin) for message in messages(JobSpec, given)), messages(JobSpec, given)
