"""The partitions of an output: a column, or the year, month, day or hour of a column.

country        a folder per value             country=DE
day(at)        a folder per day, in UTC       at_day=2024-05-01
`day(at)`      the column with this name
"""

import re
from dataclasses import dataclass
from typing import Literal

from mixedmode.errors import InvalidJobError

Every = Literal["year", "month", "day", "hour"]

_CALL = re.compile(r"(year|month|day|hour)\(\s*(.+?)\s*\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Partition:
    """A level of folders. `every`: the part of time to which the column is truncated; None: the values unchanged."""

    column: str
    every: Every | None = None

    @property
    def name(self) -> str:
        """The name of the column that readers see."""
        return self.column if self.every is None else f"{self.column}_{self.every}"

    def __str__(self) -> str:
        """Return the partition as written in a job file."""
        column = f"`{self.column.replace('`', '``')}`" if _is_quoted(self.column) else self.column
        return column if self.every is None else f"{self.every}({column})"


def parse_partition(text: str) -> Partition:
    """Return the partition written as `country` or `day(at)`. Raises InvalidJobError.

    The name of a column with brackets goes between backticks.
    """
    call = _CALL.fullmatch(text.strip())
    if call is None:
        return Partition(_column(text.strip(), text))
    every: Every = call[1].lower()  # type: ignore[assignment]  # one of the four, says the pattern
    return Partition(_column(call[2], text), every)


def _column(name: str, text: str) -> str:
    if name.startswith("`") and name.endswith("`") and len(name) > 2:
        return name[1:-1].replace("``", "`")
    if not name or _is_quoted(name):
        msg = (
            "this is neither a column nor the year, month, day or hour of one. Write `country` or `day(at)`; a column "
            f"with brackets in its name goes between backticks. found={text}"
        )
        raise InvalidJobError(msg)
    return name


def _is_quoted(name: str) -> bool:
    return any(sign in name for sign in "()`")
