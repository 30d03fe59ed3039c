"""States of one value: what a handle gives, what is stored, and what is refused where it is put in."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, cast

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.operators.process import (
    AggregatingState,
    Context,
    KeyedProcessFunction,
    ListState,
    OpenContext,
    Record,
    ReducingState,
    Ttl,
    ValueState,
)
from tests.operators.process.epochs import Epochs, operator_of


@dataclass
class Visit:
    page: str
    seconds: int = 0
    tags: list[str] = field(default_factory=list)


@dataclass
class Mean:
    total: float = 0.0
    count: int = 0

    def plus(self, value: float) -> "Mean":
        return Mean(self.total + value, self.count + 1)

    def mean(self) -> float:
        return self.total / self.count


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Bag(KeyedProcessFunction):
    """Runs what a test gives it, and shows what that returns."""

    count = ValueState(int, default=0)
    name = ValueState(str)
    maybe = ValueState(int | None, default=7)
    visit = ValueState(Visit)
    visits = ListState(Visit)
    numbers = ListState(int)
    by_page = ValueState(dict[str, list[int]], default={"start": [1]})
    pair = ValueState(tuple[int, str], default=(1, "a"))
    highest = ReducingState(int, reduce=max)
    mean = AggregatingState(Mean, create=Mean, add=Mean.plus, result=Mean.mean)
    colour = ValueState(Colour, default=Colour.RED)
    when = ValueState(datetime)
    day = ValueState(date)
    price = ValueState(Decimal)
    wait = ValueState(timedelta)
    ratio = ValueState(float, default=0.0)
    raw = ValueState(bytes)
    is_on = ValueState(bool, default=False)

    def __init__(self, steps: list[Callable[["Bag"], Any]]) -> None:
        self.steps = steps

    def process_element(self, record: Record, context: Context) -> Record:
        return {"shown": json.dumps(self.steps[record["v"]](self), default=repr)}


def run(*steps: Callable[[Bag], Any]) -> list[Any]:
    """Return the result of each step. Each step is an epoch over the state that the previous step left."""
    epochs = Epochs(operator_of(Bag, {"shown": pa.string()}, args={"steps": steps}))
    return [json.loads(epochs.run([("k", 0, i)]).rows[0]["shown"]) for i in range(len(steps))]


def put(name: str, value: Any) -> Callable[[Bag], None]:
    return lambda bag: setattr(getattr(bag, name), "value", value)


def test_a_value_is_its_default_until_it_is_set_and_again_when_it_is_cleared() -> None:
    assert run(
        lambda bag: [bag.count.value, bag.name.value, bag.maybe.value],
        put("count", 5),
        lambda bag: bag.count.value,
        lambda bag: bag.count.clear(),
        lambda bag: bag.count.value,
    ) == [[0, None, 7], None, 5, None, 0]


def test_none_clears_a_state_without_default_and_is_a_value_where_the_type_has_it() -> None:
    assert run(put("name", "x"), put("name", None), lambda bag: bag.name.value) == [None, None, None]
    assert run(put("maybe", None), lambda bag: bag.maybe.value) == [None, None], "not the default, 7"


def test_keys_have_states_of_their_own() -> None:
    def add(bag: Bag) -> int:
        bag.count.value += 1
        return bag.count.value

    epochs = Epochs(operator_of(Bag, {"shown": pa.string()}, args={"steps": [add]}))
    given = epochs.run([("a", 0, 0), ("b", 0, 0), ("a", 1, 0), ("", 0, 0)])
    assert sorted(row["shown"] for row in given.rows) == ["1", "1", "1", "2"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", 2**63),
        ("name", "näme\x00"),
        ("colour", Colour.BLUE),
        ("when", datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)),
        ("when", datetime(2024, 5, 6, tzinfo=UTC).replace(tzinfo=None)),
        ("day", date(1900, 2, 28)),
        ("price", Decimal("12.3400")),
        ("wait", timedelta(days=-3, microseconds=1)),
        ("ratio", float("inf")),
        ("raw", b"\x00\xff"),
        ("is_on", True),
        ("visit", Visit("a", 3, ["x"])),
        ("pair", (2, "b")),
    ],
)
def test_a_value_comes_back_from_storage_as_it_was(name: str, value: Any) -> None:
    found: list[Any] = []
    run(put(name, value), lambda bag: found.append(getattr(bag, name).value))
    assert found == [value]
    assert type(found[0]) is type(value)


def test_the_scalars_of_numpy_and_pandas_become_those_of_python() -> None:
    values = {
        "count": (np.int32(3), 3),
        "ratio": (np.float32(0.5), 0.5),
        "name": (np.str_("s"), "s"),
        "is_on": (np.bool_(True), True),
        "when": (pd.Timestamp("2024-01-01", tz="UTC"), datetime(2024, 1, 1, tzinfo=UTC)),
        "raw": (bytearray(b"b"), b"b"),
    }
    for name, (given, expected) in values.items():
        found: list[Any] = []
        run(put(name, given), partial(_note, name, found))
        assert found == [expected]
        assert type(found[0]) is type(expected)


def _note(name: str, found: list[Any], bag: Bag) -> None:
    found.append(getattr(bag, name).value)


def test_an_int_is_taken_for_a_float_and_becomes_one() -> None:
    assert run(put("ratio", 3), lambda bag: repr(bag.ratio.value)) == [None, "3.0"]


def test_a_default_that_can_change_belongs_to_one_key() -> None:
    def add(bag: Bag) -> Any:
        bag.by_page.value["start"].append(2)
        return bag.by_page.value

    epochs = Epochs(operator_of(Bag, {"shown": pa.string()}, args={"steps": [add]}))
    given = epochs.run([("a", 0, 0), ("b", 0, 0), ("a", 1, 0)])
    assert sorted(row["shown"] for row in given.rows) == [
        '{"start": [1, 2, 2]}',
        '{"start": [1, 2]}',
        '{"start": [1, 2]}',
    ]


def test_what_changes_in_place_is_stored() -> None:
    def touch(bag: Bag) -> None:
        assert bag.visit.value is not None
        bag.visit.value.seconds += 5
        bag.visits[0].tags.append("new")

    def start(bag: Bag) -> None:
        bag.visit.value = Visit("a")
        bag.visits.append(Visit("b"))

    assert run(start, touch, lambda bag: [bag.visit.value, bag.visits[0]]) == [
        None,
        None,
        [repr(Visit("a", 5)), repr(Visit("b", 0, ["new"]))],
    ]


def test_a_list_state_does_what_a_list_does() -> None:
    def play(bag: Bag) -> Any:
        numbers = bag.numbers
        numbers.extend([3, 1, 2])
        numbers.append(5)
        numbers.insert(0, 9)
        numbers[1] = 4
        numbers[2:4] = [7, 8]
        del numbers[0]
        numbers += [6]
        return [list(numbers), len(numbers), 8 in numbers, numbers.index(8), numbers.pop(), numbers[-1], numbers[0:2]]

    assert run(
        lambda bag: [list(bag.numbers), len(bag.numbers), bool(bag.numbers)],
        play,
        lambda bag: [repr(bag.numbers), list(reversed(bag.numbers))],
        lambda bag: bag.numbers.replace(range(2)),
        lambda bag: list(bag.numbers),
        lambda bag: bag.numbers.clear(),
        lambda bag: list(bag.numbers),
    ) == [
        [[], 0, False],
        [[4, 7, 8, 5, 6], 5, True, 2, 6, 5, [4, 7]],
        ["[4, 7, 8, 5]", [5, 8, 7, 4]],
        None,
        [0, 1],
        None,
        [],
    ]


def test_a_reducing_and_an_aggregating_state_hold_one_value_for_all_that_was_added() -> None:
    def add(value: int) -> Callable[[Bag], Any]:
        def step(bag: Bag) -> Any:
            before = [bag.highest.value, bag.mean.value]
            bag.highest.add(value)
            bag.mean.add(float(value))
            return [*before, bag.highest.value, bag.mean.value]

        return step

    def clear(bag: Bag) -> None:
        bag.highest.clear()
        bag.mean.clear()

    assert run(add(3), add(5), add(1), clear, add(1)) == [
        [None, None, 3, 3.0],
        [3, 3.0, 5, 4.0],
        [5, 4.0, 5, 3.0],
        None,
        [None, None, 1, 1.0],
    ]


def test_a_key_that_has_nothing_left_is_stored_no_more() -> None:
    def empty(bag: Bag) -> None:
        bag.numbers.pop()
        bag.count.clear()

    epochs = Epochs(
        operator_of(
            Bag,
            {"shown": pa.string()},
            args={"steps": [lambda bag: bag.numbers.append(1), put("count", 0), lambda bag: bag.count.value, empty]},
        )
    )
    epochs.run([("k", 0, 0), ("k", 1, 1)])
    assert len(epochs.entries) == 1, "one row per key, whatever it holds; a default that was set is held"
    epochs.run([("k", 0, 2)])
    assert epochs.pairs_written == 0, "what is only read is not written"
    epochs.run([("k", 0, 3)])
    assert not epochs.entries


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (put("count", "5"), "this state is declared to hold int, and was given a str. value='5'"),
        (put("count", 1.5), "this state is declared to hold int, and was given a float. value=1.5"),
        (put("count", None), "this state is declared to hold int, and was given a NoneType. value=None"),
        (put("maybe", "x"), "this state is declared to hold int | None, and was given a str. value='x'"),
        (put("name", 5), "this state is declared to hold str, and was given a int. value=5"),
        (put("ratio", "1"), "this state is declared to hold float, and was given a str. value='1'"),
        (put("is_on", 1), "this state is declared to hold bool, and was given a int. value=1"),
        (
            put("day", datetime(2024, 1, 1, tzinfo=UTC)),
            "this state is declared to hold date, and was given a datetime.",
        ),
        (put("colour", "red"), "this state is declared to hold Colour, and was given a str. value='red'"),
        (lambda bag: bag.numbers.append("1"), "this state is declared to hold int, and was given a str. value='1'"),
        (lambda bag: bag.highest.add("1"), "this state is declared to hold int, and was given a str. value='1'"),
    ],
)
def test_a_scalar_of_another_type_is_refused_at_the_line_that_sets_it(step: Callable[[Bag], Any], reason: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        run(step)
    assert f"TypeError: {reason}" in str(caught.value)
    assert "test_states.py:" in str(caught.value), "the line of the function is named"


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (put("by_page", {"a": ["x"]}), "Expected `int`, got `str` - at `$.by_page[...][0]`"),
        (put("visit", Visit("p", cast("int", "long"))), "Expected `int`, got `str` - at `$.visit.seconds`"),
        (lambda bag: bag.visits.append("x"), "Expected `object`, got `str` - at `$.visits[0]`"),
        (put("pair", (1, 2)), "Expected `str`, got `int` - at `$.pair[1]`"),
        (put("visit", object()), "Encoding objects of type object is unsupported"),
        (put("count", 2**64), "can't serialize ints < -2**63 or > 2**64 - 1"),
        (put("name", "\ud800"), "surrogates not allowed"),
    ],
)
@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_a_composed_value_that_could_not_be_read_again_is_refused_before_anything_is_written(
    step: Callable[[Bag], Any], reason: str, on_error: Any
) -> None:
    steps = [put("count", 1), step]
    epochs = Epochs(operator_of(Bag, {"shown": pa.string()}, args={"steps": steps}, on_error=on_error))
    if on_error == "skip":
        given = epochs.run([("k", 0, 0), ("k", 1, 1)])
        (skipped,) = given.sides["skipped"]
        assert reason in skipped["error"]
        assert len(epochs.entries) == 1, "the record before it counts"
        return
    with pytest.raises(InvalidJobError) as caught:
        epochs.run([("k", 0, 0), ("k", 1, 1)])
    assert str(caught.value).startswith("what the process function left in its state cannot be stored: ")
    assert reason in str(caught.value)
    assert not epochs.entries


ANYTHING = "anything, as of Any, or of a list, dict, tuple or set that does not say what is in it"


@pytest.mark.parametrize(
    ("state_type", "named"),
    [
        *((each, ANYTHING) for each in (list, dict, tuple, Any, set[Any], dict[str, Any], dict | None)),
        (object, "object"),
        (KeyedProcessFunction, "KeyedProcessFunction"),
        (list[complex], "complex"),
        (bytearray, "bytearray"),
        (msgspec.Raw, "raw"),
        (int | bytes | str, "int | bytes | str"),
        (list[str | bytes], "list[str | bytes]"),
    ],
)
def test_a_type_that_cannot_be_stored_is_refused_where_it_is_declared(state_type: Any, named: str) -> None:
    with pytest.raises(InvalidJobError, match="a state cannot hold this type") as caught:
        ValueState(state_type)
    assert "Declare int, float, str" in str(caught.value)
    assert str(caught.value).endswith(f" type={named}")


def test_a_default_of_another_type_is_refused_where_it_is_declared() -> None:
    with pytest.raises(InvalidJobError, match=r"of a state does not fit its type: .* type=int, default='0'$"):
        ValueState(int, default="0")
    with pytest.raises(InvalidJobError, match="the default of a state does not fit its type"):
        ValueState(dict[str, int], default={"a": "b"})


class Careless(KeyedProcessFunction):
    count = ValueState(int, default=0)

    def open(self, context: OpenContext) -> None:
        self.count.value = 1


def test_state_outside_of_a_key_is_refused() -> None:
    with pytest.raises(InvalidJobError, match="state belongs to a key, and it is no key's turn here") as caught:
        Epochs(operator_of(Careless, {"k": pa.string()})).run([("k", 0, 0)])
    assert "in `open`" in str(caught.value)
    with pytest.raises(RuntimeError, match="state belongs to a key"):
        _ = Careless.count.value


class Configured(KeyedProcessFunction):
    """A state whose ttl is an argument is an attribute of the object."""

    def __init__(self, ttl: str) -> None:
        self.seen = ValueState(int, default=0, ttl=Ttl(ttl))

    def process_element(self, record: Record, context: Context) -> Record:
        self.seen.value += 1
        return {"n": self.seen.value}


def test_a_state_may_be_declared_by_the_object() -> None:
    epochs = Epochs(operator_of(Configured, {"n": pa.int64()}, args={"ttl": "1s"}))
    counts = [epochs.run([("k", 0, 0)], clock_ms=clock).rows[0]["n"] for clock in (0, 999, 1_998, 2_998)]
    assert counts == [1, 2, 3, 1]


def test_one_state_object_under_two_names_is_refused() -> None:
    shared = ValueState(int)

    class Twice(KeyedProcessFunction):
        a = shared
        b = shared

    with pytest.raises(InvalidJobError, match=r"two states of a function are one object.*states=a, b"):
        operator_of(Twice, {}).state_schema()
