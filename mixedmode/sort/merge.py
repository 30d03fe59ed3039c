"""Merging sorted runs in bounded memory, many rows at a time.

The one idea: of the chunks in memory, one per run, take the one whose last row sorts first. No row that is still to be
read sorts before that row, so all rows up to it, of all chunks, may leave: they are cut off by binary search and sorted
together. Then that run reads its next chunk. So each round uses up at least one chunk, also when all keys are equal.

Equal rows leave in the order of their runs: rows equal to the border leave only from runs up to the border's own, as
that run may have more of them.

Source: Knuth, The Art of Computer Programming, volume 3, section 5.4.1 (multiway merging), with chunks for records.
Invariants (tests/sort/test_merge.py):
  I1  the output is the stable sort of the concatenation of the runs
  I2  at most one chunk per run, and the rows of one round, are in memory
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from sortedcontainers import SortedKeyList

from mixedmode.errors import CorruptStateError
from mixedmode.sort.columns import RowKey, SortColumns, sort_columns
from mixedmode.sort.order import find_unsorted, sort_order, take_rows


def merge_runs(
    runs: Sequence[Iterable[pa.Table | pa.RecordBatch]], *, names: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Sorted runs -> sorted tables, of about one chunk each. A run is its chunks in order, all of one schema.

    `names` (default: run 0, run 1, ...) say in an error which run it was.
    Raises CorruptStateError when the rows of a run are not in order.
    """
    labels = [f"run {index}" for index in range(len(runs))] if names is None else names
    cursors = [_Cursor(run, index, name) for index, (run, name) in enumerate(zip(runs, labels, strict=True))]
    #: cursors that have rows, by (last key in memory, run index)
    front = SortedKeyList((cursor for cursor in cursors if cursor.read()), key=lambda cursor: cursor.border)
    while front:
        first = front.pop(0)
        border, index = first.border
        pieces = [cursor.cut(border, with_equal=cursor.index <= index) for cursor in front]
        by_run = {cursor.index: piece for cursor, piece in zip(front, pieces, strict=True) if piece.num_rows}
        by_run[index] = first.rest()
        if first.read():
            front.add(first)
        ordered = [by_run[i] for i in sorted(by_run)]
        yield ordered[0] if len(ordered) == 1 else _sorted_together(ordered)


def _sorted_together(pieces: list[pa.Table]) -> pa.Table:
    # not sort_table: pieces of several runs are hardly ever in order, and looking takes a tenth of the time
    table = pa.concat_tables(pieces).combine_chunks()
    return take_rows(table, sort_order(table))


class _Cursor:
    """A run and the chunk of it that is in memory. Cutting leaves its last row, so its place in the front, as it is."""

    def __init__(self, run: Iterable[pa.Table | pa.RecordBatch], index: int, name: str) -> None:
        self.index = index
        self._name = name
        self._chunks = iter(run)
        self._chunk: pa.Table
        self._columns: SortColumns
        self._start = 0  #: rows of the chunk before this one have left
        self._rows_read = 0
        self._last: RowKey | None = None

    @property
    def border(self) -> tuple[RowKey, int]:
        """The last row in memory, and the run's index for ties. Requires that `read` has returned True."""
        assert self._last is not None
        return self._last, self.index

    def read(self) -> bool:
        """Take the next chunk that has rows; False at the end of the run."""
        for chunk in self._chunks:
            if chunk.num_rows == 0:
                continue
            self._chunk = chunk if isinstance(chunk, pa.Table) else pa.Table.from_batches([chunk])
            self._columns = sort_columns(self._chunk)
            self._check()
            self._start = 0
            self._rows_read += len(self._columns)
            self._last = self._columns.row_key(len(self._columns) - 1)
            return True
        return False

    def rest(self) -> pa.Table:
        """All rows of the chunk that have not left."""
        return self._chunk.slice(self._start)

    def cut(self, border: RowKey, *, with_equal: bool) -> pa.Table:
        """The rows before the border (and those equal to it) that have not left. They count as left from now on."""
        bisect = bisect_right if with_equal else bisect_left
        start, count = self._start, len(self._columns)
        self._start = bisect(range(count), border, lo=start, key=self._columns.row_key)
        return self._chunk.slice(start, self._start - start)

    def _check(self) -> None:
        columns = self._columns
        row = 0 if self._last is not None and columns.row_key(0) < self._last else find_unsorted(columns)
        if row is not None:
            msg = (
                "a run is not sorted by (key group, key, time) as it was when it was written, so its data is damaged "
                "and merging it would give wrong results. Check the disk, then start the job again; it resumes from "
                f"its last checkpoint. run={self._name}, row={self._rows_read + row}"
            )
            raise CorruptStateError(msg)
