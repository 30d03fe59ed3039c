"""Spark's own checkpoint of a job: a local folder, and its copy in the object store of the job's checkpoints.

Spark writes to a local folder of this start, and the driver copies it to the store while the epoch runs. An
epoch is committed only when the store has the epoch's offsets. So a start on another machine repeats the epoch over the
same range, and Spark itself needs no access to the store. If the checkpoint folder is local, Spark writes into it
directly, and nothing is copied.

    fetch             at the start of a run: make the local folder equal to the store
    store_entries(n)  put sources/*, commits/n-1, then offsets/n into the store, each created only once;
                      delete from the store the entries that Spark has purged

Entries of Spark's logs never change. So an entry that has another content in the store was written by another start.
Checksum files (`.<name>.crc`) stay local, because Spark does not need them.

Invariants (tests/spark/test_folder.py):
  I1  after store_entries(n), a start that fetches has all entries that Spark had at that moment
  I2  if offsets/n is in the store, all entries that it refers to are too, also after a crash at any request
  I3  if two starts have different ranges for one epoch, at most one of them passes store_entries
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import unquote

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.source_log import LoggedFile, beginning, ends_of, extended, newest_files
from mixedmode.checkpoint.spark_log import source_log_ends
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, SourceLog
from mixedmode.config.globs import has_magic
from mixedmode.errors import CorruptStateError, FencedError, RetryableError


@dataclass(frozen=True, slots=True)
class NewInput:
    """The new files of an epoch, {number of a source with a log of files: its files}, and all logs with them added."""

    files: Mapping[int, tuple[LoggedFile, ...]]
    logs: tuple[SourceLog, ...]


class SparkFolder:
    """The folder of Spark's checkpoint. As a context manager, it removes a temporary local folder at the end."""

    def __init__(
        self, log: CheckpointLog, generation: Generation, *, reads_once: Callable[[str], bool] = lambda _: False
    ) -> None:
        """`generation` is this start of the job; it stores nothing after a newer start exists.

        reads_once: returns whether the job reads the file of a path once, although Spark takes it for a pattern.
        """
        self._reads_once = reads_once
        self._seen: dict[int, int] = {}  # {number of a source: its newest entry that was checked}
        self._log = log
        self._generation = generation
        self._opened = ExitStack()
        self._scratch: Path | None = None
        root = log.store.local_root
        if root is None:
            root = self._scratch = self._opened.enter_context(temporary_folder("spark-"))
        #: for Spark's option `checkpointLocation`; without the scheme, it would be a path of the cluster's file system
        self.location = f"file://{root}/{paths.SPARK}"
        self._local = ObjectStore(root)
        self._stored: set[str] = set()  # entries in the store; the folder has them too, unless Spark purged them

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._opened.close()

    def offsets(self, epoch: Epoch) -> bytes | None:
        """Return Spark's entry of the offsets of an epoch; None if there is none."""
        return self._local.get(paths.spark_offsets_path(epoch))

    def new_input(self, before: Sequence[SourceLog], offsets: str, line_sources: Sequence[int]) -> NewInput:
        """Return the files that an epoch reads, by source, and the source logs that its manifest gets.

        before: the logs in the previous manifest. offsets: Spark's offset entry of the epoch. line_sources: for each of
        its lines, the number of the source. Raise CorruptStateError if an entry cannot be read.
        """
        known = {log.source: log for log in before}
        ends = source_log_ends(offsets, line_sources)
        files, logs = {}, dict(known)
        for source, end in ends.items():
            numbers = range(ends_of(before).get(source, -1) + 1, end + 1)
            files[source] = tuple(file for number in numbers for file in self._new_files(source, number))
            logs[source] = extended(known.get(source), source, end, files[source])
        for source in set(line_sources) - logs.keys():
            entry = self._local.get(paths.spark_source_path(source, 0))
            if entry is not None:
                logs[source] = beginning(source, entry)
        return NewInput(files, tuple(logs[source] for source in sorted(logs)))

    def source_folder(self, source: int) -> Path:
        """Return Spark's local folder of a source."""
        return Path(self.location.removeprefix("file://")) / "sources" / str(source)

    def first_source_entry(self, source: int) -> bytes | None:
        """Return the first entry of a source: some sources note there, once, the offsets where they began."""
        return self._local.get(paths.spark_source_path(source, 0))

    def _new_files(self, source: int, number: int) -> tuple[LoggedFile, ...]:
        """Return the files that an entry of a source's log adds. Raise CorruptStateError if it cannot be read."""
        for is_compact in (False, True):
            path = paths.spark_source_path(source, number, is_compact=is_compact)
            data = self._local.get(path)
            if data is not None:
                try:
                    return newest_files(data, number, is_compact=is_compact)
                except ValueError as error:
                    raise self._damaged_entry(path) from error
        raise self._damaged_entry(paths.spark_source_path(source, number))

    def _damaged_entry(self, path: str) -> CorruptStateError:
        return CorruptStateError(
            "an entry of Spark's log, which names the files of this epoch, is missing or cannot be read, and nothing "
            "of the epoch was committed. Start the job again: it removes what is damaged, and Spark plans "
            "the epoch anew. "
            f"file={self._log.store.url}/{path}"
        )

    def fetch(self) -> None:
        """Make the local folder equal to the store. Called before the first query, after any rollback of the store."""
        if self._scratch is not None:
            self._fetch_all(self._scratch)
        self._seen = self._newest_entries()

    def _fetch_all(self, scratch: Path) -> None:
        shutil.rmtree(scratch / paths.SPARK, ignore_errors=True)
        self._stored = _entries(self._log.store)
        self._log.store.at_once(self._fetch, self._stored)

    def store_entries(self, epoch: Epoch) -> None:
        """Copy new entries of Spark to the store. Called before the epoch is committed; may be repeated.

        Raise FencedError if a newer start of the job exists, or if another start has stored another range.
        """
        if self._scratch is None:
            return
        # this also keeps an older start, after a long pause, from adding to a log that a newer start has rolled back
        self._log.check_newest(epoch, own=self._generation)
        present = _entries(self._local)
        new = present - self._stored
        offsets = {path for path in new if _is_offsets(path)}
        for paths_at_once in (new - offsets, offsets):  # offsets last: they refer to the other entries
            self._log.store.at_once(self._store, paths_at_once)
        self._stored |= present
        purged = self._stored - present
        self._log.store.delete(sorted(purged))
        self._stored -= purged

    def _newest_entries(self) -> dict[int, int]:
        files = [paths.parse_spark_path(path) for path, _ in self._local.list(paths.SPARK)]
        entries = sorted((one.source, one.number) for one in files if one and one.source is not None)
        return dict(entries)

    def check_read_once(self) -> None:
        """Raise RetryableError if Spark would read files of the new entries several times; the next start avoids that.

        Called before an epoch runs. Spark takes a path with brackets, braces, `*`, `?` or a backslash for a pattern,
        and then reads the other files of the epoch twice.
        """
        for source, number in self._newest_entries().items():
            if number <= self._seen.get(source, -1):
                continue
            found = self._files_of(source, number)
            wrong = [path for path in found if has_magic(path) and not self._reads_once(path.removeprefix("file://"))]
            if len(found) > 1 and wrong:
                msg = (
                    "an input file has a path that Spark takes for a pattern, as it has one of []{}*?\\ in it, and "
                    "Spark would read the other files of this epoch twice; nothing was committed. Start the job again: "
                    "it then reads each file once. In an object store, that takes other names of the files, and a new "
                    f"execution.checkpointing.dir. file={wrong[0]}"
                )
                raise RetryableError(msg)
            self._seen[source] = number

    def _files_of(self, source: int, number: int) -> list[str]:
        """Return the URLs, without escapes, of the files that an entry of a source adds; none if it reads no files."""
        try:
            return [unquote(file.url) for file in self._new_files(source, number)]
        except CorruptStateError:  # another kind of source has other entries; damage is found when the epoch is read
            return []

    def _fetch(self, path: str) -> None:
        data = self._log.store.get(path)
        if data is not None:  # None: purged since the listing
            self._local.put(path, data)

    def _store(self, path: str) -> None:
        data = self._local.get(path)
        if data is None or self._log.store.put_new(path, data) or self._log.store.get(path) == data:
            return
        msg = (
            "another start of the job has recorded something else for this epoch, so this one stops and commits "
            "nothing. Nothing is lost: the other one goes on. If none is running any more, start the job again; it "
            "goes on with "
            f"what was recorded. file={self._log.store.url}/{path}"
        )
        raise FencedError(msg)


def _entries(store: ObjectStore) -> set[str]:
    """Return the entries of Spark's log, without checksums and files that are being written."""
    return {path for path, _ in store.list(paths.SPARK) if _is_entry(path)}


def _is_entry(path: str) -> bool:
    file = paths.parse_spark_path(path)
    return path == paths.SPARK_METADATA or (file is not None and not file.is_checksum)


def _is_offsets(path: str) -> bool:
    file = paths.parse_spark_path(path)
    return file is not None and file.log == "offsets"
