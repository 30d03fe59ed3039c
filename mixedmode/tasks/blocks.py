"""Encodes tables as blocks of bytes, which Spark moves between the tasks of an epoch.

A block is an Arrow IPC stream in which int64 columns are as narrow as their values allow. The cost of moving a block
grows with its bytes, on both sides of Spark. Most partial aggregates are counters and small sums, which then take one
or two bytes instead of eight.

Invariants (tests/tasks/test_blocks.py):
  I1  the decoded blocks of a table have its rows in the same order, with its schema, NULLs included
  I2  no block is much larger than BLOCK_BYTES, unless it has only one row
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BLOCK_BYTES = 512 * 1024

_NARROWER = (pa.int8(), pa.int16(), pa.int32())
_IS_NARROWED = {b"mixedmode.was": b"int64"}  # metadata of a narrowed field


def blocks_of(table: pa.Table) -> Iterator[pa.Buffer]:
    """Yield blocks of about BLOCK_BYTES; none for an empty table. Metadata of int64 fields is lost."""
    if table.num_rows == 0:
        return
    table = _narrowed(table)
    rows = max(1, table.num_rows * BLOCK_BYTES // max(table.nbytes, 1))
    for start in range(0, table.num_rows, rows):
        piece = table.slice(start, rows)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, piece.schema) as writer:
            writer.write_table(piece)
        yield sink.getvalue()


def cell_of(block: pa.Buffer | bytes) -> pa.BinaryArray:
    """Return the block as a binary column of one row, without a copy."""
    ends = pa.py_buffer(np.array([0, len(block)], np.int32))
    return pa.BinaryArray.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(block)])


def decode_block(block: pa.Buffer | bytes) -> pa.Table:
    """Return the rows of one block, with int64 columns restored."""
    table = pa.ipc.open_stream(block).read_all()
    for position, field in enumerate(table.schema):
        if field.metadata == _IS_NARROWED:
            wide = pa.field(field.name, pa.int64(), field.nullable)
            table = table.set_column(position, wide, table.column(position).cast(pa.int64()))
    return table


def _narrowed(table: pa.Table) -> pa.Table:
    for position, field in enumerate(table.schema):
        if field.type == pa.int64():
            column = table.column(position)
            narrow = _narrowest(column)
            if narrow is not None:
                marked = pa.field(field.name, narrow, field.nullable, _IS_NARROWED)
                table = table.set_column(position, marked, column.cast(narrow))
    return table


def _narrowest(column: pa.ChunkedArray) -> pa.DataType | None:
    """Return the narrowest type that holds all values of an int64 column; None if only int64 does.

    For example, int8 holds -128 to 127, so a column with 128 becomes int16.
    """
    bounds = pc.min_max(column)
    least, most = bounds["min"].as_py() or 0, bounds["max"].as_py() or 0  # 0 if all are NULL
    for narrow in _NARROWER:
        limit = 1 << narrow.bit_width - 1
        if -limit <= least and most < limit:
            return narrow
    return None
