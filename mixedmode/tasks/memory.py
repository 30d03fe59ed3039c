"""How the managed memory of a task is shared out: at the map side, and between a subtask's sorter and its state.

The one idea: a stage runs alone in its task, so each has all of it, and what the operator declares says for what. At
the map side, a slice of the input takes a part, and the rest is what folding it takes. In backlog, an operator that
takes sorted input gives nearly all of it to the sorter, because a key that is read is new; live, and where an operator
does not want its input sorted, half of it is for what is read of the state. Pure.

Source: the managed memory of FLIP-327; the attributes of FLIP-331.
Invariants (tests/tasks/test_memory.py):
  I1  the sorter and what is read have a part each, together no more than there is
  I2  sorted input never gets less for sorting than other input
  I3  folding a slice takes no more than there is, and a small constant (tests/tasks/test_map_memory.py)
"""

import math
from dataclasses import dataclass

from mixedmode.checkpoint.types import PathTaken
from mixedmode.operators.interface import OperatorAttributes

_CACHE_PART_SORTED = 8  # of the memory: over a state that precedes the backlog, a few blocks are read
_CACHE_PART_STREAMING = 2
_SLICE_PART = 0.3  # folding it takes up to twice as much beside it, if it is folded in so many pieces as is said here

SLICE_ROW_BYTES_MIN = 16  # what a row of a slice counts as, since folding it takes memory, however small it is
SLICE_PIECES_MAX = 4


@dataclass(frozen=True, slots=True)
class MemoryShares:
    """Bytes for the sorter, and for what is read of the state.

    `columns_bytes` is the latter on the streaming path, whatever the path: how large a run may be to be written in
    columns, which the live epochs after a backlog read.
    """

    sort_bytes: int
    cache_bytes: int
    columns_bytes: int


def slice_bytes(managed_bytes: int, attributes: OperatorAttributes) -> int:
    """How much of its input a map task folds at a time: 1 byte at least. A record that becomes many rows is as many."""
    return max(1, int(managed_bytes * _SLICE_PART) // attributes.rows_per_record)


def decide_pieces(distinct_part: float) -> int:
    """In how many pieces a slice is folded that has so many distinct keys per row: from 1 to SLICE_PIECES_MAX.

    What is folded to a row takes several times the memory of a row of the input; and the less keys repeat, the less is
    saved by folding more of them at once.
    """
    return max(1, math.ceil(SLICE_PIECES_MAX * distinct_part))


def path_for(attributes: OperatorAttributes, path: PathTaken) -> PathTaken:
    """The path that a stage takes in an epoch of `path`: only who supports sorted input leaves RocksDB out."""
    return path if attributes.internal_sorter_supported else "streaming"


def share_memory(managed_bytes: int, attributes: OperatorAttributes, path: PathTaken) -> MemoryShares:
    """The shares of one stage. The sorter and what is read have 1 byte at least, whatever there is."""
    is_sorted = path_for(attributes, path) == "sorted"
    cache_bytes = max(1, managed_bytes // (_CACHE_PART_SORTED if is_sorted else _CACHE_PART_STREAMING))
    return MemoryShares(max(1, managed_bytes - cache_bytes), cache_bytes, managed_bytes // _CACHE_PART_STREAMING)
