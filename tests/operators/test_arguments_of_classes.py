"""Arguments of a user's classes may name variables of the environment; what such a class raises does not show them."""

from pathlib import Path
from typing import Any

import pytest

from mixedmode.connectors import CustomSink, CustomSource
from mixedmode.connectors.custom.instances import CUSTOM_SINK, CUSTOM_SOURCE
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.operators.async_map.function import ASYNC_MAP_FUNCTION
from mixedmode.operators.classes import ClassKind, NamedClass
from mixedmode.operators.co_group import CO_GROUP_FUNCTION
from mixedmode.operators.map.function import MAP_FUNCTION
from mixedmode.operators.process.function import CO_PROCESS_FUNCTION, PROCESS_FUNCTION
from mixedmode.process import (
    AsyncMapFunction,
    CoGroupFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
)

TOKEN = "hunter2-of-the-service"
ARGS = {"token": "Bearer ${env:SERVICE_TOKEN}", "more": [{"again": "${env:SERVICE_TOKEN}"}, 3, None]}


class Keeps:
    def __init__(self, token: str = "", more: Any = None, *, fails: bool = False) -> None:
        if fails:
            msg = f"{token} is refused"
            raise ValueError(msg)
        self.token, self.more = token, more


class Process(Keeps, KeyedProcessFunction):
    pass


class CoProcess(Keeps, KeyedCoProcessFunction):
    pass


class CoGroup(Keeps, CoGroupFunction):
    pass


class AsyncMap(Keeps, AsyncMapFunction):
    pass


class Map(Keeps, MapFunction):
    pass


class Source(Keeps, CustomSource):
    pass


class Sink(Keeps, CustomSink):
    pass


for _class in (Process, CoProcess, CoGroup, AsyncMap, Map, Source, Sink):
    setattr(_class, "__abstractmethods__", frozenset())  # noqa: B010 - a type has it only where it is abstract

KINDS: dict[str, ClassKind[Any]] = {
    "Process": PROCESS_FUNCTION,
    "CoProcess": CO_PROCESS_FUNCTION,
    "CoGroup": CO_GROUP_FUNCTION,
    "AsyncMap": ASYNC_MAP_FUNCTION,
    "Map": MAP_FUNCTION,
    "Source": CUSTOM_SOURCE,
    "Sink": CUSTOM_SINK,
}


@pytest.fixture(params=KINDS.items(), ids=lambda kind: str(kind[0]))
def kind(request: pytest.FixtureRequest) -> tuple[str, ClassKind[Any]]:
    found: tuple[str, ClassKind[Any]] = request.param
    return found


def reference(kind: tuple[str, ClassKind[Any]], **args: Any) -> NamedClass[Any]:
    name, kind_of_class = kind
    return kind_of_class.named(f"{__name__}:{name}", args, str(Path(__file__).parents[2]))


def test_every_class_gets_the_values(kind: tuple[str, ClassKind[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", TOKEN)
    named = reference(kind, **ARGS)
    made = named.create()
    assert made.token == f"Bearer {TOKEN}"
    assert made.more == [{"again": TOKEN}, 3, None]
    assert TOKEN not in repr(named), "only the instance has them"


def test_arguments_without_a_variable_are_handed_over_as_they_are(kind: tuple[str, ClassKind[Any]]) -> None:
    given = [{"again": ("$HOME", 3)}]
    assert reference(kind, more=given).create().more is given


def test_an_error_of_a_class_does_not_show_them(
    kind: tuple[str, ClassKind[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", TOKEN)
    with pytest.raises(InvalidJobError, match=r"Bearer \$\{env:SERVICE_TOKEN\} is refused") as caught:
        reference(kind, **ARGS, fails=True).create()
    assert TOKEN not in str(caught.value)
    assert caught.value.__cause__ is None, "it would show the value"


def test_a_variable_that_is_not_set_is_named_with_its_argument(kind: tuple[str, ClassKind[Any]]) -> None:
    with pytest.raises(MixedmodeError) as caught:
        reference(kind, more=["${env:NOT_SET_ANYWHERE}"]).create()
    assert str(caught.value) == (
        f"args.more of {__name__}:{kind[0]}: a setting needs a variable of the environment that is not set. Set it "
        "before you start the job. variable=NOT_SET_ANYWHERE"
    )
