"""The files that a task stores: large ones in threads, while the task goes on.

A file is given to `Uploads` when it is opened. An object store gets the first parts of a large file while the task
writes the later ones, and a folder's disk gets its bytes. So much of the state of a large backlog is stored before all
of it is computed. A smaller file is stored when it is complete: in an object store several at once, in threads, so that
a small live epoch waits as long as one request takes; in a folder in the calling thread, since it is usually a link.

    upload = begin(file)  ...the task writes...  upload.end()  ...  upload.stored() -> bytes and checksum

Invariants (tests/checkpoint/test_uploads.py):
  I1  when `stored` returns, the object is durable, and equal to the local file
  I2  leaving the context gives up all files that have not ended, and waits for the threads: none outlives its task
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from mixedmode.checkpoint.checksum import file_checksum
from mixedmode.checkpoint.growing_file import GrowingFile
from mixedmode.checkpoint.store import ObjectStore

__all__ = ["Stored", "Upload", "Uploads"]

_AT_ONCE = 4  # each holds up to four parts of a file in memory, of 8 MiB
_FOLLOWED = 2  # of them: files that still grow, so that those that have ended do not wait for the end of these
_FOLLOWED_BYTES = 8 * 2**20  # the size from which on a growing file is followed
_LOOK_SECONDS = 0.1  # between two looks at the sizes


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored file: its size, and its checksum of checksum.py."""

    bytes: int
    checksum: str


class Upload:
    """One file on its way to the store."""

    def __init__(
        self, file: GrowingFile, put: Callable[[], Stored], pool: ThreadPoolExecutor, *, ends_in_pool: bool
    ) -> None:
        """`put` waits for the end of the file, and stores it.

        It runs in the pool while the file grows; for a file that has ended, too, if it `ends_in_pool`.
        """
        self._file, self._put, self._pool, self._ends_in_pool = file, put, pool, ends_in_pool
        self._stored: Future[Stored] | Stored | None = None
        self._lock = threading.Lock()  # the file may end while it is looked at

    @property
    def is_followed(self) -> bool:
        """Return whether the file is being stored while it grows."""
        return self._stored is not None and not self._file.has_ended

    def follow(self, *, at_least: int) -> None:
        """Begin to store the file while it grows, if it has so many bytes already."""
        with self._lock:
            if self._stored is None and self._file.size >= at_least:
                self._stored = self._pool.submit(self._put)

    def end(self) -> None:
        """Tell that the file is complete and closed, and begin to store it. Do not change it afterwards."""
        self._file.end()
        with self._lock:
            if self._stored is None:
                self._stored = self._pool.submit(self._put) if self._ends_in_pool else self._put()

    def give_up(self) -> None:
        """Tell that nobody wants the file any more."""
        self._file.give_up()

    def stored(self) -> Stored:
        """Wait until the file is stored. Call `end` of all files first.  Raises RetryableError as the store does."""
        assert self._stored is not None, "the file has not ended"
        return self._stored if isinstance(self._stored, Stored) else self._stored.result()


class Uploads:
    """Context manager for the uploads of one task. A thread looks which of their files have become large."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="mixedmode-upload")
        self._uploads: list[Upload] = []
        self._looking: threading.Thread | None = None
        self._is_over = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over.set()
        if self._looking is not None:
            self._looking.join()
        for upload in self._uploads:
            upload.give_up()
        self._pool.shutdown(cancel_futures=True)

    def begin(self, store: ObjectStore, local_path: Path, path: str) -> Upload:
        """Return the upload of a local file, which its writer has just opened, to `path` in `store`."""
        if self._looking is None:
            self._looking = threading.Thread(target=self._look, name="mixedmode-upload-look", daemon=True)
            self._looking.start()
        return self._upload(store, local_path, path)

    def put(self, store: ObjectStore, local_path: Path, path: str) -> Upload:
        """Begin to store a complete local file."""
        upload = self._upload(store, local_path, path)
        upload.end()
        return upload

    def _upload(self, store: ObjectStore, local_path: Path, path: str) -> Upload:
        file = GrowingFile(local_path)

        def put() -> Stored:
            store.put_growing(file, path)
            return Stored(local_path.stat().st_size, file_checksum(local_path))

        self._uploads.append(Upload(file, put, self._pool, ends_in_pool=store.local_root is None))
        return self._uploads[-1]

    def _look(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            for upload in tuple(self._uploads):
                if sum(one.is_followed for one in self._uploads) < _FOLLOWED:
                    upload.follow(at_least=_FOLLOWED_BYTES)
