"""The check of arguments that are no settings: a wrong one is refused by its name, and not by the code that meets it.

`checked_arguments` checks a function by its annotations. `of_type` checks one argument in words of its own.
"""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, get_args, get_origin

from mixedmode.errors import InvalidJobError
from mixedmode.system_errors import system_error

__all__ = ["checked_arguments", "of_type", "place_of"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

#: {annotation: (the types of its values, its words)}; numbers of numpy are Integral and Real, too
_KINDS: Mapping[object, tuple[type, str]] = {
    str: (str, "text"),
    bool: (bool, "True or False"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    os.PathLike: (os.PathLike, "a path or URL"),
    Sequence: (Iterable, "a list"),
    Mapping: (Mapping, "a dictionary"),
    NoneType: (NoneType, "None"),
}


def checked_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check of its arguments. It raises InvalidJobError for one that is of another type.

    An error of the system inside of the function, such as about a name that is too long, has our words.

    An argument is not checked if its annotation has a type that is neither a class nor in `_KINDS`, such as Any.
    """
    signature = inspect.signature(function)
    kinds = {name: _kinds_of(parameter.annotation) for name, parameter in signature.parameters.items()}
    call = function.__qualname__

    @wraps(function)
    def checking(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if kinds[name] and not any(_is_of(value, kind) for kind, _ in kinds[name]):
                words = [text for kind, text in kinds[name] if not (kind is str and _is_place(kinds[name]))]
                of_type(value, (), f"{call}: {name}", " or ".join(words))
            if _is_place(kinds[name]) and isinstance(value, str | os.PathLike):
                place_of(value, f"{call}: {name}")
        try:
            return function(*args, **kwargs)
        except OSError as error:
            found = system_error(error)
            if found is None:
                raise
            raise found from error

    return checking


def of_type(value: T, kind: type | UnionType | tuple[type, ...], place: str, wanted: str) -> T:
    """Return the value of an argument that is no setting. Raise InvalidJobError if it is not of this type.

    place: the call and the argument; wanted: what it must be.
    """
    if not isinstance(value, kind):
        msg = f"{place} must be {wanted}. found={type(value).__name__}"
        raise InvalidJobError(msg)
    return value


def place_of(value: str | os.PathLike[str], place: str) -> str:
    """Return the text of an argument that is a path or URL. Raise InvalidJobError for anything else."""
    text = os.fspath(of_type(value, str | os.PathLike, place, "a path or URL"))
    if "\0" in text:
        msg = f"{place} must be a path or URL, which has no character NUL. found={text!r}"
        raise InvalidJobError(msg)
    return text


def _kinds_of(annotation: Any) -> list[tuple[type, str]]:
    """Return the types that an annotation allows, each with its words; [] if one of them cannot be checked."""
    found = []
    for each in get_args(annotation) if isinstance(annotation, UnionType) else (annotation,):
        kind = get_origin(each) or each
        if kind in {Any, inspect.Parameter.empty} or not (kind in _KINDS or isinstance(kind, type)):
            return []
        found.append(_KINDS.get(kind) or (kind, f"a {kind.__name__}"))
    return found


def _is_of(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not (kind in (Integral, Real) and isinstance(value, bool))


def _is_place(kinds: Sequence[tuple[type, str]]) -> bool:
    return any(kind is os.PathLike for kind, _ in kinds)
