"""Secrets of a job: `${env:NAME}` in a setting is replaced by the environment variable NAME.

A setting keeps the text with the name wherever it is shown or stored. The value is looked up only where the setting is
passed to a library. Errors of that library go through `hidden`, which replaces each value by its name again.
"""

import json
import os
import re
from collections.abc import Callable, Mapping

from mixedmode.errors import InvalidJobError

SECRET_LENGTH_MIN = 4  # a shorter value is no secret, and occurs in many texts by chance
_BEGINNING, _NAME_AND_END = r"\$\{env:", r"([A-Za-z_][A-Za-z0-9_]*)\}"
_REFERENCE = re.compile(_BEGINNING + _NAME_AND_END)
_NOT_A_REFERENCE = re.compile(f"{_BEGINNING}(?!{_NAME_AND_END})")
#: {value that was looked up: its reference, such as ${env:NAME}}
_known: dict[str, str] = {}


def resolve(text: str, *, where: str = "", encode: Callable[[str], str] = str) -> str:
    """Return `text` with the values of the variables that it names, each as `encode` writes it.

    Raises InvalidJobError, beginning with `where`, if a variable is not set.
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
        return encode(value)

    return _REFERENCE.sub(value_of, text)


def resolve_all(texts: Mapping[str, str], *, where: str = "") -> dict[str, str]:
    """Return the same texts by name, each resolved."""
    return {name: resolve(text, where=where) for name, text in texts.items()}


def unreadable_reference(text: str) -> str | None:
    """Return the problem of a text in which `${env:` does not begin a valid reference; None for any other text.

    The problem does not show the text: the rest of it may be a secret.
    """
    if _NOT_A_REFERENCE.search(text) is None:
        return None
    return (
        " begins a variable of the environment that cannot be read. Write ${env:NAME}: a name of letters, digits and "
        "_, without a default value, and the closing brace."
    )


def has_reference(text: str) -> bool:
    """Return whether `text` names a variable of the environment."""
    return bool(variables_in(text))


def is_variable(text: str) -> bool:
    """Return whether `text` is the name of one variable of the environment, and nothing else."""
    return _REFERENCE.fullmatch(text) is not None


def variables_in(text: str) -> list[str]:
    """Return the names of the variables of the environment that `text` names, each once, in its order."""
    return list(dict.fromkeys(_REFERENCE.findall(text)))


def has_secrets(text: str) -> bool:
    """Return whether `text` contains a value that was looked up in this process."""
    return any(value in text for value in _known)


def has_secrets_in(data: bytes) -> bool:
    """Return whether binary data contain a value that was looked up in this process, as UTF-8."""
    return any(value.encode() in data for value in _known)


def has_secrets_in_json(text: str) -> bool:
    """Return whether JSON contains a value that was looked up in this process.  text: not limited to ASCII."""
    return any(json.dumps(value, ensure_ascii=False)[1:-1] in text for value in _known)


def hidden(text: str) -> str:
    """Return `text` with each value that was looked up in this process replaced by its reference.

    Longer values are replaced first.
    """
    for value in sorted(_known, key=len, reverse=True):
        text = text.replace(value, _known[value])
    return text
