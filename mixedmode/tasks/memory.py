"""Divides the managed memory of a task: at the map side, and between a subtask's sorter and its state cache. Pure.

A stage runs alone in its task, so it has all the memory of the task; the operator's attributes decide on its use. At
the map side, a slice of the input takes one part, and folding the slice takes the rest. With the sorted strategy,
nearly all memory is for the sorter, because hardly any key has stored state to read. With the streaming strategy, and
for an operator that does not support sorted input, half of the memory is for the cache of state that is read.

Source: the managed memory of FLIP-327; the attributes of FLIP-331.
Invariants (tests/tasks/test_memory.py):
  I1  the sorter and the cache each have a part, together at most all of the memory
  I2  sorted input never has less memory for sorting than other input
  I3  folding a slice takes at most the memory and a small constant (tests/tasks/test_map_memory.py)
"""

import math
from dataclasses import dataclass

from mixedmode.checkpoint.types import ExecutionStrategy
from mixedmode.operators.interface import OperatorAttributes

_CACHE_PART_SORTED = 8  # one eighth of the memory: if state precedes the backlog, a few of its blocks are read
_CACHE_PART_STREAMING = 2
_KEY_PART = 16  # what an operator makes of the rows of a key takes several times as much
_RECORDS_PART = 8  # folding them takes three times as much besides, while half of the memory has rows to sort
_SLICE_PART = 0.3  # folding takes up to twice as much besides, if done in the number of pieces below

SLICE_ROW_BYTES_MIN = 16  # the least size that a row counts as, since folding needs memory for each row
SLICE_PIECES_MAX = 4


@dataclass(frozen=True, slots=True)
class MemoryShares:
    """Bytes for the sorter, for the rows of one key that an operator holds, and for the cache of state that is read.

    `records_bytes`: of records that are folded at once. The rows that are collected for sorting leave room for that.

    `columns_bytes`: the largest run that is also written as columns. It equals `cache_bytes` of the streaming strategy
    with every strategy, because the live epochs after a backlog read the columns. `scanned_columns_bytes`: the same for
    states that are only scanned. Their columns serve merges, and the run of a backlog is merged when about as many
    entries have come, if ever; so it has none.
    """

    sort_bytes: int
    key_bytes: int
    cache_bytes: int
    columns_bytes: int
    scanned_columns_bytes: int
    records_bytes: int


def slice_bytes(managed_bytes: int, attributes: OperatorAttributes) -> int:
    """Return how many bytes of input a map task folds at a time, at least 1.

    If an operator makes many rows of a record, the slice is smaller by this factor.
    """
    return max(1, int(managed_bytes * _SLICE_PART) // attributes.rows_per_record)


def decide_pieces(distinct_part: float) -> int:
    """Return the number of pieces in which to fold a slice: from 1 to SLICE_PIECES_MAX.

    distinct_part: distinct keys per row, from 0 to 1. A folded row takes several times the memory of an input row. The
    fewer keys repeat, the less folding more rows at once saves. Example: 4 * 0.6 = 2.4, so 3 pieces.
    """
    return max(1, math.ceil(SLICE_PIECES_MAX * distinct_part))


def strategy_for(attributes: OperatorAttributes, strategy: ExecutionStrategy) -> ExecutionStrategy:
    """Return the strategy of a stage in an epoch of `strategy`: streaming unless its operator supports sorted input."""
    return strategy if attributes.internal_sorter_supported else "streaming"


def share_memory(managed_bytes: int, attributes: OperatorAttributes, strategy: ExecutionStrategy) -> MemoryShares:
    """Return the shares of one stage. The sorter and the cache each have at least 1 byte."""
    is_sorted = strategy_for(attributes, strategy) == "sorted"
    cache_bytes = max(1, managed_bytes // (_CACHE_PART_SORTED if is_sorted else _CACHE_PART_STREAMING))
    sort_bytes = max(1, managed_bytes - cache_bytes)
    key_bytes = max(1, managed_bytes // _KEY_PART)
    columns_bytes, records_bytes = managed_bytes // _CACHE_PART_STREAMING, max(1, managed_bytes // _RECORDS_PART)
    scanned_columns_bytes = 0 if is_sorted else columns_bytes
    return MemoryShares(sort_bytes, key_bytes, cache_bytes, columns_bytes, scanned_columns_bytes, records_bytes)
