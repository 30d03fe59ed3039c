"""Bytes for Arrow's readers, in memory that Arrow owns.

Arrow's threads may keep the input of a reader for a moment after the rows are returned. If that is memory of Python,
and Python is ending, they abort the process: https://github.com/apache/arrow/issues/34314.
"""

import pyarrow as pa


def reader_of(data: bytes) -> pa.BufferReader:
    """Return a reader of a copy of the bytes that needs no Python to be freed."""
    copy = pa.BufferOutputStream()
    copy.write(data)
    return pa.BufferReader(copy.getvalue())
