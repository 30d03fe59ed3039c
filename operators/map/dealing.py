"""Dividing rows evenly among the subtasks of a map step, wherever the rows come from.

Invariants (tests/operators/map/test_dealing.py):
  I1  every row goes to exactly one subtask, and the rows of a subtask keep their order
  I2  of n rows, a subtask gets n / parallelism, rounded up or down
  I3  over `parallelism` turns, each subtask comes first once, so that single rows do not all go to one
"""

from collections.abc import Iterator

import pyarrow as pa

__all__ = ["dealt"]


def dealt(rows: pa.Table, *, parallelism: int, turn: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield (subtask, its rows) for each subtask that gets any rows.

    turn: the index of the table within its input.
    """
    for place in range(parallelism):
        start, end = (rows.num_rows * bound // parallelism for bound in (place, place + 1))
        if start < end:
            yield (turn - place) % parallelism, rows.slice(start, end - start)
