"""The bytes of local text files in blocks of whole lines, for scans of what Spark's readers do not report."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

__all__ = ["FilePart", "blocks_of_lines", "is_compressed", "is_left_to_spark", "is_utf8", "not_utf8", "parts_of"]

_BLOCK_BYTES = 512 * 1024  # larger blocks leave the caches of a core, and take longer
_PART_BYTES = 64 * 1024 * 1024  # the work of one task
_MARK = b"\xef\xbb\xbf"  # the byte order mark, which Spark removes at the beginning of a file
#: by extension, in lower case: Arrow's name of a compression that both read
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
#: extensions of files that Spark decompresses in a form that Arrow does not read
_OF_SPARK = (".lz4", ".snappy", ".deflate", ".zip", ".tar", ".tgz")
_LINE_END = b"\n"[0]


@dataclass(frozen=True, slots=True)
class FilePart:
    """The lines of a file that begin in [begin, end); end: None for a compressed file, which is read as one part."""

    path: str
    begin: int
    end: int | None


def is_compressed(path: str) -> bool:
    """Return whether a file is compressed in a form that Arrow reads, by its extension, as Spark does."""
    return _compression(path) is not None


def is_left_to_spark(path: str) -> bool:
    """Return whether a file is compressed in a form that only Spark reads."""
    return path.lower().endswith(_OF_SPARK)


def parts_of(path: str, length: int) -> Iterator[FilePart]:
    """Yield the parts of a file of `length` bytes."""
    if is_compressed(path) or is_left_to_spark(path):
        yield FilePart(path, 0, None)
        return
    for begin in range(0, length, _PART_BYTES):
        yield FilePart(path, begin, min(begin + _PART_BYTES, length))


def not_utf8(parts: Sequence[FilePart]) -> Iterator[str]:
    """Yield the path of each part that has bytes that are no UTF-8. A part that cannot be read is left to Spark."""
    for part in parts:
        try:
            is_text = is_left_to_spark(part.path) or all(map(is_utf8, blocks_of_lines(part)))
        except (OSError, EOFError, pa.ArrowException):
            is_text = True
        if not is_text:
            yield part.path


def is_utf8(block: bytes) -> bool:
    """Return whether bytes are UTF-8.  block: whole lines."""
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def blocks_of_lines(part: FilePart, block_bytes: int = _BLOCK_BYTES) -> Iterator[bytes]:
    """Yield the lines of a part in blocks of whole lines, of about `block_bytes`."""
    if part.end is None:
        with pa.input_stream(part.path, compression=_compression(part.path)) as stream:
            yield from _whole_lines(stream, None, block_bytes, is_first=True)
        return
    with open(part.path, "rb", buffering=0) as file:  # noqa: PTH123 - a text
        begin, end = _line_start(file, part.begin), _line_start(file, part.end)
        file.seek(begin)
        yield from _whole_lines(file, end - begin, block_bytes, is_first=begin == 0)


def _compression(path: str) -> str | None:
    return next((name for extension, name in _COMPRESSIONS.items() if path.lower().endswith(extension)), None)


def _whole_lines(
    stream: io.RawIOBase | pa.NativeFile, length: int | None, block_bytes: int, *, is_first: bool
) -> Iterator[bytes]:
    """Yield blocks.  is_first: the stream is at the beginning of its file."""
    rest = b""
    while data := stream.read(block_bytes if length is None else min(block_bytes, length)):
        length = None if length is None else length - len(data)
        cut = data.rfind(b"\n") + 1
        if cut == 0:
            rest += data
            continue
        block = rest + data[:cut]
        yield block.removeprefix(_MARK) if is_first else block
        rest, is_first = data[cut:], False
    if rest:
        yield rest.removeprefix(_MARK) if is_first else rest


def _line_start(file: io.RawIOBase, at: int) -> int:
    """Return where the first line begins that begins at `at` or later."""
    if at == 0:
        return 0
    file.seek(at - 1)
    position = at - 1
    while data := file.read(_BLOCK_BYTES):
        found = data.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(data)
    return position
