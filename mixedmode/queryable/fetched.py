"""Local files of runs: a link to each one, or a copy if the store is on another file system.

Snapshots of successive epochs share most of their runs. So a program that opens one snapshot after another keeps the
local files, and fetches each run once.
"""

import os
import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import RunFile
from mixedmode.errors import CorruptStateError, RetryableError

__all__ = ["FetchedRuns", "SharedRuns"]


class FetchedRuns:
    """The local files of the runs of a store, in a folder that the caller deletes. Thread-safe."""

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._here = set[str]()  # the paths of the runs that have been fetched

    def link(self, run: RunFile, target: str) -> None:
        """Create a private link to a run. Fetch the run first, unless it is here."""
        local = f"{self._folder}/{run.path}"  # texts: to make a Path takes longer than the link
        while not _is_linked(local, target):
            self._fetch_to(Path(local), run)
            self._here.add(run.path)

    def _fetch_to(self, local: Path, run: RunFile) -> None:
        local.parent.mkdir(parents=True, exist_ok=True)
        arriving = local.with_name(f"{local.name}.{uuid.uuid4().hex}")  # another thread may fetch the same run
        try:
            self._fetch(run, arriving)
            arriving.replace(local)
        finally:
            arriving.unlink(missing_ok=True)

    def keep_only(self, paths: Collection[str]) -> None:
        """Delete the local files of all other runs. Links to them stay usable."""
        for path in self._here.difference(paths):
            self._here.discard(path)
            (self._folder / path).unlink(missing_ok=True)

    def _fetch(self, run: RunFile, target: Path) -> None:
        where = f"{self._store.url}/{run.path}"
        if not self._store.fetch_file(run.path, target):
            msg = (
                "a file of the state is gone: the job has dropped this checkpoint meanwhile, or it is damaged. Read "
                f"the newest epoch. `mixedmode checkpoints DIR --verify` says if it is damaged. file={where}"
            )
            raise RetryableError(msg)
        found = target.stat().st_size
        if found != run.bytes:
            msg = (
                "a file of the state is damaged: it has another size than the manifest says. Read an older epoch. "
                f"file={where}, bytes={found}, bytes_committed={run.bytes}"
            )
            raise CorruptStateError(msg)


class SharedRuns:
    """The local files of snapshots that follow each other: those of runs once, and a folder for each snapshot."""

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        """folder: the caller deletes it."""
        self.fetched = FetchedRuns(store, folder / "fetched")
        self._folder = folder
        self._numbers = count()

    @contextmanager
    def new_folder(self) -> Iterator[Path]:
        """Return a folder for one snapshot, as a context manager that deletes it."""
        folder = self._folder / f"{next(self._numbers)}"
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _is_linked(local: str, target: str) -> bool:
    """Create a link to a local file; return False if the file does not exist."""
    try:
        os.link(local, target)
    except FileNotFoundError:
        return False
    return True
