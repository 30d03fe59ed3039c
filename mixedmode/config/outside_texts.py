"""Texts that somebody outside has written, in a request or on the command line: nothing in them is a defect."""

import json
import reprlib
from typing import Any

__all__ = ["parse_json", "shown_value", "whole_number"]

_CHARACTERS_MAX = 200
_DIGITS_MAX = 18
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxlong = _SHOWN.maxother = _CHARACTERS_MAX


def parse_json(text: str | bytes) -> Any:
    """Return the value that a text writes in JSON.

    Raises ValueError for any other text, and for one with thousands of brackets in each other, or of digits in a row.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        msg = "the JSON is nested too deeply"
        raise ValueError(msg) from error


def whole_number(text: str) -> int | None:
    """Return the number from 0 on that a text writes in at most 18 digits; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else None


def shown_value(value: object) -> str:
    """Return a value for a message: of long and of deeply nested values only the beginning.

    >>> shown_value(["DE", 3]), shown_value([[[[[[[["deep"]]]]]]]])
    ("['DE', 3]", '[[[[[[[...]]]]]]]')
    """
    return _SHOWN.repr(value)[:_CHARACTERS_MAX]
