"""Calls of the user's connector classes: objects made with their secrets, exceptions told with class, method and line.

The one idea: whatever such a class raises becomes one of our kinds at the call, in one line, with the names of secrets
in place of their values; so no stack trace of it reaches a screen, from whichever process it comes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from mixedmode.connectors import CustomSink, CustomSource
from mixedmode.errors import InvalidJobError, MixedmodeError, RetryableError
from mixedmode.operators.classes import ClassKind, NamedClass, file_of
from mixedmode.secrets import hidden, resolve

__all__ = ["CustomSinkClass", "CustomSourceClass", "call_user_method", "calling", "instantiate"]

T = TypeVar("T", CustomSource, CustomSink)
R = TypeVar("R")


class CustomSourceClass(NamedClass[CustomSource]):
    """A source that a job names."""

    __slots__ = ()
    kind = ClassKind(
        noun="custom source",
        key="class",
        bases=(CustomSource,),
        derives_from="mixedmode.connectors.CustomSource",
    )


class CustomSinkClass(NamedClass[CustomSink]):
    """A sink that a job names."""

    __slots__ = ()
    kind = ClassKind(
        noun="custom sink",
        key="class",
        bases=(CustomSink,),
        derives_from="mixedmode.connectors.CustomSink",
    )


def instantiate(named: NamedClass[T]) -> T:
    """A new object of the class. Raises InvalidJobError, without secrets, when there is none to be had."""
    try:
        return replace(named, args=_resolved(named.args)).create()
    except InvalidJobError as error:
        raise InvalidJobError(hidden(str(error))) from None  # what it is chained to may hold a secret


def call_user_method(named: NamedClass[T], own: T, method: Callable[..., R], *arguments: Any) -> R:
    """What a method of the object `own` gives. Raises as `calling`."""
    with calling(named, own, method.__name__):
        return method(*arguments)


@contextmanager
def calling(named: NamedClass[T], own: T, method: str) -> Iterator[None]:
    """The block calls a method of `own`, an object of the class. Raises RetryableError for what the method raises, but
    for errors of our own kinds, which it means.
    """
    try:
        yield
    except MixedmodeError as error:
        msg = f"{hidden(_in_one_line(str(error)))} class={named.label}, method={method}"
        raise type(error)(msg) from None
    except Exception as error:  # noqa: BLE001 - whatever the method raises
        from mixedmode.operators.process.failures import line_of, shown_error  # noqa: PLC0415 - much to import, rarely needed

        msg = _in_one_line(
            f"the {named.kind.noun} raised {shown_error(error)} in `{method}`. Nothing of this epoch was committed. "
            "Correct the class, or what it reaches, and start the job again: it resumes. "
            f"class={named.label}, method={method}, at={line_of(error, file_of(own))}"
        )
        has_secret = hidden(str(error)) != str(error)
        raise RetryableError(hidden(msg)) from (None if has_secret else error)


def _resolved(value: Any) -> Any:
    if isinstance(value, str):
        return resolve(value)
    if isinstance(value, list):
        return [_resolved(one) for one in value]
    if isinstance(value, dict):
        return {name: _resolved(one) for name, one in value.items()}
    return value


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
