"""The harness goes from epoch to epoch as a job does: what it feeds, fires, keeps, refuses, and gives back."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InternalError, InvalidJobError
from mixedmode.operators.classes import GivenClass
from mixedmode.operators.process import PROCESS_FUNCTION, ProcessOperator
from mixedmode.process import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.testing import AggregateHarness, FunctionHarness, Harness, OperatorHarness
from mixedmode.testing.epoch import EpochOutput
from mixedmode.testing.outputs import Outputs
from tests.random_cases import random_cases
from tests.testing.functions import Totals, alarms, attributes, totals


def row(k: str, v: int) -> dict[str, Any]:
    return {"k": k, "v": v}


def test_importing_it_loads_neither_spark_nor_a_store_nor_a_test_framework() -> None:
    program = (
        "import sys, mixedmode.testing\n"
        "print(sorted({'pyspark', 'rocksdict', 'obstore', 'pytest', 'hypothesis'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_example_in_the_docstring_runs() -> None:
    import mixedmode.testing

    text = mixedmode.testing.__doc__
    assert text is not None
    example = "\n".join(line.removeprefix("    ") for line in text.splitlines() if line.startswith("    "))
    exec(compile(example, "mixedmode/testing/__init__.py", "exec"), {})


# --- records ---------------------------------------------------------------------------------------------------------


def test_each_feed_is_an_epoch_and_take_gives_what_is_new() -> None:
    harness = totals()
    harness.feed([row("a", 1), row("b", 5)])
    harness.feed([row("a", 2)])
    assert sorted(harness.take(), key=str) == [{"k": k, "total": n} for k, n in [("a", 1), ("a", 3), ("b", 5)]]
    assert harness.take() == []
    harness.feed([])
    assert harness.take() == []
    assert len(harness.table()) == 3, "all rows, taken or not"


def test_rows_may_be_a_table_of_other_types_and_more_columns() -> None:
    harness = totals()
    harness.feed(pa.table({"v": pa.array([1, 2], pa.int8()), "more": ["x", "y"], "k": ["a", "a"]}))
    assert harness.take() == [{"k": "a", "total": 1}, {"k": "a", "total": 3}]


def test_a_column_that_is_left_out_is_null() -> None:
    harness = AggregateHarness(key_by="k", schema="k string, v bigint", aggregate={"n": "count(*)", "v": "count(v)"})
    harness.feed([row("a", 1), {"k": "a"}, {}])
    assert sorted(harness.table(), key=str) == [{"k": "a", "n": 2, "v": 1}, {"k": None, "n": 1, "v": 0}]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row("a", 1), {"k": "a", "w": 1}], "row 1 does not fit `schema`: there is no column w. Columns here: k, v."),
        ([{"k": 5, "v": 1}], "row 0 does not fit `schema`: the column `k` is string: Expected bytes, got a 'int'"),
        ([row("a", 2**63)], "row 0 does not fit `schema`: the column `v` is int64:"),
        ([5], "row 0 does not fit `schema`: a row is a mapping of column to value, and this is a int."),
        (
            [{"k": "a", "v": 1.5}],
            "row 0 does not fit `schema`: the column `v` is int64: a float would lose something as int64",
        ),
        (row("a", 1), "rows must be a list of {column: value}, or a pyarrow.Table. found=dict"),
        (pa.table({"k": ["a"]}), "the table does not have the columns of `schema`:"),
        (pa.table({"k": ["a"], "v": ["x"]}), "the table does not have the columns of `schema`:"),
    ],
)
def test_rows_that_do_not_fit_the_schema_are_refused_by_number_and_column(rows: Any, message: str) -> None:
    harness = totals()
    with pytest.raises(InvalidJobError) as caught:
        harness.feed(rows)
    assert str(caught.value).startswith(f"FunctionHarness: {message}")
    assert harness.take() == []


def test_a_record_without_event_time_is_refused_as_in_a_job() -> None:
    harness = alarms()
    with pytest.raises(InvalidJobError, match=r"^a record has no event time, so it has no place in time.* column=t, "):
        harness.feed([{"k": "a", "at": 1, "by_clock": False}])


def test_an_epoch_that_fails_changes_nothing() -> None:
    harness = totals(parallelism=2, max_parallelism=8)
    harness.feed([row(k, 1) for k in "abcdefgh"], after="1s")
    harness.take()
    before = harness.snapshot()
    with pytest.raises(InvalidJobError, match=r"raised ValueError: -5.*operator=process-1.* key=\"f\""):
        harness.feed([row("a", 7), row("f", -5), row("h", 7)], after="1s")
    assert harness.snapshot() == before, "state, watermark, clock and output are as they were"
    assert harness.take() == []
    harness.feed([row("f", 2)])
    assert harness.take() == [{"k": "f", "total": 3}]


# --- event time ------------------------------------------------------------------------------------------------------


def test_a_watermark_is_advanced_by_hand_and_timers_fire_when_it_reaches_them() -> None:
    harness = alarms()
    assert harness.watermark == MIN_WATERMARK
    harness.feed([{"k": "a", "at": at, "by_clock": False, "t": 0} for at in (5, 6, 7)])
    assert harness.take() == [], "no watermark has come"
    harness.advance_watermark(5)
    assert [each["at"] for each in harness.take()] == [5]
    harness.feed([{"k": "b", "at": 6, "by_clock": False, "t": 0}], watermark=datetime.fromtimestamp(6e-6, UTC))
    assert sorted((each["k"], each["at"]) for each in harness.take()) == [("a", 6), ("b", 6)], "its own epoch's, too"
    assert harness.watermark == 6
    harness.advance_watermark(6)
    with pytest.raises(
        InvalidJobError, match=r"a watermark never goes back. Advance it to a later time. to=5, watermark=6"
    ):
        harness.advance_watermark(5)


def test_a_watermark_follows_the_records_at_the_bound() -> None:
    harness = alarms(out_of_orderness="1ms")
    harness.feed([{"k": "a", "at": 4_000, "by_clock": False, "t": 4_999}])
    assert (harness.watermark, harness.take()) == (3_999, [])
    harness.feed([{"k": "b", "at": 10_000, "by_clock": False, "t": t} for t in (5_000, 1_000)])
    assert harness.watermark == 4_000
    assert [each["at"] for each in harness.take()] == [4_000]
    harness.advance_watermark(8_000)
    harness.feed([{"k": "b", "at": 10_000, "by_clock": False, "t": 8_500}])
    assert harness.watermark == 8_000, "it never goes back to the bound"


def test_records_are_late_by_the_watermark_before_their_epoch() -> None:
    harness = AggregateHarness(
        schema="v bigint, t timestamp",
        aggregate={"n": "count(*)"},
        window={"tumbling": "1ms"},
        event_time="t",
        out_of_orderness=0,
        slices=2,
    )
    harness.feed([{"v": 1, "t": 5_000}, {"v": 2, "t": 0}, {"v": 3, "t": 2}])
    assert harness.records_late == 0
    harness.feed([{"v": 4, "t": 9_000}, {"v": 5, "t": 1}, {"v": 6, "t": 4_999}, {"v": 7, "t": 5_001}])
    assert [each["v"] for each in harness.late()] == [5, 6]
    assert (harness.late(), harness.records_late) == ([], 2)
    assert [each["n"] for each in harness.table()] == [2, 2]


def test_at_the_end_of_the_input_everything_fires_and_nothing_more_is_taken() -> None:
    harness = alarms(out_of_orderness=0)
    harness.feed([{"k": "a", "at": at, "by_clock": by_clock, "t": 1} for at, by_clock in [(10**15, False), (9, True)]])
    assert harness.take() == []
    harness.end()
    assert sorted((each["at"], each["domain"]) for each in harness.take()) == [(9, "processing"), (10**15, "event")]
    assert harness.state_entries == 0
    calls: list[Callable[[], None]] = [harness.end, harness.flip, harness.start_backlog, lambda: harness.feed([])]
    for call in calls:
        with pytest.raises(InvalidJobError, match="the input of this harness has ended"):
            call()


# --- processing time -------------------------------------------------------------------------------------------------


def test_processing_time_timers_fire_when_the_clock_reaches_them() -> None:
    start = datetime(2024, 5, 1, tzinfo=UTC)
    harness = alarms(clock=start)
    start_us = harness.clock
    assert start_us == int(start.timestamp()) * 1_000_000
    harness.feed([{"k": "a", "at": start_us + 2_000_000, "by_clock": True, "t": 0}])
    harness.advance_clock("1s999ms")
    assert harness.take() == []
    harness.advance_clock("1ms")
    assert harness.take() == [{"k": "a", "at": start_us + 2_000_000, "domain": "processing"}]
    assert harness.clock == start_us + 2_000_000


def test_state_expires_by_the_clock() -> None:
    harness = attributes()
    harness.feed([row("a", 1)])
    harness.feed([row("a", 2)], after="9s")
    harness.feed([row("a", 3)], after="1s")
    harness.feed([row("a", 4)])
    assert [each["first"] for each in harness.take()] == [None, 1, None, 3]


# --- backlog and flip ------------------------------------------------------------------------------------------------


def test_a_backlog_is_collected_until_the_flip_and_sorted_by_key() -> None:
    harness = totals(backlog=True)
    harness.feed([row("b", 1), row("a", 2)])
    harness.feed([row("b", 3), row("a", 4)])
    assert (harness.is_backlog, harness.take()) == (True, [])
    harness.flip()
    keys = [each["k"] for each in harness.table()]
    assert keys in (["a", "a", "b", "b"], ["b", "b", "a", "a"]), "one key switch"
    assert harness.state_entries == 2, "the state has moved on"
    harness.feed([row("a", 1)])
    assert harness.take()[-1] == {"k": "a", "total": 7}
    assert not harness.is_backlog


def test_a_function_is_told_of_the_flip() -> None:
    harness = attributes(backlog=True)
    harness.feed([row("a", 1)])
    harness.flip()
    for number in range(2):
        harness.feed([row("a", number)])
    harness.start_backlog()
    harness.feed([row("a", 9)])
    harness.flip()
    harness.feed([row("a", 9)])
    told = [(each["said"], each["is_backlog"]) for each in harness.take()]
    assert told == [(True, True), (False, False), (None, False), (True, True), (False, False)]


def test_timers_fire_live_then_key_by_key_in_the_backlog_then_live_again() -> None:
    """The numbers of the reference implementation's test."""

    def timers(k: str, *times: int) -> list[dict[str, Any]]:
        return [{"k": k, "at": at, "by_clock": False, "t": 0} for at in times]

    def fired(harness: Harness) -> list[tuple[str, int]]:
        return [(each["k"], each["at"]) for each in harness.take()]

    harness = alarms(max_parallelism=1)
    harness.feed([*timers("k1", 1, 2, 3), *timers("k2", 1, 3)])
    harness.advance_watermark(2)
    assert sorted(fired(harness)) == [("k1", 1), ("k1", 2), ("k2", 1)]
    harness.start_backlog()
    harness.feed([*timers("k2", 6), *timers("k1", 4, 5)])
    harness.advance_watermark(5)
    assert (fired(harness), harness.watermark) == ([], 2), "nothing happens before the flip"
    harness.flip()
    assert fired(harness) == [("k1", 3), ("k1", 4), ("k1", 5), ("k2", 3)]
    assert harness.watermark == 5
    harness.advance_watermark(6)
    assert fired(harness) == [("k2", 6)]


def test_with_end_of_key_watermark_max_everything_fires_in_the_backlog() -> None:
    harness = alarms(backlog=True, end_of_key_watermark="max", out_of_orderness=0)
    harness.feed([{"k": "a", "at": 10**9, "by_clock": False, "t": 5}])
    harness.flip()
    assert [each["at"] for each in harness.take()] == [10**9]
    assert (harness.watermark, harness.state_entries) == (5, 0)


@pytest.mark.parametrize("end_of_key_watermark", ["greatest", "max"])
def test_processing_time_timers_wait_for_the_flip_whatever_the_end_of_key_watermark(end_of_key_watermark: str) -> None:
    harness = alarms(backlog=True, end_of_key_watermark=end_of_key_watermark, out_of_orderness=0)
    harness.feed([{"k": "a", "at": 7, "by_clock": True, "t": 5}])
    harness.flip()
    assert harness.take() == [], "7 microseconds after 1970 have passed, and the backlog looks at no clock"
    harness.advance_clock("1s")
    assert [(each["at"], each["domain"]) for each in harness.take()] == [(7, "processing")]


def test_with_emit_all_a_backlog_gives_every_running_value_of_each_key() -> None:
    harness = AggregateHarness(
        key_by="k", schema="k string, t timestamp", aggregate={"n": "count(*)"}, event_time="t", backlog=True,
        backlog_emit="all",
    )  # fmt: skip
    harness.feed([{"k": f"k{i % 2}", "t": i} for i in range(10_000)])
    harness.flip()
    given = harness.take()
    for key in ("k0", "k1"):
        assert [each["n"] for each in given if each["k"] == key] == list(range(1, 5_001))
    harness.feed([{"k": "k0", "t": 10_000}, {"k": "k0", "t": 10_001}])
    assert harness.take() == [{"k": "k0", "n": 5_002, "_op": "update"}], "live, once per key and epoch"


def test_a_backlog_that_ends_with_the_input_is_batch_and_leaves_no_state() -> None:
    harness = alarms(backlog=True, out_of_orderness=0)
    harness.feed([{"k": "a", "at": 10**9, "by_clock": False, "t": 5}, {"k": "b", "at": 1, "by_clock": False, "t": 5}])
    harness.end()
    assert sorted(each["at"] for each in harness.take()) == [1, 10**9]
    assert harness.state_entries == 0


def test_a_later_backlog_that_ends_with_the_input_is_flipped_first() -> None:
    harness = attributes()
    harness.feed([row("a", 1)])
    harness.start_backlog()
    harness.feed([row("a", 2)])
    harness.end()
    assert [each["first"] for each in harness.take()] == [None, 1]


def test_flip_and_start_backlog_are_refused_where_they_mean_nothing() -> None:
    harness = totals(backlog=True)
    with pytest.raises(InvalidJobError, match=r"in backlog already. Call flip\(\) first."):
        harness.start_backlog()
    with pytest.raises(InvalidJobError, match=r"there are no checkpoints in backlog. Call flip\(\) first."):
        harness.snapshot()
    harness.flip()
    with pytest.raises(InvalidJobError, match=r"there is no backlog to end. Make the harness with backlog=True"):
        harness.flip()


# --- outputs ---------------------------------------------------------------------------------------------------------


def test_side_outputs_have_their_own_rows_and_others_are_refused() -> None:
    harness = totals()
    harness.feed([row("a", 100), row("b", 99)])
    assert harness.side("large") == [row("a", 100)]
    assert harness.side("large") == []
    with pytest.raises(InvalidJobError, match=r"the step has no side output 'larger'. It has large, skipped."):
        harness.side("larger")


def test_failed_records_are_skipped_and_counted_or_go_to_the_dead_letters() -> None:
    skipping, keeping = totals(on_error="skip"), totals(on_error="dead-letter")
    for harness in (skipping, keeping):
        harness.feed([row("a", 1), row("a", -7), row("a", 2)])
        assert [each["total"] for each in harness.take()] == [1, 3]
    assert (skipping.records_skipped, keeping.records_skipped) == (1, 0)
    (skipped,), (letter,) = skipping.side("skipped"), keeping.side("dead-letter")
    assert skipped["record"] == letter["record"] == '{"k": "a", "v": -7}'


def test_the_table_of_an_aggregate_has_one_row_per_key() -> None:
    harness = AggregateHarness(key_by="k", schema="k string, v bigint", aggregate={"s": "sum(v)"})
    harness.feed([row("a", 1), row("b", 2)])
    harness.feed([row("a", 5)])
    assert sorted(harness.table(), key=str) == [{"k": "a", "s": 6}, {"k": "b", "s": 2}]
    operations = [(each["k"], each["_op"]) for each in harness.take()]
    assert sorted(operations) == [("a", "insert"), ("a", "update"), ("b", "insert")]


@pytest.mark.parametrize(("operation", "key"), [("insert", 1), ("update", 2), ("delete", 2)])
def test_a_change_that_contradicts_the_table_is_reported_as_a_defect(operation: str, key: int) -> None:
    def change(key: int, operation: str) -> EpochOutput:
        return EpochOutput(main=[pa.table({"k": [key], "n": [1], "_op": [operation]})])

    outputs, lenient = Outputs(["k"], is_strict=True), Outputs(["k"], is_strict=False)
    for each in (outputs, lenient):
        each.add(change(1, "insert"))
        each.add(change(key, operation))
    with pytest.raises(InternalError, match=r"the output changes a row that is not there, or inserts one that is."):
        outputs.table()
    assert {each["k"] for each in lenient.table()} >= {1}


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parallelism": 0}, "FunctionHarness: parallelism must be at least 1. found=0"),
        (
            {"parallelism": 9, "max_parallelism": 8},
            "FunctionHarness: parallelism is more than the number of key groups,",
        ),
        ({"max_parallelism": 2**16}, "FunctionHarness: max_parallelism must be at most 32768. found=65536"),
        ({"slices": 0}, "FunctionHarness: slices must be at least 1. found=0"),
        ({"clock": "now"}, "FunctionHarness: clock: this is no time. Give microseconds since 1970 as an int, or a"),
        ({"out_of_orderness": 5}, "FunctionHarness: out_of_orderness: this is not a duration."),
        ({"out_of_orderness": "5s"}, "FunctionHarness: out_of_orderness says how far the watermark is behind the"),
        ({"sort_memory": "much"}, "FunctionHarness: sort_memory: this is not a size."),
        ({"backlog_emit": "some"}, "FunctionHarness: backlog_emit cannot be some. Known values: final, all."),
        ({"end_of_key_watermark": "least"}, "FunctionHarness: end_of_key_watermark cannot be least. Known values:"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        totals(**arguments)
    assert str(caught.value).startswith(message)


def test_an_argument_that_there_is_not_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"FunctionHarness\(\) got an unexpected keyword argument 'paralelism'"):
        totals(paralelism=2)


@pytest.mark.parametrize("call", ["watermark", "after"])
def test_times_that_are_none_are_refused_by_the_argument(call: str) -> None:
    given: Any = {call: "soon"}
    with pytest.raises(InvalidJobError, match=f"^FunctionHarness: {call}: this is no"):
        totals().feed([], **given)


# --- whatever the layout ---------------------------------------------------------------------------------------------

records = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(-3, 150)), max_size=12)


@given(parts=st.lists(records, max_size=4), subtasks=st.integers(1, 8), slices=st.integers(1, 3), at=st.integers(0, 4))
@settings(max_examples=random_cases(30))
def test_neither_parallelism_nor_slices_nor_restarts_change_the_answer(
    parts: list[list[tuple[str, int]]], subtasks: int, slices: int, at: int
) -> None:
    plain = totals(max_parallelism=8, on_error="skip")
    other = totals(max_parallelism=8, on_error="skip", parallelism=subtasks, slices=slices, sort_memory="1KB")
    for number, part in enumerate(parts):
        rows = [row(*each) for each in part]
        plain.feed(rows)
        other.feed(rows)
        assert sorted(plain.side("large"), key=str) == sorted(other.side("large"), key=str)
        if number == at:
            other = other.restore(other.snapshot(), parallelism=9 - subtasks)
    assert last_of(plain) == last_of(other) == totals_of(parts)
    assert plain.records_skipped == other.records_skipped


def last_of(harness: Harness) -> dict[str, int]:
    """The last, and so the greatest, total of each key."""
    return {each["k"]: each["total"] for each in sorted(harness.table(), key=lambda each: each["total"])}


def totals_of(parts: list[list[tuple[str, int]]]) -> dict[str, int]:
    expected: dict[str, int] = {}
    for k, v in (each for part in parts for each in part):
        if v >= 0:
            expected[k] = expected.get(k, 0) + v
    return expected


def test_any_operator_can_be_put_into_a_harness() -> None:
    given = totals()._step
    operator = given.operator
    assert isinstance(operator, ProcessOperator)
    harness = OperatorHarness(
        ProcessOperator(
            operator_id="mine",
            function=GivenClass(PROCESS_FUNCTION, Totals, {"step": 1}),
            key_schema=operator.key_schema,
            record_fields=operator.record_fields,
            output_fields=operator.output_fields,
            has_event_time=False,
        ),
        key_by="k",
        schema={"k": str, "v": int},
        arguments=["k", "v"],
    )
    assert isinstance(harness, Harness)
    assert not isinstance(harness, FunctionHarness)
    harness.feed([row("a", 1), row("a", 1)])
    assert [each["total"] for each in harness.take()] == [2, 4]


def test_the_end_of_time_is_no_watermark_to_come_back_from() -> None:
    harness = alarms()
    harness.advance_watermark(MAX_WATERMARK)
    with pytest.raises(InvalidJobError, match="a watermark never goes back"):
        harness.advance_watermark(0)
