"""Lines of JSON that map tasks read on Arrow, where Spark's reader returns the same rows (tasks/direct.py).

Arrow's parser refuses much that Spark's reader takes: a number in a column of texts, single quotes, comments, arrays of
records, halves of a surrogate pair, a field twice. Then the whole file is doubtful, and Spark reads it. The bytes are
searched for all that Arrow takes and Spark refuses or reads as something else.

Invariants (tests/sources/test_lines_on_arrow.py):
  I1  a block that is not doubtful has the rows that Spark's reader returns in the mode FAILFAST
  I2  a block that is not doubtful is plain (json_scan.py), so Spark's reader would not ignore a part of it
"""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from mixedmode.connectors.files.file_blocks import is_utf8
from mixedmode.connectors.files.json_scan import ends_of_closed_lines
from mixedmode.connectors.files.strict_values import DoubtfulTextError, as_times, check_doubles, is_time

__all__ = ["read_block"]

#: not JSON, but both parsers take some of them; the second one also finds texts that end so
_NO_NUMBERS = (b"NaN", b"Inf")
_NO_NUMBER = re.compile(rb"(NaN|Inf(inity)?)\s*[,}\]]")
#: Spark's parser refuses deeper objects, longer numbers and longer names
_PLAIN_BYTES, _LINE_BYTES_MAX, _DEPTH_MAX = 900, 50_000, 500
_LONG_NUMBER = re.compile(rb"[0-9]{300}")


def read_block(block: bytes, fields: Sequence[pa.Field]) -> pa.RecordBatch:
    """Return the records in a block of whole lines. Raise DoubtfulTextError if Spark might read another record.

    fields: all columns of the source, of EXACT_TYPES, as Spark's reader also checks those that nobody reads.
    """
    block = _with_one_line_end(block)
    ends = ends_of_closed_lines(block)
    if ends is None:
        block = _without_blanks(block)
        if not block:
            return _no_rows(fields)
        ends = ends_of_closed_lines(block)
    if ends is None or b"\0" in block or not is_utf8(block):
        msg = "lines that are not one object each"
        raise DoubtfulTextError(msg)
    _check_limits(block, ends)
    found = _parsed(block, fields)
    if found.num_rows != len(ends):
        msg = "several objects in a line"
        raise DoubtfulTextError(msg)
    return pa.record_batch(
        [_converted(found.column(number), field) for number, field in enumerate(fields)], schema=pa.schema(fields)
    )


def _parsed(block: bytes, fields: Sequence[pa.Field]) -> pa.Table:
    """Return the columns of a block. Raise DoubtfulTextError for what is not JSON, though pyarrow may take it.

    Without fields that nobody declared, a number that is none can only be in a column of doubles. Else the text is
    searched, which takes a while.
    """
    try:
        found = _read(block, fields, unexpected="error")
    except pa.ArrowException:
        found = None
    if (found is None or not _is_finite(found)) and _has_no_number(block):
        msg = "a number that is not JSON"
        raise DoubtfulTextError(msg)
    try:
        return _read(block, fields, unexpected="ignore") if found is None else found
    except pa.ArrowException as error:
        raise DoubtfulTextError(str(error)) from error


def _read(block: bytes, fields: Sequence[pa.Field], *, unexpected: Literal["error", "ignore"]) -> pa.Table:
    schema = pa.schema([pa.field(field.name, pa.string() if is_time(field.type) else field.type) for field in fields])
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
    read = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
    return pj.read_json(pa.BufferReader(block), parse_options=parse, read_options=read).select(schema.names)


def _is_finite(found: pa.Table) -> bool:
    doubles = [column for column in found.columns if pa.types.is_floating(column.type)]
    return all(pc.all(pc.is_finite(column)).as_py() is not False for column in doubles)


def _converted(column: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    array = column.combine_chunks()
    if is_time(field.type):
        return as_times(array, field.type)
    if pa.types.is_floating(field.type):
        check_doubles(array)
    return array


def _with_one_line_end(block: bytes) -> bytes:
    return block.replace(b"\r\n", b"\n") if b"\r" in block else block


def _without_blanks(block: bytes) -> bytes:
    """Return the lines that have more than blanks, without blanks around them."""
    lines = (line.strip(b" \t") for line in block.split(b"\n"))
    return b"\n".join(line for line in lines if line)


def _has_no_number(block: bytes) -> bool:
    return any(word in block for word in _NO_NUMBERS) and _NO_NUMBER.search(block) is not None


def _check_limits(block: bytes, ends: npt.NDArray[np.intp]) -> None:
    """Raise DoubtfulTextError if a line may exceed the limits of Spark's parser.

    They are 1000 levels, 1000 digits of a number, and 50,000 characters of a name.
    """
    longest = int(np.diff(ends, prepend=-1).max())
    if longest <= _PLAIN_BYTES:
        return
    found = np.frombuffer(block, np.uint8)
    opened = np.flatnonzero((found == b"{"[0]) | (found == b"["[0]))
    depth = int(np.bincount(np.searchsorted(ends, opened)).max())
    if longest > _LINE_BYTES_MAX or depth > _DEPTH_MAX or _LONG_NUMBER.search(block) is not None:
        msg = "a long line"
        raise DoubtfulTextError(msg)


def _no_rows(fields: Sequence[pa.Field]) -> pa.RecordBatch:
    return pa.record_batch([pa.nulls(0, field.type) for field in fields], schema=pa.schema(fields))
