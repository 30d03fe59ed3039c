"""Descriptions of states: what is kept in the manifest, which changes of a program it finds, and what may evolve."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.operators.process import (
    AggregatingState,
    Context,
    KeyedProcessFunction,
    ListState,
    MapState,
    Record,
    ReducingState,
    Ttl,
    ValueState,
    incompatibilities,
)
from mixedmode.operators.process.descriptions import describe, is_immutable, shown
from mixedmode.operators.process.map_keys import encoder
from tests.operators.process.epochs import Epochs, operator_of
from tests.random_cases import random_cases


@dataclass
class Visit:
    page: str
    seconds: int = 0


@dataclass(frozen=True)
class Frozen:
    page: str
    tags: tuple[str, ...] = ()


class Tree(msgspec.Struct):
    name: str
    children: list["Tree"] = []


class FrozenTree(msgspec.Struct, frozen=True):
    children: tuple["FrozenTree", ...] = ()


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Paint(Enum):
    GREEN = "green"
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    x: int
    y: float


class Person(TypedDict):
    name: str


VISIT = {"record": {"page": {"type": "str", "required": True}, "seconds": {"type": "int", "required": False}}}


@pytest.mark.parametrize(
    ("state_type", "description", "text"),
    [
        (int, "int", "int"),
        (datetime, "datetime", "datetime"),
        (Decimal, "Decimal", "Decimal"),
        (str | None, {"union": ["str", "None"]}, "str | None"),
        (list[int], {"list": "int"}, "list[int]"),
        (set[date], {"set": "date"}, "set[date]"),
        (frozenset[int], {"set": "int"}, "set[int]"),
        (tuple[int, ...], {"varying": "int"}, "tuple[int, ...]"),
        (tuple[int, str], {"tuple": ["int", "str"]}, "tuple[int, str]"),
        (Point, {"tuple": ["int", "float"]}, "tuple[int, float]"),
        (dict[str, list[bool]], {"dict": ["str", {"list": "bool"}]}, "dict[str, list[bool]]"),
        (Colour, {"enum": ["red", "blue"]}, "one of ['red', 'blue']"),
        (Literal["a", "b"], {"enum": ["a", "b"]}, "one of ['a', 'b']"),
        (Visit, VISIT, "a record of page, seconds"),
        (Person, {"record": {"name": {"type": "str", "required": True}}}, "a record of name"),
        (
            Tree,
            {
                "record": {
                    "name": {"type": "str", "required": True},
                    "children": {"type": {"list": {"again": 1}}, "required": False},
                }
            },
            "a record of name, children",
        ),
    ],
)
def test_a_type_is_described_as_json(state_type: Any, description: Any, text: str) -> None:
    found = describe(state_type)
    assert found == description
    assert json.loads(json.dumps(found)) == found
    assert shown(found) == text


@pytest.mark.parametrize("state_type", [int, str, Colour, int | None, tuple[int, ...], Frozen, FrozenTree, Point])
def test_a_type_that_cannot_change_in_place_is_known(state_type: Any) -> None:
    assert is_immutable(state_type)


@pytest.mark.parametrize("state_type", [list[int], dict[str, int], set[int], Visit, Tree, tuple[list[int]], Person])
def test_a_type_that_can_change_in_place_is_known(state_type: Any) -> None:
    assert not is_immutable(state_type)


@pytest.mark.parametrize("options", [{"array_like": True}, {"forbid_unknown_fields": True}])
def test_a_struct_that_could_never_gain_a_field_is_refused(options: dict[str, bool]) -> None:
    rigid = msgspec.defstruct("Rigid", [("a", int)], **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidJobError, match="because with array_like or forbid_unknown_fields it could never gain a"):
        describe(rigid)


class Everything(KeyedProcessFunction):
    count = ValueState(int, default=0, ttl=Ttl("1s"))
    items = ListState(str)
    peak = ReducingState(float, reduce=max)
    total = AggregatingState(int, create=int, add=int.__add__, result=str)
    visits = MapState(str, Visit)


def test_the_schema_of_a_function_names_all_its_states() -> None:
    assert operator_of(Everything, {}).state_schema() == {
        "version": 1,
        "states": {
            "count": {"kind": "value", "type": "int", "ttl_ms": 1000},
            "items": {"kind": "list", "type": {"list": "str"}, "ttl_ms": None},
            "peak": {"kind": "reducing", "type": "float", "ttl_ms": None},
            "total": {"kind": "aggregating", "type": "int", "ttl_ms": None},
            "visits": {"kind": "map", "type": VISIT, "ttl_ms": None, "key": "str"},
        },
    }


def schema_of(**states: Any) -> Mapping[str, Any]:
    function = type("Function", (KeyedProcessFunction,), states)
    return json.loads(json.dumps(operator_of(function, {}).state_schema()))  # type: ignore[no-any-return]


@dataclass
class Renamed:
    url: str
    seconds: int = 0


@dataclass
class Grown(Visit):
    country: str = "?"


@dataclass(kw_only=True)
class Demanding(Visit):
    country: str


@dataclass
class Retyped:
    page: str
    seconds: str = ""


@dataclass
class Strict:
    page: str
    seconds: int


@dataclass
class Wider:
    page: str | None
    seconds: float = 0.0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"a": ValueState(int)}),
        ({"a": ValueState(int)}, {"a": ValueState(int, default=5, ttl=Ttl("1d"))}),
        ({"a": ValueState(int)}, {"a": ValueState(float)}),
        ({"a": ValueState(int)}, {"a": ValueState(float | None)}),
        ({"a": ValueState(Visit)}, {"a": ValueState(Grown)}),
        ({"a": ValueState(Visit)}, {"a": ValueState(Wider)}),
        ({"a": ListState(Visit)}, {"a": ListState(Grown)}),
        ({"a": MapState(str, dict[str, Visit])}, {"a": MapState(str, dict[str, Grown])}),
        ({"a": ValueState(Literal["x"])}, {"a": ValueState(Literal["x", "y"])}),
        ({"a": MapState(Colour, int)}, {"a": MapState(Paint, int)}),
        ({"a": ValueState(Tree)}, {"a": ValueState(Tree)}),
    ],
)
def test_a_program_may_gain_states_fields_and_alternatives(old: Any, new: Any) -> None:
    assert incompatibilities(schema_of(**old), schema_of(**new)) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (
            {"a": ValueState(int)},
            {"b": ValueState(int)},
            "state `a` is gone, and with it what it holds; declare it again, even if it is not used",
        ),
        ({"a": ValueState(int)}, {"a": ListState(int)}, "state `a` was a value state and is a list state"),
        ({"a": ValueState(int)}, {"a": ValueState(str)}, "state `a` held int and holds str"),
        ({"a": ValueState(float)}, {"a": ValueState(int)}, "state `a` held float and holds int"),
        ({"a": ValueState(int | None)}, {"a": ValueState(int)}, "state `a` held int | None and holds int"),
        ({"a": ListState(int)}, {"a": ListState(str)}, "state `a` held int and holds str"),
        ({"a": MapState(int, int)}, {"a": MapState(str, int)}, "the keys of state `a` held int and holds str"),
        ({"a": MapState(int, int)}, {"a": MapState(float, int)}, "the keys of state `a` held int and holds float"),
        (
            {"a": MapState(Visit, int)},
            {"a": MapState(Grown, int)},
            "field `country` of the keys of state `a` is new, and entries are found by their whole key; take it out",
        ),
        (
            {"a": ValueState(tuple[int, str])},
            {"a": ValueState(tuple[int, str, str])},
            "state `a` held tuple[int, str] and holds tuple[int, str, str]",
        ),
        (
            {"a": ValueState(Visit)},
            {"a": ValueState(Demanding)},
            "field `country` of state `a` is new and has no default; give it one",
        ),
        (
            {"a": ValueState(Visit)},
            {"a": ValueState(Strict)},
            "field `seconds` of state `a` had a default and has none, but older values may lack the field; give it a",
        ),
        (
            {"a": ListState(Visit)},
            {"a": ListState(Retyped)},
            "field `seconds` of state `a` held int and holds str",
        ),
        (
            {"a": ValueState(Literal["x", "y"])},
            {"a": ValueState(Literal["x"])},
            "state `a` no longer has the values ['y']",
        ),
        ({"a": ValueState(Visit)}, {"a": ValueState(list[int])}, "state `a` held a record of page, seconds and holds"),
    ],
)
def test_a_change_after_which_state_could_not_be_read_is_told(old: Any, new: Any, complaint: str) -> None:
    (found,) = incompatibilities(schema_of(**old), schema_of(**new))
    assert found.startswith(complaint)


def test_a_renamed_field_is_told_as_one_that_is_gone_and_one_that_is_new() -> None:
    assert incompatibilities(schema_of(a=ValueState(Visit)), schema_of(a=ValueState(Renamed))) == [
        "field `page` of state `a` is gone, and with it what it holds; keep it, even if it is not used",
        "field `url` of state `a` is new and has no default; give it one",
    ]


@dataclass
class Session:
    pages: list[str] = field(default_factory=list)


@dataclass
class LaterSession:
    pages: list[str] = field(default_factory=list)
    countries: list[str] = field(default_factory=lambda: ["unknown"])


class Before(KeyedProcessFunction):
    session = ValueState(Session)
    sessions = MapState(str, Session)

    def process_element(self, record: Record, context: Context) -> None:
        self.session.value = Session(["a"])
        self.sessions["x"] = Session(["b"])


class After(KeyedProcessFunction):
    session = ValueState(LaterSession)
    sessions = MapState(str, LaterSession)
    visits = ValueState(int, default=3)

    def process_element(self, record: Record, context: Context) -> Record:
        return {"shown": repr([self.session.value, self.sessions["x"], self.visits.value])}


def test_state_of_an_earlier_version_is_read_with_the_defaults_of_the_new_fields() -> None:
    epochs = Epochs(operator_of(Before, {}))
    epochs.run([("k", 0, 0)])
    before, after = epochs.operator.state_schema(), operator_of(After, {"shown": pa.string()})
    assert incompatibilities(before, after.state_schema()) == []
    epochs.operator = after
    (row,) = epochs.run([("k", 0, 0)]).rows
    assert row["shown"] == repr([LaterSession(["a"], ["unknown"]), LaterSession(["b"], ["unknown"]), 3])


TYPES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([int, float, str, bool, bytes, date, Visit, Grown, Colour, int | None]),
    lambda inner: st.one_of(
        inner.map(lambda t: list[t]),  # type: ignore[valid-type]
        inner.map(lambda t: dict[str, t]),  # type: ignore[valid-type]
        st.tuples(inner, inner).map(lambda pair: tuple[pair[0], pair[1]]),  # type: ignore[valid-type]
    ),
    max_leaves=4,
)
VALUES = {
    "int": 3,
    "float": 0.5,
    "str": "x",
    "bool": True,
    "bytes": b"x",
    "date": date(2024, 1, 1),
    "None": None,
}


def example(description: Any) -> Any:
    """A value of a described type, as msgpack may hold it."""
    if isinstance(description, str):
        return VALUES[description]
    ((kind, inner),) = description.items()
    if kind == "record":
        return {name: example(each["type"]) for name, each in inner.items()}
    if kind == "enum":
        return inner[0]
    if kind == "union":
        return example(inner[0])
    if kind == "dict":
        return {example(inner[0]): example(inner[1])}
    return [example(each) for each in inner] if kind == "tuple" else [example(inner)]


@dataclass(frozen=True)
class Turned:
    seconds: int = 0
    page: str = ""


KEYS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([int, float, str, Visit, Grown, Turned, Wider, Colour, int | None, Literal["red"]]),
    lambda inner: st.tuples(inner, inner).map(lambda pair: tuple[pair[0], pair[1]]),  # type: ignore[valid-type]
    max_leaves=2,
)


@settings(max_examples=random_cases(150))
@given(old=KEYS, new=KEYS)
def test_an_entry_of_a_map_is_found_by_what_is_called_compatible(old: Any, new: Any) -> None:
    if not incompatibilities(schema_of(a=MapState(old, int)), schema_of(a=MapState(new, int))):
        stored = encoder(msgspec.convert(example(describe(old)), old))
        assert encoder(msgspec.msgpack.decode(stored, type=new)) == stored


@settings(max_examples=random_cases(150))
@given(old=TYPES, new=TYPES)
def test_what_is_called_compatible_can_be_read(old: Any, new: Any) -> None:
    schemas = [{"states": {"a": {"kind": "value", "type": describe(each)}}} for each in (old, new)]
    if not incompatibilities(*schemas):
        packed = msgspec.msgpack.encode(example(describe(old)))
        written, read = (msgspec.msgpack.decode(packed, type=each) for each in (old, new))
        assert msgspec.msgpack.encode(written) == packed
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(read), type=new) == read, "and stays as it is"
