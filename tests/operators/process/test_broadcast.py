"""Broadcast inputs, epoch by epoch: which rows are in force, what may be asked for, and what the state keeps."""

import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.classes import GivenClass
from mixedmode.operators.process import PROCESS_FUNCTION, BroadcastInput, Broadcasts, ProcessOperator
from mixedmode.process import KeyedProcessFunction, OperatorAttributes
from mixedmode.testing import OperatorHarness
from tests.random_cases import random_cases

TIME = pa.field("t", pa.timestamp("us", "UTC"))
RECORD = (pa.field("k", pa.string()), pa.field("back", pa.int64()))
RULE = (
    pa.field("rule", pa.string()),
    pa.field("above", pa.int64()),
    pa.field("gone", pa.bool_()),
)
SCHEMA = "k string, back bigint, rule string, above bigint, gone boolean, t timestamp, _side tinyint"


class Rules(KeyedProcessFunction):
    """The rules in force `back` microseconds before each record."""

    def process_element(self, record: Any, context: Any) -> Iterator[dict[str, Any]]:
        rules = context.broadcast["rules"].as_of(context.timestamp - record["back"])
        text = " ".join(f"{name}{rule['above']}" for name, rule in sorted(rules.items()))
        assert len(rules) == len(list(rules))
        yield {"k": record["k"], "seen": text}


class Clock(KeyedProcessFunction):
    """Asks in a timer of processing time."""

    attributes = OperatorAttributes(uses_clock=True)

    def process_element(self, record: Any, context: Any) -> None:
        context.timers.register_processing_time_timer(0)

    def on_timer(self, timestamp: int, context: Any) -> None:
        context.broadcast["rules"].as_of(0)


class Past(KeyedProcessFunction):
    """Changes a row that is in force."""

    def process_element(self, record: Any, context: Any) -> None:
        context.broadcast["rules"].as_of(context.timestamp)["A"]["above"] = 0


def harness_of(
    function: type[KeyedProcessFunction] = Rules, *, max_parallelism: int = 4, on_error: Any = "fail", **rules: Any
) -> OperatorHarness:
    given = BroadcastInput("rules", RULE, (0,), **rules)
    operator = ProcessOperator(
        "process-1",
        GivenClass(PROCESS_FUNCTION, function),
        KeySchema((pa.field("k", pa.string()),)),
        RECORD,
        (pa.field("k", pa.string()), pa.field("seen", pa.string())),
        on_error=on_error,
        broadcasts=Broadcasts((given,), 1, (RECORD, ())),
    )
    arguments = ["k", "back", "rule", "above", "gone"]
    return OperatorHarness(
        operator, key_by="k", schema=SCHEMA, arguments=arguments, event_time="t", max_parallelism=max_parallelism
    )


def record(t: int, *, k: str | None = "a", back: int = 0) -> dict[str, Any]:
    return {"k": k, "back": back, "t": t, "_side": 0}


def rule(name: str | None, above: int, t: int, *, gone: bool | None = None) -> dict[str, Any]:
    return {"rule": name, "above": above, "gone": gone, "t": t, "_side": 1}


def seen(harness: OperatorHarness) -> list[str]:
    return [row["seen"] for row in harness.take()]


def test_a_record_waits_until_all_rules_of_its_time_are_known() -> None:
    harness = harness_of()
    harness.feed([record(5), rule("A", 1, 3)], watermark=5)
    assert seen(harness) == []
    harness.feed([rule("A", 2, 5), rule("B", 9, 6)], watermark=6)
    assert seen(harness) == ["A2"]
    harness.feed([record(6), record(9)])
    harness.end()
    assert seen(harness) == ["A2 B9", "A2 B9"]


def test_a_rule_ends_with_the_next_one_with_a_deletion_and_by_its_age() -> None:
    harness = harness_of(deleted=2, tolerance_us=10)
    harness.feed([rule("A", 1, 0), rule("A", 2, 4), rule("A", 2, 8, gone=True), rule("B", 7, 2)])
    harness.feed([record(t) for t in (0, 3, 4, 7, 8, 12, 13)])
    harness.end()
    assert seen(harness) == ["A1", "A1 B7", "A2 B7", "A2 B7", "B7", "B7", ""]


class Marks(KeyedProcessFunction):
    """The rules in force by a number, and the one of NaN."""

    def process_element(self, record: Any, context: Any) -> Iterator[dict[str, Any]]:
        rules = context.broadcast["rules"].as_of(context.timestamp)
        assert (rules.get(math.nan) is not None) == any(map(math.isnan, rules))
        yield {"k": record["k"], "seen": " ".join(f"{mark}:{rule['above']}" for mark, rule in sorted(rules.items()))}


@pytest.mark.parametrize("epochs", [1, 6])
def test_every_nan_is_one_key_in_one_epoch_and_over_several(epochs: int) -> None:
    mark, above, gone = pa.field("mark", pa.float64()), RULE[1], RULE[2]
    given = BroadcastInput("rules", (mark, above, gone), (0,), deleted=2)
    operator = ProcessOperator(
        "process-1",
        GivenClass(PROCESS_FUNCTION, Marks),
        KeySchema((pa.field("k", pa.string()),)),
        RECORD,
        (pa.field("k", pa.string()), pa.field("seen", pa.string())),
        broadcasts=Broadcasts((given,), 1, (RECORD, ())),
    )
    schema = "k string, back bigint, mark double, above bigint, gone boolean, t timestamp, _side tinyint"
    arguments = ["k", "back", "mark", "above", "gone"]
    harness = OperatorHarness(operator, key_by="k", schema=schema, arguments=arguments, event_time="t")

    def of(mark: float, above: int, t: int, *, gone: bool = False) -> dict[str, Any]:
        return {"mark": mark, "above": above, "gone": gone, "t": t, "_side": 1}

    rows = [
        *(of(math.nan, 1, 0), of(-math.nan, 2, 2), record(3), of(0.0, 3, 4), of(-0.0, 4, 5)),
        *(record(6), of(math.nan, 5, 7, gone=True), record(8)),
    ]
    for number in range(epochs):
        part = rows[number * len(rows) // epochs : (number + 1) * len(rows) // epochs]
        harness.feed(part, watermark=part[-1]["t"])
    harness.end()
    assert seen(harness) == ["nan:2", "0.0:4 nan:2", "0.0:4"]


def test_of_two_rules_of_one_time_the_greatest_by_tie_break_counts() -> None:
    harness = harness_of(tie_break=(1,))
    harness.feed([rule("A", 5, 1), rule("A", 4, 1)], watermark=1)
    harness.feed([rule("A", 3, 1), record(2)])
    harness.end()
    assert seen(harness) == ["A5"]


def test_two_rules_of_one_time_that_differ_stop_the_job_without_tie_break() -> None:
    harness = harness_of()
    harness.feed([rule("A", 5, 1), rule("A", 5, 1)], watermark=1)
    with pytest.raises(InvalidJobError, match=r"Name the columns .* broadcast=rules, key=A, time=1970-01-01 00:00:00"):
        harness.feed([rule("A", 4, 1)], watermark=2)


times = st.integers(0, 4)
some_rows = st.lists(
    st.builds(record, times)
    | st.builds(rule, st.sampled_from(["A", "B"]), st.integers(0, 3), times, gone=st.sampled_from([None, True])),
    max_size=12,
)


@settings(max_examples=random_cases(20))
@given(some_rows, st.sampled_from([(1,), (2, 1)]), st.sampled_from([None, 0, 2]), st.sampled_from([None, 2]))
def test_the_rules_of_a_record_do_not_depend_on_the_epochs(
    rows: list[dict[str, Any]], ties: tuple[int, ...], tolerance_us: int | None, deleted: int | None
) -> None:
    rows = sorted(rows, key=lambda row: row["t"])
    found = []
    for epochs in ([rows], [[row] for row in rows]):
        harness = harness_of(tie_break=ties, tolerance_us=tolerance_us, deleted=deleted)
        for part in epochs:
            harness.feed(part, watermark=max((row["t"] for row in part), default=0))
        harness.end()
        found.append(sorted(seen(harness)))
    assert found[0] == found[1]


def test_a_job_that_stops_at_two_rules_of_one_time_goes_on_with_a_tie_break() -> None:
    stopped = harness_of()
    stopped.feed([rule("A", 5, 1), rule("B", 7, 1, gone=False), record(2)], watermark=1)
    with pytest.raises(InvalidJobError, match="two of them differ"):
        stopped.feed([rule("A", 4, 1)], watermark=3)
    for ties, expected in (((1,), "A9 B7"), ((2, 1), "A4 B7")):
        harness = harness_of(tie_break=ties).restore(stopped.snapshot())
        harness.feed([rule("A", 9, 1), rule("A", 4, 1, gone=False)], watermark=3)
        harness.end()
        assert seen(harness) == [expected]


def test_a_late_record_and_a_late_rule_are_counted() -> None:
    harness = harness_of()
    harness.feed([rule("A", 1, 3)], watermark=5)
    harness.feed([record(4), rule("B", 1, 4), record(5)])
    harness.end()
    assert harness.records_late == 2
    assert seen(harness) == ["A1"]


def test_a_null_key_of_records_and_of_rules_is_a_key() -> None:
    harness = harness_of()
    harness.feed([rule(None, 1, 1), record(2, k=None)])
    harness.end()
    assert harness.take() == [{"k": None, "seen": "None1"}]


@pytest.mark.parametrize(
    ("function", "back", "text"),
    [
        (Rules, -1, "not known for later than the record or timer"),
        (Rules, 6, r"Set history to as long as the function asks back\. .*history=0ms"),
        (Clock, 0, "those of an event time, and this timer has none"),
        (Past, 0, "does not support item assignment"),
    ],
)
def test_what_a_function_may_not_ask_is_an_error_with_a_reason(
    function: type[KeyedProcessFunction], back: int, text: str
) -> None:
    harness = harness_of(function)
    with pytest.raises(InvalidJobError, match=text):  # noqa: PT012 - the second epoch of one of them
        harness.feed([rule("A", 1, 1), record(9, back=back)], watermark=20)
        harness.end()


def test_history_keeps_the_rules_of_earlier_times_and_no_longer() -> None:
    harness = harness_of(history_us=10)
    harness.feed([rule("A", number, number) for number in range(30)], watermark=30)
    harness.feed([record(30, back=10), record(31, back=5)], watermark=40)
    assert seen(harness) == ["A20", "A26"]
    assert harness.state_entries == 1 * 4  # in four key groups


def test_the_versions_survive_a_flip_and_another_parallelism() -> None:
    for parallelism in (1, 3):
        harness = harness_of(max_parallelism=8)
        harness.feed([rule("A", 1, 1), rule("B", 1, 1), rule("A", 2, 50), record(60)], watermark=10)
        again = harness.restore(harness.snapshot(), parallelism=parallelism)
        again.feed([record(10 + number, k=f"k{number}") for number in range(20)])
        again.end()
        assert sorted(seen(again)) == ["A1 B1"] * 20 + ["A2 B1"]


@pytest.mark.parametrize("epochs", [120, pytest.param(1000, marks=pytest.mark.soak)])
def test_the_state_does_not_grow_over_many_epochs(epochs: int) -> None:
    harness = harness_of(max_parallelism=1, tolerance_us=40)
    sizes = []
    for epoch in range(epochs):
        t = 10 * epoch
        harness.feed([rule(f"r{epoch}", epoch, t), rule("A", epoch, t + 3), record(t + 5)], watermark=t - 20)
        harness.take()
        sizes.append(harness.state_entries)
    assert max(sizes[60:]) == max(sizes[20:60])
