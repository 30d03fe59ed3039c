"""The fan-out of a join: how many partners its new rows have found in an epoch. Subtasks count, and the driver merges.

Counts above 16 are kept with four binary digits, rounded up, so a percentile is at most an eighth too high:

    17 -> 18   19 -> 20   33 -> 36   1000 -> 1024   The greatest count is exact.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

__all__ = ["FanOut"]

_DIGITS = 4


@dataclass(slots=True)
class FanOut:
    """Counts of partners, for the rows that arrived in an epoch.

    `greatest`: of one row. `rows`: {number of partners, rounded up: number of rows}.
    """

    greatest: int = 0
    rows: dict[int, int] = field(default_factory=dict)

    def count(self, partners: npt.NDArray[np.int64]) -> None:
        """Count rows (n,) by the number of their partners."""
        if not len(partners):
            return
        self.greatest = max(self.greatest, int(partners.max()))
        values, rows = np.unique(_rounded_up(partners), return_counts=True)
        self._add(dict(zip(values.tolist(), rows.tolist(), strict=True)))

    def add(self, other: "FanOut") -> None:
        """Add the counts of another subtask."""
        self.greatest = max(self.greatest, other.greatest)
        self._add(other.rows)

    def percentile(self, share: float) -> int:
        """Return a number of partners that this share of the rows does not exceed; 0 without rows."""
        wanted, seen = share * sum(self.rows.values()), 0
        for value, rows in sorted(self.rows.items()):
            seen += rows
            if seen >= wanted:
                return min(value, self.greatest)
        return self.greatest

    def encode(self) -> str:
        """Encode as JSON."""
        return json.dumps([self.greatest, sorted(self.rows.items())])

    @classmethod
    def decode(cls, text: str) -> Self:
        """Decode the JSON of `encode`."""
        greatest, rows = json.loads(text)
        return cls(greatest, dict(rows))

    def _add(self, rows: Mapping[int, int]) -> None:
        for value, count in rows.items():
            self.rows[value] = self.rows.get(value, 0) + count


def _rounded_up(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    _, exponents = np.frexp(counts.astype(np.float64))  # the number of binary digits
    dropped = np.maximum(exponents.astype(np.int64) - _DIGITS, 0)
    return ((counts + (np.int64(1) << dropped) - 1) >> dropped) << dropped
