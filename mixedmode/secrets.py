"""Secrets of a job: `${env:NAME}` in its settings stands for a variable of the environment.

The one idea: a setting keeps the text with the name, wherever it is shown or stored, and only whoever hands it to a
library asks for the value. What a library then says in an error goes through `hidden`, which puts the name back.
"""

import os
import re
from collections.abc import Mapping

from mixedmode.errors import InvalidJobError

SECRET_LENGTH_MIN = 4  # a shorter value is no secret, and stands in many texts by chance
_REFERENCE = re.compile(r"\$\{env:([^}]*)\}")
_NOT_A_REFERENCE = re.compile(r"\$\{env:(?![^{}$\s]+\})")
#: values that were asked for, and what stands for them
_known: dict[str, str] = {}


def resolve(text: str, *, where: str = "") -> str:
    """`text` with the values of the variables that it names. Raises InvalidJobError, beginning with `where`, if one
    is not set.
    """

    def value_of(found: re.Match[str]) -> str:
        name = found[1]
        value = os.environ.get(name)
        if value is None:
            msg = (
                f"{where}{': ' if where else ''}a setting needs a variable of the environment that is not set. Set it "
                f"before you start the job. variable={name}"
            )
            raise InvalidJobError(msg)
        if len(value) >= SECRET_LENGTH_MIN:
            _known[value] = found[0]
        return value

    return _REFERENCE.sub(value_of, text)


def resolve_all(texts: Mapping[str, str], *, where: str = "") -> dict[str, str]:
    """The same texts by name, each resolved."""
    return {name: resolve(text, where=where) for name, text in texts.items()}


def unreadable_reference(text: str) -> str | None:
    """Return what is wrong with a text in which `${env:` begins no reference; None for any other text.

    The text itself is not shown: the rest of it may be a secret.
    """
    if _NOT_A_REFERENCE.search(text) is None:
        return None
    return " begins a variable of the environment and does not end it. Write ${env:NAME}, with the closing brace."


def has_secrets(text: str) -> bool:
    """Whether a value that was asked for in this process stands in `text`."""
    return any(value in text for value in _known)


def hidden(text: str) -> str:
    """`text` with the name in place of each value that was asked for in this process, longest first."""
    for value in sorted(_known, key=len, reverse=True):
        text = text.replace(value, _known[value])
    return text
