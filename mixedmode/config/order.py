"""One expression by which rows are ordered, as written in a job: `price desc`, `coalesce(at, since) nulls last`.

The expression is SQL, which Spark computes before the keyed step. This module only finds the words after it. As in
Spark, NULL comes first in ascending order, and last in descending order, unless the words say otherwise.

Invariant (tests/config/test_order.py): parse(str(order)) == order
"""

import re
from dataclasses import dataclass
from typing import Self

from mixedmode.errors import InvalidJobError

_WORDS = re.compile(
    r"(?P<expression>.*?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class OrderBy:
    """An expression, its direction, and the place of NULL."""

    expression: str
    descending: bool
    nulls_first: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the order that `text` says. Raise InvalidJobError if it has no expression."""
        found = _WORDS.fullmatch(text.strip())
        assert found is not None, text
        expression = found["expression"].strip()
        if not expression or re.fullmatch(r"asc|desc|nulls\s+(first|last)", expression, re.IGNORECASE):
            msg = f"an order needs an expression before its direction. Write `price desc`. found={text}"
            raise InvalidJobError(msg)
        descending = (found["direction"] or "asc").lower() == "desc"
        nulls_first = not descending if found["nulls"] is None else found["nulls"].lower() == "first"
        return cls(expression, descending, nulls_first)

    def __str__(self) -> str:
        """Return the shortest text that means the same."""
        direction = " desc" if self.descending else ""
        nulls = "" if self.nulls_first is not self.descending else f" nulls {'first' if self.nulls_first else 'last'}"
        return f"{self.expression}{direction}{nulls}"
