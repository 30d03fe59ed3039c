"""Tables as blocks of bytes: what Spark moves between the tasks of an epoch.

The one idea: a block is an Arrow IPC stream in which columns of int64 are as narrow as their values allow, since what
moving a block costs goes by its bytes, once on each side of Spark. Counters and small sums, which most partial
aggregates are, take a byte or two in place of eight.

Invariants (tests/tasks/test_blocks.py):
  I1  the blocks of a table, decoded, are its rows in their order, of its schema, NULLs included
  I2  no block is much larger than BLOCK_BYTES, unless it is of one row
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BLOCK_BYTES = 512 * 1024

_NARROWER = (pa.int8(), pa.int16(), pa.int32())
_IS_NARROWED = {b"mixedmode.was": b"int64"}  # metadata of a narrowed field


def blocks_of(table: pa.Table) -> Iterator[pa.Buffer]:
    """Blocks of about BLOCK_BYTES each; none for an empty table. Metadata of fields of int64 is not kept."""
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
    """The block as a column of one row, without a copy."""
    ends = pa.py_buffer(np.array([0, len(block)], np.int32))
    return pa.BinaryArray.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(block)])


def decode_block(block: pa.Buffer | bytes) -> pa.Table:
    """The rows of one block."""
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
    """The first type that holds all values of a column of int64; None if there is no narrower one."""
    bounds = pc.min_max(column)
    least, most = bounds["min"].as_py() or 0, bounds["max"].as_py() or 0  # 0 if all are NULL
    for narrow in _NARROWER:
        limit = 1 << narrow.bit_width - 1
        if -limit <= least and most < limit:
            return narrow
    return None
