"""Offsets of Iceberg's stream, and the snapshots whose rows lie between two of them. Pure.

An offset names a snapshot, and how many of the files that this snapshot adds come before it:

    {"version":1,"snapshot_id":7,"position":2,"scan_all_files":false}

A snapshot is read as a whole, in the epoch that reaches its first file. So the limits of Iceberg's stream divide a
table between commits, and Iceberg itself can read what lies between two offsets (`start-snapshot-id`).

Invariants (tests/sinks/test_iceberg_offsets.py):
  I1  consecutive ranges read each snapshot once, wherever the limits of the stream lie
"""

import json
from dataclasses import dataclass

__all__ = ["NOTHING", "Offset", "Snapshot", "after", "before", "last_read", "offset_of"]

#: beyond the files of any snapshot, and a number that Iceberg can read
_ALL_FILES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of a table.  parent: also one that has expired; None of the table's first one."""

    number: int
    parent: int | None
    operation: str
    committed_ms: int


@dataclass(frozen=True, slots=True)
class Offset:
    """A place in a table's history.  files: the files of the snapshot that come before it, at most."""

    snapshot: int
    files: int

    def line(self) -> str:
        """Return the offset as Iceberg's stream writes and reads it."""
        said = {"version": 1, "snapshot_id": self.snapshot, "position": self.files, "scan_all_files": False}
        return json.dumps(said, separators=(",", ":"))


#: the offset that Iceberg's stream has where the table has no snapshot to begin with
NOTHING = Offset(-1, -1)


def offset_of(line: str) -> Offset | None:
    """Return the offset in a line of Spark's log; None if the line has none."""
    if line in {"", "-"}:
        return None
    said = json.loads(line)
    return Offset(said["snapshot_id"], said["position"])


def before(snapshot: Snapshot) -> Offset:
    """Return the offset before a snapshot. It differs from each one that the stream finds, as new input has to."""
    return Offset(snapshot.number, -1)


def after(snapshot: int) -> Offset:
    """Return an offset after a snapshot. It differs from each one that the stream finds, as new input has to."""
    return Offset(snapshot, _ALL_FILES)


def last_read(offset: Offset, snapshot: Snapshot | None) -> int | None:
    """Return the newest snapshot whose rows come before an offset; None if there is none.

    snapshot: that of the offset; only needed if the offset is before its files.
    """
    if offset.files > 0:
        return offset.snapshot
    assert snapshot is not None, offset
    return snapshot.parent
