"""Merge sorted runs in bounded memory, many rows at a time.

One chunk per run is in memory. Choose the chunk whose last row sorts first; this row is the border. No
unread row sorts before the border, so all rows up to the border, of all chunks, can be emitted. They are cut off by
binary search and sorted together. Then the run of the border reads its next chunk. So each round finishes at least one
chunk, even if all keys are equal.

    Example: the chunks are [1, 4, 9] and [2, 3, 5]. The border is 5, and the round emits 1, 2, 3, 4, 5. The first chunk
    still holds 9.

Equal rows are emitted in the order of their runs. Rows equal to the border are emitted only from runs up to the
border's run, because that run may hold more of them.

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
    """Merge sorted runs into sorted tables of about one chunk each. A run is its chunks in order, all of one schema.

    `names` (default: run 0, run 1, ...) identify a run in an error message.
    Raises CorruptStateError if the rows of a run are not in order.
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
    # not sort_table: pieces of several runs are hardly ever in order, and the check takes a tenth of the time
    table = pa.concat_tables(pieces).combine_chunks()
    return take_rows(table, sort_order(table))


class _Cursor:
    """A run and its chunk in memory. Cutting does not change the chunk's last row, so its position in `front` stays."""

    def __init__(self, run: Iterable[pa.Table | pa.RecordBatch], index: int, name: str) -> None:
        self.index = index
        self._name = name
        self._chunks = iter(run)
        self._chunk: pa.Table
        self._columns: SortColumns
        self._start = 0  #: the rows of the chunk before this one have been emitted
        self._rows_read = 0
        self._last: RowKey | None = None

    @property
    def border(self) -> tuple[RowKey, int]:
        """Return the last row in memory, and the run's index for ties. Requires that `read` has returned True."""
        assert self._last is not None
        return self._last, self.index

    def read(self) -> bool:
        """Read the next chunk that has rows; return False at the end of the run."""
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
        """Return all rows of the chunk that have not been emitted."""
        return self._chunk.slice(self._start)

    def cut(self, border: RowKey, *, with_equal: bool) -> pa.Table:
        """Return the remaining rows before the border, and with `with_equal` those equal to it, as emitted rows."""
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
                "and merging it would have wrong results. Check the disk, then start again; a job resumes from "
                f"its last checkpoint. run={self._name}, row={self._rows_read + row}"
            )
            raise CorruptStateError(msg)
