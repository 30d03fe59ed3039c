"""`WITHIN GROUP (ORDER BY x DESC)` after a call: how SQL says which values `percentile_cont(0.5)` is of."""

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Self

from mixedmode.config.call_texts import closing, pieces
from mixedmode.errors import InvalidJobError

__all__ = ["WITHIN_GROUP", "WithinGroup"]

WITHIN_GROUP = "percentile_cont(0.5) WITHIN GROUP (ORDER BY delay)"  # an example for messages

_HEAD = re.compile(r"\s*within\s+group\s*\(\s*order\s+by\b", re.ASCII | re.IGNORECASE)
_DIRECTION = re.compile(r"\s+(asc|desc)$", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WithinGroup:
    """The expression that orders the values, its direction, and the position of its closing parenthesis."""

    argument: str
    is_descending: bool
    end: int

    @classmethod
    def after(cls, text: str, start: int) -> Self | None:
        """Return the one that begins at `start`; None if there is none. Raise InvalidJobError for several columns."""
        head = _HEAD.match(text, start)
        if head is None:
            return None
        end = closing(text, head.end())
        columns = pieces(text[head.end() : end], text)
        if len(columns) > 1:
            msg = f"WITHIN GROUP takes one column or expression, as in {WITHIN_GROUP}. found={text}"
            raise InvalidJobError(msg)
        column = columns[0].strip()
        direction = _DIRECTION.search(column)
        if direction is None:
            return cls(column, is_descending=False, end=end)
        return cls(column[: direction.start()], is_descending=direction[1].lower() == "desc", end=end)

    def percentile(self, shares: list[str]) -> list[str]:
        """Return the arguments of `percentile`, for those of percentile_cont: the share 0.9 from above is 0.1."""
        return [self.argument, *(map(_from_above, shares) if self.is_descending else shares)]


def _from_above(share: str) -> str:
    """Return 1 - share, without a rounding; a text that is no number as it is."""
    try:
        return str(1 - Decimal(share))
    except InvalidOperation:
        return share
