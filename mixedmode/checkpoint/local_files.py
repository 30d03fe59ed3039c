"""Objects in a local (or mounted) folder, written so that they survive a power cut.

The one idea: a file gets its name only when it is whole and on the disk. The bytes go to a file of its own under
`_tmp/`, that file is synced, then named in one atomic step (`link` for create-once, `rename` to replace), then the
folder is synced. obstore's LocalStore names atomically too, but its Python interface has no switch for syncing
(0.12), so a manifest that it wrote may be empty after a power cut; hence the local case is done here, with `os`.

Invariants (tests/checkpoint/test_store.py):
  I1  a name never shows part of a file, also not after a crash
  I2  of any number of concurrent put_new for one name exactly one returns True
  I3  when a put returns, the file, its name and the folders above it are synced

Errors are those of the operating system; store.py translates them.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LocalFiles"]

_UNFINISHED = "_tmp"
_CHUNK_BYTES = 1 << 20
#: an unfinished file may be swept by another start of the job (sweep_unfinished); then it is written again
_ATTEMPTS = 3
#: what `link` answers where a hard link cannot be made but a copy can
_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Objects below `root`.  Paths are relative, with '/'; a folder that is missing is an empty one."""

    root: Path

    def put_new(self, path: str, data: bytes) -> bool:
        """Create-once: False if the name is taken, and then nothing has changed."""
        target = self._prepared(path)
        return _written(self._unfinished_folder(), target, [data], _link_new)

    def put(self, path: str, data: bytes) -> None:
        """Create or replace."""
        target = self._prepared(path)
        _written(self._unfinished_folder(), target, [data], _replace)

    def put_file(self, local_path: Path, path: str) -> None:
        """Create or replace from a local file: another name of the same file where the disk allows it, else a copy."""
        target = self._prepared(path)
        _sync_file(local_path)
        try:
            os.link(local_path, target)
            _sync_folder(target.parent)
        except FileExistsError:
            _written(self._unfinished_folder(), target, local_path, _replace)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            _written(self._unfinished_folder(), target, local_path, _replace)

    def get(self, path: str) -> bytes | None:
        """All bytes, None if there is no such object."""
        try:
            return self._at(path).read_bytes()
        except FileNotFoundError:
            return None

    def chunks(self, path: str) -> Iterator[bytes]:
        """The bytes in chunks.  Raises FileNotFoundError at the first one."""
        with self._at(path).open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk

    def fetch_file(self, path: str, local_path: Path) -> bool:
        """A local name for the object: a hard link where the disk allows it, else a copy.  False: no such object."""
        source = self._at(path)
        if self.size(path) is None:
            return False
        try:
            os.link(source, local_path)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            shutil.copyfile(source, local_path)
        return True

    def size(self, path: str) -> int | None:
        """Size in bytes, None if there is no such object."""
        try:
            return self._at(path).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def list(self, folder: str) -> Sequence[tuple[str, int]]:
        """(path, bytes) of every object below `folder` ('' is everything), sorted by path."""
        start = self._at(folder) if folder else self.root
        return sorted(self._walk(start))

    def delete(self, paths: Sequence[str]) -> None:
        """Remove objects; one that is not there is fine. Not synced: a deletion that a power cut undoes is harmless."""
        for path in paths:
            self._at(path).unlink(missing_ok=True)

    def rename_all(self, pairs: Sequence[tuple[str, str]]) -> Sequence[bool]:
        """Rename each (source, target), replacing targets; False where there is no source. Then all targets are synced,
        also those that an earlier rename put there.
        """
        renamed = [self._rename(source, target) for source, target in pairs]
        for folder in sorted({self._at(target).parent for _, target in pairs}):
            _sync_folder(folder)
        return renamed

    def sweep_unfinished(self) -> None:
        """Remove what crashed writers left behind. A writer that is alive notices, and writes its file again."""
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

    def _walk(self, start: Path) -> Iterator[tuple[str, int]]:
        for folder, folders, names in os.walk(start, onerror=_raise_unless_missing):
            if Path(folder) == self.root and _UNFINISHED in folders:
                folders.remove(_UNFINISHED)
            for name in names:
                file = Path(folder, name)
                with suppress(FileNotFoundError):  # deleted or renamed while we look
                    yield file.relative_to(self.root).as_posix(), file.stat().st_size

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
        _make_folder(folder)
        return folder


def _written(
    unfinished_folder: Path, target: Path, source: Path | Sequence[bytes], place: Callable[[Path, Path], bool]
) -> bool:
    """Write a synced file under a name of its own, `place` it at `target`, sync the folder.  What `place` returns."""
    for attempt in range(1, _ATTEMPTS + 1):
        unfinished = unfinished_folder / secrets.token_hex(8)
        try:
            _write_synced(unfinished, source)
            placed = place(unfinished, target)
        except FileNotFoundError:
            if unfinished.exists() or attempt == _ATTEMPTS:
                raise
            continue
        finally:
            unfinished.unlink(missing_ok=True)
        _sync_folder(target.parent)
        return placed
    msg = "unreachable"
    raise AssertionError(msg)


def _write_synced(path: Path, source: Path | Sequence[bytes]) -> None:
    with path.open("xb") as file:
        if isinstance(source, Path):
            with source.open("rb") as original:
                shutil.copyfileobj(original, file, _CHUNK_BYTES)
        else:
            file.writelines(source)
        file.flush()
        os.fsync(file.fileno())


def _link_new(unfinished: Path, target: Path) -> bool:
    try:
        os.link(unfinished, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno in _NO_LINK:
            what = "this filesystem has no hard links, which creating a file exactly once needs"
            raise OSError(errno.ENOTSUP, what, str(target)) from error
        raise
    return True


def _replace(unfinished: Path, target: Path) -> bool:
    unfinished.replace(target)
    return True


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each synced into its parent."""
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


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
