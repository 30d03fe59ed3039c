"""FunctionHarness takes functions and schemas as a job does, and refuses what a job refuses at its start."""

from typing import Any

import pyarrow as pa
import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.process import KeyedBatchProcessFunction, KeyedProcessFunction, ValueState
from mixedmode.testing import FunctionHarness
from tests.testing.functions import Totals


def harness_of(function: Any, **changes: Any) -> FunctionHarness:
    given: dict[str, Any] = {"key_by": "k", "schema": {"k": str, "v": int}, "output": "k string, total bigint"}
    return FunctionHarness(function, **(given | {"outputs": {"large": {"k": str, "v": int}}} | changes))


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (Totals, {"step": 10}),
        (Totals(step=10), None),
        ("tests.testing.functions:Totals", {"step": 10}),
    ],
    ids=["class", "object", "name"],
)
def test_a_function_is_a_class_with_arguments_an_object_or_a_name(function: Any, args: Any) -> None:
    harness = harness_of(function, args=args)
    harness.feed([{"k": "a", "v": 1}])
    harness.feed([{"k": "a", "v": 2}])
    assert [row["total"] for row in harness.take()] == [11, 23]


def test_nothing_but_state_outlives_an_epoch_of_an_object() -> None:
    class Counts(KeyedProcessFunction):
        def __init__(self) -> None:
            self.calls: list[int] = []

        def process_element(self, record: Any, context: Any) -> dict[str, Any]:
            self.calls.append(record["v"])
            return {"k": record["k"], "total": len(self.calls)}

    mine = Counts()
    harness = harness_of(mine)
    for _ in range(2):
        harness.feed([{"k": "a", "v": 1}])
    assert [row["total"] for row in harness.take()] == [1, 1], "as in a job, where each epoch makes its own objects"
    assert mine.calls == []


def test_a_key_may_have_several_columns_and_records_have_all_columns() -> None:
    class Echo(KeyedProcessFunction):
        def process_element(self, record: Any, context: Any) -> dict[str, Any]:
            return {"key": repr(context.current_key), "record": repr(dict(record))}

    harness = FunctionHarness(
        Echo, key_by=["b", "a"], schema={"a": int, "b": str, "c": float}, output={"key": str, "record": str}
    )
    harness.feed([{"a": 1, "b": "x", "c": 0.5}])
    assert harness.take() == [{"key": "('x', 1)", "record": "{'a': 1, 'b': 'x', 'c': 0.5}"}]


def test_the_vectorised_twin_gets_all_rows_of_a_key_in_an_epoch() -> None:
    class Sums(KeyedBatchProcessFunction):
        total = ValueState(int, default=0)

        def process_rows(self, rows: pa.Table, context: Any) -> pa.Table:
            self.total.value += sum(rows.column("v").to_pylist())
            return pa.table({"k": [context.current_key], "total": [self.total.value]})

    harness = harness_of(Sums, backlog=True)
    harness.feed([{"k": "a", "v": 1}, {"k": "b", "v": 5}, {"k": "a", "v": 2}])
    harness.flip()
    harness.feed([{"k": "a", "v": 4}])
    assert sorted(row["total"] for row in harness.take()) == [3, 5, 7]


@pytest.mark.parametrize(
    ("function", "changes", "message"),
    [
        (
            Totals,
            {"key_by": "kk"},
            "FunctionHarness: key_by: there is no column kk. Did you mean k? Columns here: k, v.",
        ),
        (Totals, {"key_by": ()}, "FunctionHarness: key_by: a key needs at least one column"),
        (Totals, {"key_by": "v", "schema": "v array<int>"}, "FunctionHarness: key_by: "),
        (Totals, {"event_time": "t"}, "FunctionHarness: event_time: there is no column t."),
        (Totals, {"event_time": "v"}, "FunctionHarness: event_time: event time must be a timestamp."),
        (Totals, {"output": "k strin"}, "FunctionHarness: output: there is no type 'strin' here."),
        (
            Totals,
            {"output": {"_op": str}},
            "FunctionHarness: output: names that start with _ are kept for columns such",
        ),
        (Totals, {"outputs": {"x": "k"}}, "FunctionHarness: outputs: x: the text ends where a type should be."),
        (Totals, {"on_error": "log"}, "FunctionHarness: on_error must be one of fail, skip, dead-letter. found=log"),
        (Totals, {"args": {"stp": 1}}, "the arguments do not fit the process function:"),
        (Totals(), {"args": {"step": 1}}, "FunctionHarness: an object has its arguments already."),
        ("Totals", {}, "this names no process function. Write `package.module:Class`."),
        ("tests.testing.functions:Total", {}, "this is no process function."),
        (dict, {}, "this is no process function."),
    ],
)
def test_what_a_job_would_be_refused_for_is_refused(function: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        harness_of(function, **changes)
    assert str(caught.value).startswith(message)


def test_a_row_that_does_not_match_the_output_is_refused_as_in_a_job() -> None:
    harness = harness_of(Totals, output="k string, sum bigint")
    with pytest.raises(InvalidJobError, match="does not match the step's output: the row lacks the field `sum`"):
        harness.feed([{"k": "a", "v": 1}])
