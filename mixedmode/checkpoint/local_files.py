"""Objects in a local (or mounted) folder, written so that they survive a power cut.

A file gets its final name only when it is complete and on the disk. The bytes are written to a new file
under `_tmp/`, and that file is synced. Then it gets its name in one atomic step: `link` for create-once, `rename` to
replace. Then the folder is synced. obstore's LocalStore also names files atomically, but its Python interface has no
option for syncing (0.12). So a manifest that it wrote may be empty after a power cut. Hence this module handles local
folders itself, with `os`.

In a root that only its owner can enter, files get mode 0600, so they stay private if the folder's mode is changed or a
file is moved. In other roots the umask decides. A file that is linked into the root gets the mode, too.

Invariants (tests/checkpoint/test_store.py):
  I1  a name never refers to a partial file, even after a crash
  I2  of any number of concurrent calls of put_new for one name, exactly one returns True
  I3  when a put returns, the file, its name and the folders above it are synced
  I4  in a root that only its owner can enter, no other user can read or write a file

Errors are those of the operating system; store.py translates them.
"""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mixedmode.checkpoint.growing_file import GrowingFile
from mixedmode.checkpoint.private_folder import is_private

__all__ = ["LocalFiles"]

_UNFINISHED = "_tmp"
_CHUNK_BYTES = 1 << 20
_SYNCED_BYTES = 8 << 20  # a growing file is synced when it has grown by so much
_OWNERS = 0o600
_EVERYONES = 0o666
#: another start of the job may delete an unfinished file (sweep_unfinished); then the file is written again
_ATTEMPTS = 3
#: errors of `link` where a hard link is impossible but a copy works
_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Objects below `root`.  Paths are relative, with '/'; a missing folder counts as empty."""

    root: Path

    def put_new(self, path: str, data: bytes) -> bool:
        """Create an object that does not exist yet.  Return False if the name is taken; then nothing has changed."""
        target = self._prepared(path)
        return _written(self._unfinished_folder(), target, [data], _link_new, self._mode())

    def put_unsynced(self, path: str, data: bytes) -> None:
        """Create an object whose name is free. I1 and I3 hold for crashes of processes, and not for a power cut."""
        target = self._prepared(path)
        _written(self._unfinished_folder(), target, [data], _link_new, self._mode(), is_synced=False)

    def put(self, path: str, data: bytes) -> None:
        """Create or replace an object."""
        target = self._prepared(path)
        _written(self._unfinished_folder(), target, [data], _replace, self._mode())

    def put_file(self, local_path: Path, path: str) -> None:
        """Create or replace an object from a local file: as a hard link where the disk allows it, else as a copy."""
        target, mode = self._prepared(path), self._mode()
        if mode == _OWNERS and not _made_private(local_path):
            _written(self._unfinished_folder(), target, local_path, _replace, mode)
            return
        _sync_file(local_path)
        try:
            os.link(local_path, target)
            _sync_folder(target.parent)
        except FileExistsError:
            _written(self._unfinished_folder(), target, local_path, _replace, mode)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            _written(self._unfinished_folder(), target, local_path, _replace, mode)

    def put_growing(self, file: GrowingFile, path: str) -> None:
        """Create or replace an object from a local file once it is complete, as put_file does.

        The disk gets the bytes of a large file while it grows, so that there is less to wait for at its end.
        """
        synced = 0
        for size in file.sizes():
            if size - synced >= _SYNCED_BYTES:
                with suppress(FileNotFoundError):  # of a task that has failed, and gives the file up next
                    _sync_file(file.path)
                synced = size
        self.put_file(file.path, path)

    def get(self, path: str) -> bytes | None:
        """Return all bytes of an object, None if it does not exist."""
        try:
            return self._at(path).read_bytes()
        except FileNotFoundError:
            return None

    def chunks(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of an object in chunks.  The first chunk raises FileNotFoundError if it does not exist."""
        with self._at(path).open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk

    def fetch_file(self, path: str, local_path: Path) -> bool:
        """Create a local file with the object's bytes: a hard link where the disk allows it, else a copy.

        Return False if the object does not exist.
        """
        try:
            _link_or_copy(self._at(path), local_path)
        except (FileNotFoundError, NotADirectoryError):
            if self.size(path) is not None:
                raise  # the local folder is gone
            return False
        return True

    def size(self, path: str) -> int | None:
        """Return the size of an object in bytes, None if it does not exist."""
        try:
            return self._at(path).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def list(self, folder: str) -> Sequence[tuple[str, int]]:
        """Return (path, bytes) of every object below `folder` ('' means all objects), sorted by path."""
        return sorted(self._walk(folder))

    def delete(self, paths: Sequence[str]) -> None:
        """Remove objects; missing ones are ignored. Not synced: a deletion that a power cut undoes is harmless."""
        for path in paths:
            self._at(path).unlink(missing_ok=True)

    def rename_all(self, pairs: Sequence[tuple[str, str]]) -> Sequence[bool]:
        """Rename each (source, target), replacing targets.  Return False for each source that does not exist.

        Then the folders of all targets are synced, so the targets of an earlier rename are durable, too.
        """
        renamed = [self._rename(source, target) for source, target in pairs]
        for folder in sorted({self._at(target).parent for _, target in pairs}):
            _sync_folder(folder)
        return renamed

    def sweep_unfinished(self) -> None:
        """Remove the files that crashed writers left behind. A live writer notices this, and writes its file again."""
        with suppress(FileNotFoundError):
            for entry in os.scandir(self.root / _UNFINISHED):
                Path(entry.path).unlink(missing_ok=True)

    def _rename(self, source: str, target: str) -> bool:
        to = self._prepared(target)
        try:
            self._at(source).rename(to)
        except FileNotFoundError:
            return False
        return True

    def _walk(self, folder: str) -> Iterator[tuple[str, int]]:
        try:
            entries = list(os.scandir(self._at(folder) if folder else self.root))
        except FileNotFoundError:
            return
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if not entry.is_dir():
                with suppress(FileNotFoundError):  # deleted or renamed while we look
                    yield path, entry.stat().st_size
            elif path != _UNFINISHED and not entry.is_symlink():
                yield from self._walk(path)

    def _mode(self) -> int:
        """Return the mode of new files, from which the umask is taken away; the root exists."""
        return _OWNERS if is_private(self.root) else _EVERYONES

    def _at(self, path: str) -> Path:
        assert path, "an object has a name"
        assert not path.startswith("/"), path
        assert ".." not in path.split("/"), path
        return self.root / path

    def _prepared(self, path: str) -> Path:
        target = self._at(path)
        _make_folder(target.parent)
        return target

    def _unfinished_folder(self) -> Path:
        folder = self.root / _UNFINISHED
        folder.mkdir(exist_ok=True)  # not synced: a power cut may take it, as nothing in it counts
        return folder


def _written(
    unfinished_folder: Path,
    target: Path,
    source: Path | Sequence[bytes],
    place: Callable[[Path, Path], bool],
    mode: int,
    *,
    is_synced: bool = True,
) -> bool:
    """Write a synced file under a unique name, `place` it at `target`, sync the folder.  Return `place`'s result."""
    for attempt in range(1, _ATTEMPTS + 1):
        unfinished = unfinished_folder / secrets.token_hex(8)
        try:
            _write(unfinished, source, mode, is_synced=is_synced)
            placed = place(unfinished, target)
        except FileNotFoundError:
            if unfinished.exists() or attempt == _ATTEMPTS:
                raise
            continue
        finally:
            unfinished.unlink(missing_ok=True)
        if is_synced:
            _sync_folder(target.parent)
        return placed
    msg = "unreachable"
    raise AssertionError(msg)


def _write(path: Path, source: Path | Sequence[bytes], mode: int, *, is_synced: bool) -> None:
    with open(path, "xb", opener=partial(os.open, mode=mode)) as file:
        if isinstance(source, Path):
            with source.open("rb") as original:
                shutil.copyfileobj(original, file, _CHUNK_BYTES)
        else:
            file.writelines(source)
        file.flush()
        if is_synced:
            os.fsync(file.fileno())


def _made_private(path: Path) -> bool:
    """Let only the owner of a file use it. Return False if the file is another user's, or is linked elsewhere, too."""
    found = path.stat()
    if not stat.S_IMODE(found.st_mode) & ~_OWNERS:
        return True
    if found.st_nlink > 1 or found.st_uid != os.getuid():
        return False
    path.chmod(_OWNERS)
    return True


def _link_new(unfinished: Path, target: Path) -> bool:
    try:
        os.link(unfinished, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno in _NO_LINK - {errno.EXDEV}:
            what = "this filesystem has no hard links, which creating a file exactly once needs"
            raise OSError(errno.ENOTSUP, what, str(target)) from error
        raise
    return True


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copyfile(source, target)


def _replace(unfinished: Path, target: Path) -> bool:
    unfinished.replace(target)
    return True


def _make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, and sync each into its parent."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    _sync_file(folder)
