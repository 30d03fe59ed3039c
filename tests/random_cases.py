"""The number of random cases of a test: its own, times RANDOM_CASES of the environment (1 by default)."""

import os

__all__ = ["random_cases"]

_TIMES = float(os.environ.get("RANDOM_CASES", "1"))


def random_cases(count: int) -> int:
    """Return how many cases a test has whose own number is `count`; at least one."""
    return max(1, round(count * _TIMES))
