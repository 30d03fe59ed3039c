"""Folders that only their owner may enter: for state, checkpoints, and local files in the temporary folder.

The temporary folder is shared, and other users can guess the names in it. Another user may have created a folder or a
link of that name first, to read or replace the state. So such a folder is used only if it is a real folder, belongs to
this user, and no other user can write to it. All checks use the opened folder, never its name.
"""

import fcntl
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from mixedmode.errors import InvalidJobError
from mixedmode.folders import make_folder, not_made

__all__ = [
    "LOCK",
    "holds",
    "is_private",
    "keep_private",
    "own_subfolder",
    "own_temporary_folder",
    "own_temporary_path",
    "private_subfolder",
    "try_lock",
]

LOCK = "lock"  # the file in a folder that its user locks
_PRIVATE = 0o700
_OTHERS = 0o077
_OTHERS_WRITE = 0o022


def own_temporary_folder() -> Path:
    """Return this user's folder for files that outlive a run, in the temporary folder. Raises as private_subfolder."""
    return own_subfolder(Path(tempfile.gettempdir()))


def own_temporary_path() -> Path:
    """Return the path of own_temporary_folder, which may be missing."""
    return Path(tempfile.gettempdir()) / _own_name()


def own_subfolder(parent: Path) -> Path:
    """Return this user's folder in a folder of all users. Raises as private_subfolder."""
    return private_subfolder(parent, _own_name())


def private_subfolder(parent: Path, name: str, *, uid: int | None = None) -> Path:
    """Return the folder `name` in `parent`, which only this user can enter; create it if it is missing.

    uid: this user's id, for tests. Raises InvalidJobError if the name is a link, or if the folder belongs to another
    user, or if other users can write to it. Raises RetryableError as make_folder.
    """
    folder = parent / name
    parent_fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            os.mkdir(name, _PRIVATE, dir_fd=parent_fd)
        except FileExistsError:
            pass  # it is checked below, no matter who created it
        except OSError as error:
            raise not_made(folder, error) from error
        try:
            opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent_fd)
        except OSError as error:
            raise _unsafe(folder, "it is a link, or cannot be opened as a folder") from error
    finally:
        os.close(parent_fd)
    try:
        found = os.fstat(opened)
        if found.st_uid != (os.getuid() if uid is None else uid):
            raise _unsafe(folder, f"it belongs to another user, with the id {found.st_uid}")
        mode = stat.S_IMODE(found.st_mode)
        if mode & _OTHERS_WRITE:
            raise _unsafe(folder, f"other users can write to it, by its mode {mode:o}")
        if mode & _OTHERS:
            os.fchmod(opened, _PRIVATE)
    finally:
        os.close(opened)
    return folder


def keep_private(folder: Path) -> None:
    """Create a folder that only its owner can enter; of an existing folder, remove the access of other users.

    Raises RetryableError as make_folder, InvalidJobError if the folder's mode cannot be changed.
    """
    make_folder(folder, _PRIVATE)
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        mode = stat.S_IMODE(os.fstat(opened).st_mode)
        if mode & _OTHERS:
            os.fchmod(opened, mode & ~_OTHERS)
    except OSError as error:
        msg = (
            "others can enter the folder, which holds the state of a job, and this user may not change that. Have its "
            "owner run the job or change the mode to 0700; or set execution.checkpointing.access to umask, and the "
            f"mode stays as it is. folder={folder}, mode={mode:o}"
        )
        raise InvalidJobError(msg) from error
    finally:
        os.close(opened)


def is_private(folder: Path) -> bool:
    """Return whether only the owner of a folder can enter it."""
    return not stat.S_IMODE(folder.stat().st_mode) & _OTHERS


def try_lock(lock: IO[str]) -> bool:
    """Lock an open file, unless another process has locked it. Return whether this one has."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holds(folder: Path, lock: IO[str]) -> bool:
    """Return whether `lock` is still the lock file in the folder. A lock on a removed file excludes nobody."""
    with suppress(FileNotFoundError):
        return os.path.samestat((folder / LOCK).stat(), os.fstat(lock.fileno()))
    return False


def _own_name() -> str:
    return f"mixedmode-{os.getuid()}"


def _unsafe(folder: Path, why: str) -> InvalidJobError:
    return InvalidJobError(
        f"the folder for local copies of the state is not safe to use: {why}. Somebody else could read the state or "
        "change it. Remove it, or set TMPDIR to a folder that only this user can write to; then start the job again: "
        f"it resumes. folder={folder}"
    )
