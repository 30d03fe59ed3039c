"""Rows that a sorter has collected in memory, and their sort.

Rows come in small tables. The columns of a table that was received share one memory, which is free when the last of
them is. So while all tables are joined for the sort, all rows are there twice. Where this is too much, tables are
joined to pieces before, in which each column has memory of its own. Then joining the pieces, one column after the
other, takes the largest column besides, and no more. It costs a copy of all rows.

Invariants (tests/sort/test_buffer.py):
  I1  the blocks are the stable sort of all rows that were appended
  I2  sorting pieces takes about the memory that `peak_bytes` returns, if Arrow's pool gives memory back, as in workers
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from mixedmode.sort.columns import sort_columns
from mixedmode.sort.order import find_unsorted, sort_order, take_rows
from mixedmode.sort.tables import drained, rows_within, slices

__all__ = ["Buffer"]

_SORT_BYTES_PER_ROW = 48  # six arrays of 8 bytes: key bounds, rows, packed words, one word, row numbers, the order
_SLICE_BYTES_MIN = 4 * 2**10  # what a smaller slice keeps of another table is not worth a copy


class Buffer:
    """Rows in order of arrival. `piece_bytes`: the size of pieces, if there are any."""

    def __init__(self, piece_bytes: int) -> None:
        self._piece_bytes = piece_bytes
        self.has_pieces = False
        self.bytes = 0
        self.rows = 0
        self._pieces = list[pa.Table]()
        self._column_bytes = list[int]()  #: of each column of the pieces
        self._apart = list[pa.Table]()  #: later tables
        self._apart_bytes = 0

    def append(self, table: pa.Table) -> None:
        """Hold these rows; copy them if they are a slice of a larger table, which would otherwise stay in memory."""
        if table.get_total_buffer_size() > table.nbytes * 5 // 4 + _SLICE_BYTES_MIN:
            table = take_rows(table, np.arange(table.num_rows))
        self._apart.append(table)
        self._apart_bytes += table.nbytes
        self.bytes += table.nbytes
        self.rows += table.num_rows
        if self.has_pieces and self._apart_bytes >= self._piece_bytes:
            self._join(self._apart)

    def join_to_pieces(self) -> None:
        """Join the tables to pieces, and all that come."""
        self.has_pieces = True
        tables, some, some_bytes = self._apart, list[pa.Table](), 0
        self._apart = []
        while tables:
            some.append(tables.pop(0))
            some_bytes += some[-1].nbytes
            if some_bytes >= self._piece_bytes or not tables:
                self._join(some)
                some_bytes = 0

    def peak_bytes(self, more: pa.Table) -> int:
        """Return the peak memory of holding and sorting the rows, and those of `more`, in bytes.

        It is the larger of two phases: all rows, one column of the pieces, and the tables apart a second time, while
        they are joined; or all rows with the arrays of the sort.
        """
        more_bytes = int(more.nbytes)
        joining = max(self._column_bytes, default=0) + self._apart_bytes + more_bytes
        sorting = (self.rows + int(more.num_rows)) * _SORT_BYTES_PER_ROW
        return self.bytes + more_bytes + max(joining, sorting)

    def drain(self) -> Iterator[pa.Table]:
        """Yield the tables in order of arrival, and drop each of them from the buffer."""
        tables = self._emptied()
        while tables:
            yield tables.pop(0)

    def sorted_blocks(self, block_bytes: int) -> Iterator[pa.Table]:
        """Yield all rows in order, in tables of about `block_bytes`. The buffer is empty from the first table on.

        The rows are copied block by block, so that no second copy of all of them exists.
        """
        if not self.rows:
            return
        has_pieces = self.has_pieces
        table = drained(self._emptied(), releases=has_pieces)
        if find_unsorted(sort_columns(table)) is None:
            yield from slices(table, block_bytes)
            return
        order = sort_order(table)
        rows = rows_within(table, block_bytes)
        for start in range(0, len(order), rows):
            yield take_rows(table, order[start : start + rows])

    def _join(self, tables: list[pa.Table]) -> None:
        """Make these tables a piece. The list is empty afterwards."""
        piece = drained(tables)
        self._pieces.append(piece)
        self._apart_bytes = 0
        before = self._column_bytes or [0] * piece.num_columns
        self._column_bytes = [total + column.nbytes for total, column in zip(before, piece.columns, strict=True)]

    def _emptied(self) -> list[pa.Table]:
        """Return all tables. The buffer is empty afterwards, as at its beginning."""
        tables = [*self._pieces, *self._apart]
        self.has_pieces = False
        self.bytes = self.rows = self._apart_bytes = 0
        self._pieces, self._column_bytes, self._apart = [], [], []
        return tables
