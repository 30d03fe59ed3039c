"""Notes of running tasks on their progress. The driver reads them while it waits for the tasks.

Spark tells when a task has ended, and nothing about the progress of a running one. A backlog may have as few tasks as
cores, so all of them end at about the same time. Each task therefore keeps a small file, which it overwrites about four
times a second, and at the end of each part of its work. This works where driver and tasks are on one machine. Elsewhere
there is no folder, and a task notes nothing. Notes only inform: a task that cannot write them goes on without.

    file       <epoch>.<kind>.<number of the task>.<step, quoted>
    content    ten doubles, little-endian: the fields of TaskNote
"""

import os
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from threading import Lock
from typing import Literal
from urllib.parse import quote, unquote

import pyarrow as pa

from mixedmode.checkpoint.types import Epoch
from mixedmode.tasks.numbers import numbers_from_spark

__all__ = ["SILENT", "Note", "NoteKind", "Notes", "TaskNote", "notes_in"]

NoteKind = Literal["map", "subtask"]
_INTERVAL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class TaskNote:
    """The progress of one task.

    `bytes_total`, `bytes_read`: of the input files that a map task reads itself. `records`, `records_folded`,
    `records_sent`: of the input, that a map task has read; made rows of; sent the rows of. `rows`: that it made, or
    that a subtask has received. `is_sorted`: 1 when a subtask has its first sorted rows. `processed`: the part of its
    key groups that it has processed. `bytes_spilled`: of rows that it has written to the local disk to sort them.
    `is_stored`: 1 when it stores its state and output.
    """

    bytes_total: float = 0.0
    bytes_read: float = 0.0
    records: float = 0.0
    records_folded: float = 0.0
    records_sent: float = 0.0
    rows: float = 0.0
    is_sorted: float = 0.0
    processed: float = 0.0
    bytes_spilled: float = 0.0
    is_stored: float = 0.0


_FORMAT = struct.Struct(f"<{len(fields(TaskNote))}d")


class Note:
    """The note of one task, which changes while the task runs. Without a file, it is kept and never written.

    Several threads of the task may add to it.
    """

    def __init__(self, file: Path | None, bytes_total: float = 0.0) -> None:
        self._file = file
        self._values = {field.name: 0.0 for field in fields(TaskNote)} | {"bytes_total": bytes_total}
        self._next = 0.0  # when to write again
        self._lock = Lock()

    def read(self, count: float) -> None:
        """Add bytes of input files that the task has read."""
        self._add(bytes_read=count)

    def counted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the input, and count their records."""
        for batch in batches:
            self._add(records=batch.num_rows)
            yield batch
            del batch

    def folded(self, records: int, rows: int) -> None:
        """Add records of which the map task has made rows, and these rows. Few calls, each for seconds of work."""
        self._add(records_folded=records, rows=rows)
        self._write()

    def sent(self, records: int) -> None:
        """Add records whose rows the map task has sent. Few calls, too."""
        self._add(records_sent=records)
        self._write()

    def unfolded(self, records: int) -> None:
        """Add records that only show the progress of a source, so that nothing is made of them."""
        self._add(records_folded=records, records_sent=records)

    def received(self, rows: int, *, bytes_spilled: int) -> None:
        """Add rows that the subtask has received.  bytes_spilled: so far, of all rows."""
        self._set(bytes_spilled=bytes_spilled)
        self._add(rows=rows)

    def processed(self, share: float) -> None:
        """Set the part of its key groups that the subtask has processed. Rows are sorted before this is called."""
        self._set(processed=share, is_sorted=1.0)

    def stores(self) -> None:
        """Tell that the subtask has processed everything, and stores its state and output."""
        self._set(processed=1.0, is_sorted=1.0, is_stored=1.0)
        self._write()

    def _add(self, **counts: float) -> None:
        with self._lock:
            self._set(**{name: self._values[name] + count for name, count in counts.items()})

    def _set(self, **values: float) -> None:
        self._values |= values
        if time.monotonic() >= self._next:
            self._write()

    def _write(self) -> None:
        if self._file is None:
            return
        self._next = time.monotonic() + _INTERVAL_SECONDS
        try:
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.pwrite(descriptor, _FORMAT.pack(*self._values.values()), 0)
            finally:
                os.close(descriptor)
        except OSError:
            self._file = None  # the folder is gone, or the disk is full: the task needs no notes


@dataclass(frozen=True, slots=True)
class Notes:
    """The place of the notes of an epoch's tasks. `folder` is None if they keep none."""

    folder: Path | None = None
    epoch: Epoch = Epoch(0)  # noqa: RUF009 - a number

    def of_task(self, kind: NoteKind, step: str, *, bytes_total: float = 0.0) -> Note:
        """Return the note of the Spark task that calls this function."""
        if self.folder is None:
            return Note(None)
        number = numbers_from_spark().partition
        return Note(self.folder / f"{self.epoch}.{kind}.{number}.{quote(step, safe='')[:200]}", bytes_total)


SILENT = Notes()


def notes_in(folder: Path, epoch: Epoch) -> Iterator[tuple[NoteKind, str, TaskNote]]:
    """Yield kind, step and content of each note of an epoch. A file that is not a whole note is skipped."""
    with suppress(OSError):
        for file in sorted(folder.glob(f"{epoch}.*")):
            with suppress(OSError, struct.error, ValueError):
                _, kind, _, step = file.name.split(".", maxsplit=3)
                note = TaskNote(*_FORMAT.unpack(file.read_bytes()))
                if kind in ("map", "subtask"):
                    yield kind, unquote(step), note  # type: ignore[misc]  # mypy does not narrow a text
