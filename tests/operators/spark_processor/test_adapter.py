"""Classes of Spark as process functions: states, timers, a time to live, and what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from mixedmode.errors import InvalidJobError
from mixedmode.operators.classes import GivenClass
from mixedmode.operators.process import PROCESS_FUNCTION, incompatibilities, state_schema_of
from mixedmode.operators.spark_processor import FunctionSource, ProcessorStep
from mixedmode.process import KeyedProcessFunction
from mixedmode.testing import FunctionHarness
from tests.operators.spark_processor.processors import Fading, RunningCount

KEYED = {"key_by": "k", "schema": "k string, t timestamp, v bigint", "output": "k string, text string"}


def harness(function: Any, *, time_mode: Any = "None", **settings: Any) -> FunctionHarness:
    return FunctionHarness(function, **{**KEYED, **settings}, time_mode=time_mode)


def rows(*values: int, k: str = "a", t: int = 0) -> list[dict[str, Any]]:
    return [{"k": k, "t": t, "v": value} for value in values]


class Told(StatefulProcessor):
    """Calls a method of the test for each row, and emits its result as text."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            yield Row(k=key[0], text=repr(self.told(row, timerValues)))

    def told(self, row: Any, times: Any) -> Any:
        raise NotImplementedError


def test_the_items_of_a_list_and_the_entries_of_a_map_expire_one_by_one() -> None:
    fading = harness(Fading, time_mode="ProcessingTime", clock=1_000_000)
    fading.feed(rows(1))
    assert [row["text"] for row in fading.take()] == ["(None, [1], [1])"]
    fading.feed(rows(2), after="6ms")
    assert [row["text"] for row in fading.take()] == ["((1,), [1, 2], [1, 2])", "(1005, 1006, 0)"]
    fading.feed(rows(3), after="4ms")
    assert [row["text"] for row in fading.take()] == ["((2,), [2, 3], [2, 3])"]
    fading.feed(rows(4), after="20ms")
    assert next(row["text"] for row in fading.take()) == "(None, [4], [4])"


def test_a_timer_is_listed_until_its_call_has_ended_and_cannot_be_set_again_in_it() -> None:
    class Listing(Told):
        def told(self, row: Any, times: Any) -> Any:
            for at in (2000, 1000, 2000, 5000):
                self.handle.registerTimer(at)
            self.handle.deleteTimer(5000)
            self.handle.deleteTimer(6000)
            return list(self.handle.listTimers()), times.getCurrentWatermarkInMs()

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
            at = expiredTimerInfo.getExpiryTimeInMs()
            self.handle.registerTimer(at)
            if at == 1000:
                self.handle.registerTimer(3000)
            times = list(self.handle.listTimers()), timerValues.getCurrentWatermarkInMs()
            yield Row(k=key[0], text=f"{at} {times}")

    listing = harness(Listing, time_mode="EventTime", event_time="t")
    listing.feed(rows(1))
    listing.advance_watermark(1_500_000)
    listing.advance_watermark(1_700_000)
    listing.advance_watermark(9_000_000)
    assert [row["text"] for row in listing.take()] == [
        "([1000, 2000], 0)",
        "1000 ([1000, 2000, 3000], 1500)",
        "2000 ([2000, 3000], 9000)",
        "3000 ([3000], 9000)",
    ]


def test_without_a_time_mode_there_is_no_time_and_no_timer() -> None:
    class Timeless(Told):
        def told(self, row: Any, times: Any) -> Any:
            if row.v == 2:
                self.handle.registerTimer(1)
            return times.getCurrentProcessingTimeInMs(), times.getCurrentWatermarkInMs()

    timeless = harness(Timeless)
    timeless.feed(rows(1))
    assert timeless.take() == [{"k": "a", "text": "(-1, -1)"}]
    with pytest.raises(InvalidJobError, match="a class has no timers without a time mode"):
        timeless.feed(rows(2))


def test_the_key_is_a_tuple_and_a_row_has_all_columns() -> None:
    class Key(Told):
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            yield Row(k=None, text=f"{key} {list(rows)}")

    both = harness(Key, key_by=["v", "k"])
    both.feed([{"k": None, "t": None, "v": 1}])
    assert both.take() == [{"k": None, "text": "(1, None) [Row(k=None, t=None, v=1)]"}]


def test_a_failed_call_leaves_no_trace() -> None:
    class Failing(Told):
        def told(self, row: Any, times: Any) -> Any:
            before = self.value.get()
            self.value.update((row.v,))
            self.handle.registerTimer(10 * row.v)
            if row.v == 2:
                raise ValueError(row.v)
            return before, list(self.handle.listTimers())

    failing = harness(Failing, time_mode="EventTime", event_time="t", on_error="skip")
    failing.feed(rows(1, 2, 3))
    assert [row["text"] for row in failing.take()] == ["(None, [10])", "((1,), [10, 30])"]


def test_a_timer_whose_call_fails_is_used_up() -> None:
    """It does not fire again, so it is not listed either, as a timer that is deleted in its call."""

    class Failing(Told):
        def told(self, row: Any, times: Any) -> Any:
            if row.v:
                for at in (1000, 2000, 3000, 9000):
                    self.handle.registerTimer(at)
            return list(self.handle.listTimers())

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
            at = expiredTimerInfo.getExpiryTimeInMs()
            if at != 2000:
                self.handle.registerTimer(8000)
                raise ValueError(at)
            self.handle.deleteTimer(at)
            yield Row(k=key[0], text=f"{at} {list(self.handle.listTimers())}")

    failing = harness(Failing, time_mode="EventTime", event_time="t", on_error="skip")
    failing.feed(rows(1))
    failing.advance_watermark(4_000_000)
    failing.feed(rows(0, t=4_000_000))
    assert [row["text"] for row in failing.take()] == ["[1000, 2000, 3000, 9000]", "2000 [3000, 9000]", "[9000]"]


def test_an_error_names_the_line_of_the_class() -> None:
    class Broken(Told):
        def told(self, row: Any, times: Any) -> Any:
            raise ValueError(row.v)

    broken = harness(Broken)
    with pytest.raises(InvalidJobError, match=r"raised ValueError: 1\..*at=.*test_adapter\.py:\d+ in told"):
        broken.feed(rows(1))


def test_state_survives_a_restart_with_other_subtasks() -> None:
    count = FunctionHarness(
        RunningCount, key_by="k", schema="k string", output="k string, n bigint", time_mode="None", backlog=True
    )
    count.feed([{"k": "a"}, {"k": "b"}, {"k": "a"}])
    count.flip()
    count.take()
    other = count.restore(count.snapshot(), parallelism=3)
    other.feed([{"k": "a"}, {"k": "b"}])
    assert sorted(row["n"] for row in other.take()) == [2, 3]


def test_another_time_mode_and_another_schema_are_refused_once_there_is_state() -> None:
    def schema(time_mode: Any, ddl: str = "n int") -> Any:
        class Changed(Told):
            def init(self, handle: Any) -> None:
                handle.getMapState("map", "k string", ddl)

        return state_schema_of(FunctionSource(GivenClass(PROCESS_FUNCTION, Changed), ProcessorStep(time_mode)))

    before = schema("EventTime")
    assert incompatibilities(before, schema("EventTime", "n int, s string")) == []
    assert incompatibilities(schema("None"), before) == []
    assert "state `_event_timers` is gone" in incompatibilities(before, schema("ProcessingTime"))[0]
    assert "state `map`" in incompatibilities(before, schema("EventTime", "n string"))[0]


def test_the_object_that_tells_its_states_is_closed_and_one_of_a_task_once() -> None:
    calls: list[str] = []

    class Closing(Told):
        def init(self, handle: Any) -> None:
            calls.append("init")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            calls.append("rows")
            return iter([])

        def close(self) -> None:
            calls.append("close")

    closing = harness(Closing)
    assert calls == ["init", "close"]
    calls.clear()
    closing.feed(rows(1, 2))
    assert calls == ["init", "rows", "rows", "close"]


# --- refused ----------------------------------------------------------------------------------------------------------


class Own(KeyedProcessFunction):
    """A function of this program."""


class Initial(Told):
    """Has a method that nothing would call."""

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Do something."""


def of_init(call: str) -> type[StatefulProcessor]:
    """A class whose init makes this call of the handle."""

    class Init(Told):
        def init(self, handle: Any) -> None:
            handle.getValueState("one", "n int")
            exec(call, {"handle": handle})

    return Init


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no time mode": (RunningCount, {"time_mode": None}, "Set the step's time-mode to the timeMode of its transform"),
    "another time mode": (RunningCount, {"time_mode": "event"}, "time_mode must be one of None, EventTime, Proc"),
    "no event time": (RunningCount, {"time_mode": "EventTime"}, "the rows of this step have no event time"),
    "not of Spark": (Own, {"rows_as": "pandas", "time_mode": None}, "only a class of Spark.*settings=rows-as"),
    "nested columns": (RunningCount, {"rows_as": "pandas", "schema": "k string, a array<int>"}, "column=a"),
    "side outputs": (RunningCount, {"outputs": {"late": "k string"}}, "no side outputs and no.*settings=outputs"),
    "initial state": (Initial, {}, "a job has no initial state"),
    "ttl": (of_init("handle.getValueState('v', 'n int', 10)"), {}, "a time to live goes by processing time"),
    "ttl of 0": (
        of_init("handle.getListState('v', 'n int', 0)"),
        {"time_mode": "ProcessingTime"},
        "ttlDurationMs is a positive number",
    ),
    "twice": (of_init("handle.getListState('one', 'n int')"), {}, "names a state twice"),
    "deleted": (of_init("handle.deleteIfExists('one')"), {}, "asks for this state and deletes it"),
    "name": (of_init("handle.getListState('_one', 'n int')"), {}, "does not begin with _"),
    "type": (of_init("handle.getValueState('v', 'n interval')"), {}, "there is no type 'interval' here"),
    "float key": (of_init("handle.getMapState('v', 'n double', 'n int')"), {}, "no arrays, maps, structs and floating"),
    "schema": (of_init("handle.getValueState('v', 5)"), {}, "the schema is columns"),
    "init raises": (of_init("handle.nothing()"), {}, "`init` of the class raised AttributeError"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exact_is_refused_when_the_step_is_planned(name: str) -> None:
    function, settings, message = REFUSED[name]
    with pytest.raises(InvalidJobError, match=message):
        harness(function, **settings)


FAILING = {
    "a row without a name": ("yield Row('a', 'b')", "emits Rows with names"),
    "a dictionary": ("yield {'k': 'a', 'text': 'b'}", "emits Rows with names"),
    "nothing": ("return None\n    yield", None),
    "not an iterator": ("return None", "returns an iterator of rows"),
    "a field too few": ("yield Row(k='a')", "the row lacks the field `text`"),
    "a field too many": ("yield Row(k='a', text='b', more=1)", "the output has no field `more`"),
    "another type": ("yield Row(k='a', text=1)", "the field `text` is declared string"),
    "too long": ("self.value.update((1, 2))", "the schema has 1 columns, n"),
    "too large": ("self.value.update((2**31,))", "holds whole numbers of 32 bits"),
    "a float": ("self.value.update((1.0,))", "holds whole numbers, and Spark would store another value or NULL"),
    "no tuple": ("self.value.update(1)", "a value is a tuple"),
    "late": ("self.handle.getValueState('late', 'n int')", "in `init` only"),
}


@pytest.mark.parametrize("name", FAILING)
def test_what_spark_would_change_in_silence_is_an_error(name: str) -> None:
    code, message = FAILING[name]
    names: dict[str, Any] = {"Row": Row}
    exec(f"def handleInputRows(self, key, rows, timerValues):\n    {code}\n    return iter([])\n", names)
    function = type("Wrong", (Told,), {"handleInputRows": names["handleInputRows"]})
    wrong = harness(function)
    if message is None:
        wrong.feed(rows(1))
        assert wrong.take() == []
        return
    with pytest.raises(InvalidJobError, match=message):
        wrong.feed(rows(1))
