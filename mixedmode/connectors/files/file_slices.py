"""Slices of files: which rows of which files each task of an epoch reads. Pure.

The tasks get about equally many bytes. A small or compressed file is read by one task. A large file is cut where a task
has its share, and the next task reads on there.

    Example: two tasks share Parquet files of 20 MiB and 60 MiB. One reads the smaller file and the first 20 MiB of the
    larger one: a third of its rows. The other one reads the rest.

A slice of Parquet may begin and end within a row group, since a file often has fewer row groups than a machine has
cores. A reader decodes the rows of the group before its own, and drops them, which takes a fraction of the time that
the task needs for its own rows.

Invariants (tests/sources/test_file_slices.py):
  I1  each byte of each file is in exactly one slice, and so is each row
  I2  a slice of a file that is cut has at least PIECE_BYTES
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

from mixedmode.connectors.files.file_blocks import is_compressed

__all__ = ["PIECE_BYTES", "FileSlice", "assign_slices", "whole_input"]

PIECE_BYTES = 4 * 1024 * 1024  # of Parquet: a smaller piece is not worth opening the file once more


@dataclass(frozen=True, slots=True)
class FileSlice:
    """The bytes [begin, end) of a file of `length` bytes, as the driver has seen it.

    In Parquet, it is the same part of the rows. In text, it is the lines that begin there.
    """

    path: str
    begin: int
    end: int
    length: int

    @classmethod
    def whole(cls, path: str, length: int = 0) -> "FileSlice":
        """Return all of a file."""
        return cls(path, 0, length, length)

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.end - self.begin

    def rows_of(self, rows: int) -> range:
        """Return the numbers of the slice's rows in a file of so many rows."""
        if self.size == self.length:
            return range(rows)
        return range(rows * self.begin // self.length, rows * self.end // self.length)


def assign_slices(files: Sequence[tuple[str, int]], tasks: int, *, effort: int = 1) -> list[tuple[FileSlice, ...]]:
    """Cut files (path, bytes) into slices, and assign them to at most `tasks` tasks, about equal in bytes.

    effort: how many times as long a byte takes as one of Parquet; slices may be smaller by it.

    Every byte of every file is in exactly one task; no task is empty.
    """
    piece = PIECE_BYTES // effort
    whole = [FileSlice.whole(path, length) for path, length in files]
    is_cut = [one.length >= 2 * piece and not is_compressed(one.path) for one in whole]
    rest = deque(compress(whole, is_cut))
    uncut = [one for one, cut in zip(whole, is_cut, strict=True) if not cut]
    count = min(tasks, len(uncut) + sum(one.length // piece for one in rest))
    dealt, loads = _dealt(uncut, count)
    # the fullest tasks come first: one that has more than its share already leaves the rest to the others
    order = sorted(range(count), key=lambda task: -loads[task])
    for done, task in enumerate(order):
        to_come = sum(one.size for one in rest) + sum(loads[other] for other in order[done:])
        is_last = done == count - 1
        room = to_come // (count - done) - loads[task]
        while rest and (is_last or room >= piece):
            own = rest.popleft()
            cut = own.begin + room
            if not is_last and own.end - cut >= piece:
                rest.appendleft(replace(own, begin=cut))
                own = replace(own, end=cut)
            dealt[task].append(own)
            room -= own.size
    return [tuple(slices) for slices in dealt if slices]


def whole_input(files: Sequence[tuple[str, int]]) -> tuple[tuple[FileSlice, ...]]:
    """Return all of the files (path, bytes) as the slices of one task."""
    return (tuple(FileSlice.whole(path, length) for path, length in files),)


def _dealt(files: Sequence[FileSlice], tasks: int) -> tuple[list[list[FileSlice]], list[int]]:
    """Deal out whole files, the largest first, each to the task with the fewest bytes. Return the bytes, too."""
    dealt: list[list[FileSlice]] = [[] for _ in range(tasks)]
    loads = [0] * tasks
    fewest = [(0, 0, task) for task in range(tasks)]  # bytes, files, task: of empty files, each has as many
    for file in sorted(files, key=lambda file: (-file.size, file.path)):
        load, number, task = heapq.heappop(fewest)
        dealt[task].append(file)
        loads[task] = load + file.size
        heapq.heappush(fewest, (loads[task], number + 1, task))
    return dealt, loads
