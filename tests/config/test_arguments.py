"""The check of arguments by their annotations: what is refused, in which words, and what is accepted."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixedmode.config.arguments import checked_arguments
from mixedmode.errors import InvalidJobError


@checked_arguments
def call(
    text: str = "",
    count: int | None = None,
    *,
    seconds: float = 0.0,
    flag: bool = False,
    place: str | os.PathLike[str] = "",
    rows: Sequence[Any] = (),
    names: Mapping[str, int] | None = None,
    anything: Any = None,
) -> int:
    """Return 1."""
    return 1


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("text", 5, "call: text must be text. found=int"),
        ("text", None, "call: text must be text. found=NoneType"),
        ("count", True, "call: count must be a whole number or None. found=bool"),
        ("count", 1.0, "call: count must be a whole number or None. found=float"),
        ("seconds", "1s", "call: seconds must be a number. found=str"),
        ("flag", 1, "call: flag must be True or False. found=int"),
        ("place", 5, "call: place must be a path or URL. found=int"),
        ("place", "a\0b", r"call: place must be a path or URL, which has no character NUL. found='a\x00b'"),
        ("rows", 5, "call: rows must be a list. found=int"),
        ("names", ["a"], "call: names must be a dictionary or None. found=list"),
    ],
)
def test_a_wrong_argument_is_refused_by_its_name(argument: str, value: Any, said: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        call(**{argument: value})
    assert str(caught.value) == said


def test_values_of_numpy_paths_and_all_that_can_be_iterated_are_accepted() -> None:
    untyped: Any = call
    assert untyped(np.str_("a"), np.int64(3), seconds=np.float32(1.5), place=Path("a"), rows=np.array([1])) == 1
    assert untyped("a", None, seconds=1, flag=True, rows=(one for one in "ab"), names={}, anything=object()) == 1


def test_a_wrong_number_of_arguments_is_the_error_of_python() -> None:
    wrong: Any = call
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'other'"):
        wrong(other=1)
