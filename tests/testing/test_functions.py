"""FunctionHarness takes functions and schemas as a job does, and refuses what a job refuses at its start."""

from typing import Any

import pyarrow as pa
import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.process import KeyedBatchProcessFunction, KeyedCoProcessFunction, KeyedProcessFunction, ValueState
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
        ("tests.testing.functions:Total", {}, "the module has no process function of this name."),
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


LEFT = "k string, v bigint, at timestamp"


class Matched(KeyedCoProcessFunction):
    """Emits each left with the sum of the rights before it."""

    total = ValueState(int, default=0)

    def process_left(self, record: Any, context: Any) -> dict[str, Any]:
        return {"k": context.current_key, "total": self.total.value + record["v"]}

    def process_right(self, record: Any, context: Any) -> None:
        self.total.value += record["w"]


def pair_harness(function: Any = Matched, **arguments: Any) -> FunctionHarness:
    given: dict[str, Any] = {"key_by": "k", "schema": (LEFT, "w bigint, at timestamp, k string")}
    return FunctionHarness(function, **{**given, "output": "k string, total bigint", "event_time": "at", **arguments})


def test_a_function_over_two_inputs_sees_both_in_the_order_of_time() -> None:
    harness = pair_harness(backlog=True)
    harness.feed([{"k": "a", "v": 100, "at": 5}], right=[{"k": "a", "w": 1, "at": 3}, {"k": "a", "w": 7, "at": 6}])
    harness.flip()
    assert harness.take() == [{"k": "a", "total": 101}]
    again = harness.restore(harness.snapshot(), parallelism=2)
    again.feed([{"k": "a", "v": 200, "at": 9}, {"k": "b", "v": 1, "at": 9}])
    assert sorted(row["total"] for row in again.take()) == [1, 208]
    named = pair_harness(f"{__name__}:Matched")
    named.feed(right=[{"k": "a", "w": 1, "at": 3}], watermark=4)
    assert named.take() == []


def test_what_does_not_fit_a_function_over_two_inputs_is_refused() -> None:
    with pytest.raises(InvalidJobError, match=r"two inputs\. Give a pair of schemas\. class=Matched"):
        pair_harness(schema=LEFT)
    with pytest.raises(InvalidJobError, match="event_time is missing: a function over two inputs"):
        pair_harness(event_time=None)
    with pytest.raises(
        InvalidJobError, match=r"both inputs need this column with one type\. column=k, types=string, int64"
    ):
        pair_harness(schema=(LEFT, "k bigint, w bigint, at timestamp"))
    with pytest.raises(InvalidJobError, match="FunctionHarness: right: row 0 does not fit"):
        pair_harness().feed(right=[{"k": "a", "v": 1}])
