"""Spark's log of a file source: the files that its entries name, and their checksum, which the manifest holds.

An entry is `v1`, and then a line per file; a compact entry repeats the lines of all entries before it:

    {"path":"file:///in/a%20b.json","timestamp":1600000000000,"batchId":0}

Spark merges entries into compact ones and later deletes the merged entries. So the bytes of the log change while its
content stays the same. The checksum therefore covers the content: it is the sum of one hash per file, modulo 2**64. An
epoch adds the hashes of its own files to the sum of the previous epoch, so a small epoch reads only one entry.

A source without a log of files (Kafka, rate) may have an entry 0 with its initial offsets. Its checksum covers the
bytes of that entry.

Invariants (tests/checkpoint/test_source_log.py):
  I1  the checksum depends on the files and the entry that first names each, not on how entries were merged
  I2  any flipped bit of an entry that names a file changes the checksum, or makes the entry unreadable
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import xxhash

from mixedmode.checkpoint.checksum import checksum_of
from mixedmode.checkpoint.types import SourceLog

__all__ = ["LoggedFile", "beginning", "ends_of", "extended", "files_named", "log_of", "newest_files"]

_VERSION = b"v1"
_FIELDS = {"path": str, "timestamp": int, "batchId": int}
_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A file in a source's log: its URL, its modification time, and the number of the entry that first names it."""

    url: str
    timestamp_ms: int
    number: int


def files_named(entry: bytes) -> tuple[LoggedFile, ...]:
    """Return all files of an entry, those of earlier entries included.  Raises ValueError if it is no such entry."""
    return tuple(map(_file, _lines(entry)))


def newest_files(entry: bytes, number: int, *, is_compact: bool) -> tuple[LoggedFile, ...]:
    """Return the files that entry `number` names first.  Raises ValueError if it is no such entry.

    Spark writes the newest files of a compact entry last, so the lines are read from the end.
    """
    found: list[LoggedFile] = []
    for line in reversed(_lines(entry)):
        file = _file(line)
        if file.number != number:
            if file.number > number or not is_compact:
                msg = f"a file of another entry, number={number}, found={file.number}"
                raise ValueError(msg)
            break
        found.append(file)
    return tuple(reversed(found))


def extended(before: SourceLog | None, source: int, end: int, files: Sequence[LoggedFile]) -> SourceLog:
    """Return the record of a source's log up to the entry `end`, which has `files` beyond what `before` covers."""
    total = 0 if before is None else int(before.checksum, 16)
    total = (total + sum(map(_hash, files))) % _MODULUS
    return SourceLog(source, end, len(files) + (0 if before is None else before.files), f"{total:016x}")


def beginning(source: int, entry: bytes) -> SourceLog:
    """Return the record of a source without a log of files, whose entry 0 holds its initial offsets."""
    return SourceLog(source, None, 0, checksum_of([entry]))


def log_of(entries: Iterable[bytes], source: int, end: int) -> SourceLog:
    """Return the record of a log from the entries that Spark would read.  Raises ValueError if one cannot be read."""
    return extended(None, source, end, [file for entry in entries for file in files_named(entry)])


def ends_of(logs: Iterable[SourceLog]) -> Mapping[int, int]:
    """Return {number of a source: its newest entry} of all sources that have a log of files."""
    return {log.source: log.end for log in logs if log.end is not None}


def _lines(entry: bytes) -> list[bytes]:
    version, *lines = entry.split(b"\n")
    if version != _VERSION:
        msg = f"not the version of an entry, version={version[:8]!r}"
        raise ValueError(msg)
    return [line for line in lines if line]


def _file(line: bytes) -> LoggedFile:
    found = json.loads(line)
    if not isinstance(found, dict) or found.keys() != _FIELDS.keys():
        msg = "not the fields of a file"
        raise ValueError(msg)
    if [type(found[name]) for name in _FIELDS] != list(_FIELDS.values()):
        msg = "not the types of a file's fields"
        raise ValueError(msg)
    return LoggedFile(found["path"], found["timestamp"], found["batchId"])


def _hash(file: LoggedFile) -> int:
    text = f"{file.number} {file.timestamp_ms} {file.url}"
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))
