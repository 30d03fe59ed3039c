"""Scans the bytes of JSON files for lines of which Spark's JSON reader would ignore a part.

Spark's reader returns the first value of a line and ignores the rest. It is several times faster than any parser that
could report the rest (json_files.py). So Spark reads the records, and this module scans the same bytes:

    flat      each line begins with {, and its only } is its last byte: counts over a block, without a loop
    regular   each line begins with { and ends with }, and a strict parser finds as many objects in a block as lines
    whole     other lines: the parser accepts the line as one object, or one array of objects
    doubtful  everything else; another look decides (json_files.py)

A flat line that Spark can read is exactly one object: its first value is an object, and ends at the only }. A regular
line is exactly one object: between two of them are }, a line end and {, which JSON does not have within a value. So no
object is in two lines, and each line has at least one.

Invariants (tests/sources/test_json_scan.py):
  I1  a line that Spark can read, and that has text after its first value, is doubtful
  I2  a block that is not UTF-8, or has a zero byte (which begins UTF-16 and UTF-32), is doubtful
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.connectors.files.file_blocks import FilePart, blocks_of_lines, is_left_to_spark, is_utf8

__all__ = ["doubtful", "ends_of_closed_lines", "is_plain"]

_LINE_END, _OPEN, _CLOSE = b"\n{}"


class _AnyObject(msgspec.Struct):
    """An object whose fields are parsed and ignored."""


_LINES = msgspec.json.Decoder(_AnyObject)
_ONE_LINE = msgspec.json.Decoder(_AnyObject | list[_AnyObject])


def doubtful(parts: Sequence[FilePart]) -> Iterator[str]:
    """Yield the path of each part that has a doubtful line, or that cannot be read."""
    for part in parts:
        try:
            is_doubtful = is_left_to_spark(part.path) or not all(map(is_plain, blocks_of_lines(part)))
        except (OSError, EOFError, pa.ArrowException):  # the second look says what is wrong with the file
            is_doubtful = True
        if is_doubtful:
            yield part.path


def is_plain(block: bytes) -> bool:
    """Return whether no line of a block is doubtful.  block: whole lines; the last one may lack its end."""
    if b"\0" in block or not is_utf8(block):
        return False
    ends = ends_of_closed_lines(block)
    if ends is not None and (len(ends) == _count(block, _CLOSE) or len(ends) == _objects(block)):
        return True
    return all(map(_is_whole, block.splitlines()))


def ends_of_closed_lines(block: bytes) -> npt.NDArray[np.intp] | None:
    """Return where each line ends if every line begins with { and ends with }, else None."""
    if not block.startswith(b"{") or b"\r" in block:
        return None
    found = np.frombuffer(block if block.endswith(b"\n") else block + b"\n", np.uint8)
    ends = np.flatnonzero(found == _LINE_END)
    are_closed = (found[ends - 1] == _CLOSE).all() and (found[ends[:-1] + 1] == _OPEN).all()
    return ends if are_closed else None


def _count(block: bytes, byte: int) -> int:
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == byte))


def _objects(block: bytes) -> int:
    """Return the number of objects in a block; 0 if there is anything else in it."""
    try:
        return len(_LINES.decode_lines(block))
    except (msgspec.MsgspecError, RecursionError):
        return 0


def _is_whole(line: bytes) -> bool:
    """Return whether a line is blank, one object, or one array of objects; called for unusual lines only."""
    if not line.strip(b" \t"):
        return True
    try:
        _ONE_LINE.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True
