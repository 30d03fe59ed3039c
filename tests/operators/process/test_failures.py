"""A function fails: the error names the record, and a skipped record may become a dead letter."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from mixedmode.errors import CorruptStateError, FencedError, InternalError, InvalidJobError, RetryableError
from mixedmode.operators.process import (
    DEAD_LETTER_FIELDS,
    Context,
    KeyedProcessFunction,
    ListState,
    OpenContext,
    Record,
    RecordAttributes,
    ValueState,
)
from mixedmode.operators.process.failures import as_json
from tests.operators.process.epochs import Epochs, operator_of

OUTPUT = {"k": pa.string(), "n": pa.int64()}
SIDE = {"big": (pa.field("n", pa.int64()),)}


class Fragile(KeyedProcessFunction):
    """Fails at negative values, after having changed everything that it can change."""

    count = ValueState(int, default=0)
    values = ListState(int)

    def process_element(self, record: Record, context: Context) -> Iterator[Record]:
        self.count.value += 1
        self.values.append(record["v"])
        context.timers.register_event_time_timer(record["v"])
        yield {"k": context.current_key, "n": self.count.value}
        context.output("big", {"n": record["v"]})
        self.check(record["v"])

    def on_timer(self, timestamp: int, context: Context) -> Record:
        self.count.value += 1
        self.check(timestamp - 50)
        return {"k": "timer", "n": timestamp}

    def check(self, value: int) -> None:
        if value < 0:
            msg = f"negative: {value}"
            raise ValueError(msg)


def fragile(on_error: Any = "fail") -> Epochs:
    return Epochs(operator_of(Fragile, OUTPUT, outputs=SIDE, on_error=on_error))


def test_the_error_names_operator_key_record_and_the_users_line() -> None:
    with pytest.raises(InvalidJobError) as caught:
        fragile().run([("a", 1, 5), ("b", 2_000_000, -3)])
    message = re.sub(r"at=.*?(test_failures\.py):\d+", r"at=\1:LINE", str(caught.value))
    assert message == (
        "the process function raised ValueError: negative: -3. Nothing of this epoch is committed. Correct the "
        "function, or set the step's `on-error` to skip or dead-letter, and start again. operator=1-step, "
        'method=process_element, key="b", record={"k": "b", "t": "1970-01-01 00:00:02+00:00", "v": -3}, '
        "time=1970-01-01 00:00:02+00:00, at=test_failures.py:LINE in check"
    )
    assert isinstance(caught.value.__cause__, ValueError)


class Exhausted(KeyedProcessFunction):
    """Asks an empty iterator for its next value, which Python makes a RuntimeError in a generator."""

    def process_element(self, record: Record, context: Context) -> Iterator[Record]:
        yield next(iter([]))


def test_the_line_of_an_exhausted_iterator_is_named() -> None:
    with pytest.raises(InvalidJobError, match=r"raised StopIteration.*at=\S+test_failures\.py:\d+ in process_element"):
        Epochs(operator_of(Exhausted, OUTPUT)).run([("a", 1, 5)])


def test_a_failing_timer_is_named_by_its_time() -> None:
    with pytest.raises(InvalidJobError, match=r'method=on_timer, key="a", time=1970-01-01 00:00:00.000005\+00:00, at='):
        fragile().run([("a", 1, 5)], watermark=5)


def test_a_long_record_is_cut_short() -> None:
    class Fails(KeyedProcessFunction):
        def process_element(self, record: Record, context: Context) -> None:
            raise KeyError(record["t"].year)

    with pytest.raises(InvalidJobError, match="raised KeyError: 1970") as caught:
        Epochs(operator_of(Fails, {}, value_type=pa.string())).run([("k", 0, "x" * 10_000)])
    assert len(str(caught.value)) < 1_200


def test_skip_undoes_what_the_failed_call_changed_and_goes_on() -> None:
    epochs = fragile("skip")
    given = epochs.run([("a", 1, 60), ("a", 2, -1), ("a", 3, 70), ("b", 4, -2), ("c", 5, 80)])
    assert sorted((row["k"], row["n"]) for row in given.rows) == [("a", 1), ("a", 2), ("c", 1)]
    assert sorted(row["n"] for row in given.sides["big"]) == [60, 70, 80]
    assert len(given.sides["skipped"]) == 2, "the two are there to be counted"
    assert len(epochs.stored(0)) == 2, "b has no state"
    assert len(epochs.stored(1)) == 3, "and no timer"
    after = epochs.run([("a", 9, 90)])
    assert [row["n"] for row in after.rows] == [3]


def test_a_skipped_timer_has_fired() -> None:
    epochs = fragile("skip")
    given = epochs.run([("a", 1, 10), ("a", 2, 60)], watermark=100)
    assert [row["n"] for row in given.rows] == [1, 2, 60]
    assert len(given.sides["skipped"]) == 1
    assert [row["n"] for row in epochs.run([("a", 9, 190)]).rows] == [4], "what it changed was undone"
    assert len(epochs.stored(1)) == 1, "the timer of the last record"


def test_a_dead_letter_holds_what_failed_and_why() -> None:
    epochs = fragile("dead-letter")
    assert epochs.operator.side_outputs == {**SIDE, "dead-letter": DEAD_LETTER_FIELDS}
    given = epochs.run([("a", 1_000_000, -1), ("a", 2_000_000, 7)], watermark=8)
    record, timer = given.sides["dead-letter"]
    assert record["operator"] == "1-step"
    assert record["key"] == '"a"'
    assert json.loads(record["record"]) == {"k": "a", "t": "1970-01-01 00:00:01+00:00", "v": -1}
    assert re.fullmatch(
        r"the process function raised ValueError: negative: -1 \(.*test_failures\.py:\d+ in check\)", record["error"]
    )
    assert record["time"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert timer["record"] is None
    assert timer["time"] == datetime(1970, 1, 1, 0, 0, 0, 7, tzinfo=UTC)


class Outer(KeyedProcessFunction):
    """Raises what it is given."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def process_element(self, record: Record, context: Context) -> None:
        raise self.error


@pytest.mark.parametrize("kind", [CorruptStateError, FencedError, InternalError, RetryableError])
@pytest.mark.parametrize("on_error", ["fail", "skip", "dead-letter"])
def test_what_is_not_the_functions_fault_passes_through(kind: type[Exception], on_error: Any) -> None:
    epochs = Epochs(operator_of(Outer, {}, args={"error": kind("disk")}, on_error=on_error))
    with pytest.raises(kind, match=r"^disk$"):
        epochs.run([("k", 0, 0)])


@pytest.mark.parametrize("error", [InvalidJobError("mine"), StopIteration("mine"), MemoryError("mine")])
def test_what_the_function_raises_itself_is_told_as_its_own(error: Exception) -> None:
    with pytest.raises(InvalidJobError, match=f"the process function raised {type(error).__name__}: mine"):
        Epochs(operator_of(Outer, {}, args={"error": error})).run([("k", 0, 0)])


class Wrong(KeyedProcessFunction):
    """Gives for a record what it is told to give."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def process_element(self, record: Record, context: Context) -> Any:
        if record["v"] < 0:
            context.output("big", self.rows[-record["v"]])
            return None
        return self.rows[record["v"]]


MISMATCHES = [
    ({"k": "a", "n": "x"}, "the field `n` is declared int64, and the value does not fit: .* value='x'"),
    ({"k": "a", "n": 1.5}, "the field `n` is declared int64, and the value does not fit: a float would lose something"),
    ({"k": 5, "n": 1}, "the field `k` is declared string, and the value does not fit"),
    ({"k": "a", "n": 2**63}, "the field `n` is declared int64, and the value does not fit"),
    ({"k": "\ud800", "n": 1}, "the field `k` is declared string, and the value does not fit"),
    ({"k": "a"}, "the row lacks the field `n`; set it to None for NULL. row="),
    ({"k": "a", "n": 1, "m": 2}, "the output has no field `m`; it has k, n. row="),
    ({"k": "a", "m": 2}, "the row lacks the field `n`"),
    (5, "a method must return a row, rows, or nothing, and it returned a int: 5"),
    ([5], "a row must be a mapping of field to value: 'int' object is not iterable"),
    (["ab"], "a row must be a mapping of field to value: dictionary update sequence"),
    ("ab", "a method must return a row, rows, or nothing, and it returned a str: 'ab'"),
]


@pytest.mark.parametrize(("row", "reason"), MISMATCHES)
def test_a_row_that_does_not_match_the_output_is_refused_and_named(row: Any, reason: str) -> None:
    good = {"k": "a", "n": 1}
    epochs = Epochs(operator_of(Wrong, OUTPUT, args={"rows": [good, row]}))
    with pytest.raises(InvalidJobError) as caught:
        epochs.run([("a", 0, 0), ("b", 0, 0), ("c", 0, 0), ("c", 1, 1), ("d", 0, 0)])
    message = str(caught.value)
    assert re.match(f"what the process function emitted does not match the step's output: {reason}", message)
    assert 'key="c"' in message, "the key is named"
    assert not epochs.entries


@pytest.mark.parametrize(("row", "reason"), MISMATCHES)
def test_a_row_that_does_not_match_is_a_failure_of_its_record(row: Any, reason: str) -> None:
    good = {"k": "a", "n": 1}
    epochs = Epochs(operator_of(Wrong, OUTPUT, args={"rows": [good, row]}, on_error="dead-letter"))
    given = epochs.run([("a", 0, 0), ("a", 1, 1), ("a", 2, 0)])
    assert given.rows == [good, good]
    (letter,) = given.sides["dead-letter"]
    assert re.match(f"what the process function emitted does not match the step's output: {reason}", letter["error"])
    assert json.loads(letter["record"])["v"] == 1


def test_a_row_of_a_side_output_is_checked_too() -> None:
    epochs = Epochs(operator_of(Wrong, OUTPUT, args={"rows": [None, {"n": 1}, {"n": "x"}]}, outputs=SIDE))
    with pytest.raises(InvalidJobError) as caught:
        epochs.run([("a", 0, -1), ("b", 0, -2), ("c", 0, -1)])
    assert "the field `n` is declared int64" in str(caught.value)
    assert str(caught.value).endswith("operator=1-step, method=output 'big', key=\"b\"")


def test_an_output_that_is_not_declared_is_refused() -> None:
    class Lost(KeyedProcessFunction):
        def process_element(self, record: Record, context: Context) -> None:
            context.output("bug", {"n": 1})

    with pytest.raises(InvalidJobError) as caught:
        Epochs(operator_of(Lost, OUTPUT, outputs=SIDE)).run([("a", 0, 0)])
    assert "ValueError: the step declares no output 'bug'; it declares ['big']. Add it to `outputs`" in str(
        caught.value
    )


def test_a_field_declared_not_null_takes_no_null() -> None:
    fields = (pa.field("k", pa.string(), nullable=False), pa.field("n", pa.int64()))
    operator = operator_of(Wrong, {}, args={"rows": [{"k": None, "n": 1}]})
    epochs = Epochs(type(operator)(**{**_fields(operator), "output_fields": fields}))
    with pytest.raises(InvalidJobError, match="the field `k` is declared not null"):
        epochs.run([("a", 0, 0)])


def _fields(operator: Any) -> dict[str, Any]:
    return {name: getattr(operator, name) for name in operator.__dataclass_fields__}


class Lifecycle(KeyedProcessFunction):
    """Fails in one of its methods; `calls` tells which were called."""

    def __init__(self, fails_in: str, calls: list[str]) -> None:
        self.fails_in = fails_in
        self.calls = calls

    def _called(self, method: str) -> None:
        self.calls.append(method)
        if self.fails_in == method:
            msg = "no model"
            raise OSError(msg)

    def open(self, context: OpenContext) -> None:
        self._called("open")

    def close(self) -> None:
        self._called("close")

    def process_record_attributes(self, attributes: RecordAttributes) -> None:
        self._called("process_record_attributes")

    def process_element(self, record: Record, context: Context) -> None:
        self._called("process_element")


@pytest.mark.parametrize("method", ["open", "process_record_attributes", "close"])
@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_a_failure_outside_of_records_ends_the_epoch_whatever_on_error_says(method: str, on_error: Any) -> None:
    calls: list[str] = []
    epochs = Epochs(operator_of(Lifecycle, {}, args={"fails_in": method, "calls": calls}, on_error=on_error))
    with pytest.raises(InvalidJobError) as caught:
        epochs.run([("a", 0, 0)])
    message = str(caught.value)
    assert message.startswith(f"the process function raised OSError: no model in `{method}`, which is called for no")
    assert "test_failures.py:" in message
    assert calls[-1] == "close", "close is called in any case"


def test_close_is_called_after_a_failure_and_does_not_hide_it() -> None:
    calls: list[str] = []
    epochs = Epochs(operator_of(Lifecycle, {}, args={"fails_in": "process_element", "calls": calls}))
    with pytest.raises(InvalidJobError, match="method=process_element"):
        epochs.run([("a", 0, 0)])
    assert calls == ["open", "process_record_attributes", "process_element", "close"]


@pytest.mark.parametrize("tag", ["dead-letter", "skipped"])
def test_the_tags_of_failures_are_kept(tag: str) -> None:
    with pytest.raises(InvalidJobError, match=f"cannot be named {tag}, which is kept"):
        operator_of(Fragile, OUTPUT, outputs={tag: SIDE["big"]})


class Busy(KeyedProcessFunction):
    """Gives one dictionary again and again."""

    def process_element(self, record: Record, context: Context) -> Iterator[Record]:
        row: dict[str, Any] = {"k": "x"}
        for n in range(3):
            row["n"] = n
            context.output("big", {"n": n})
            yield row
        row.clear()


def test_a_row_is_taken_as_it_is_when_it_is_given() -> None:
    for on_error in ("fail", "skip"):
        given = Epochs(operator_of(Busy, OUTPUT, outputs=SIDE, on_error=on_error)).run([("a", 0, 0)])
        assert given.rows == [{"k": "x", "n": n} for n in range(3)]


class Unpacking(KeyedProcessFunction):
    """Fails while its rows are made, with the error that a row that is none gives, too."""

    def process_element(self, record: Record, context: Context) -> Iterator[Record]:
        yield {"k": "x", "n": 1}
        yield dict(5)  # type: ignore[call-overload]


def test_an_error_of_the_function_is_not_taken_for_one_of_its_rows() -> None:
    with pytest.raises(InvalidJobError, match="the process function raised TypeError: 'int' object is not iterable"):
        Epochs(operator_of(Unpacking, OUTPUT)).run([("a", 0, 0)])


def test_a_row_for_a_side_output_must_be_a_mapping() -> None:
    epochs = Epochs(operator_of(Wrong, OUTPUT, args={"rows": [None, 5]}, outputs=SIDE))
    with pytest.raises(InvalidJobError, match=r"raised TypeError: a row must be a mapping .* this one is a int: 5"):
        epochs.run([("a", 0, -1)])


def test_json_of_a_record_is_json_whatever_its_numbers_are() -> None:
    record = {"x": float("nan"), "l": [1.5, float("-inf")], "m": {"a": (float("inf"), b"\x01")}, "t": None}

    def refuse(text: str) -> None:
        raise AssertionError(text)

    found = json.loads(as_json(record), parse_constant=refuse)
    assert found == {"x": "NaN", "l": [1.5, "-Infinity"], "m": {"a": ["Infinity", "01"]}, "t": None}
