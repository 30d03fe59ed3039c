"""The errors of the operating system that a person can repair, in the same words wherever they are met.

Other errors of the system are left to the code that meets them: a file that does not exist, for example, may be a
defect.
"""

import errno

from mixedmode.errors import RetryableError

__all__ = ["DISK_TEXTS", "NOT_A_FOLDER", "local_disk_error", "system_error", "system_words", "too_many_files"]

_FILES = ("this process may not open more files", "Raise the limit (`ulimit -n 4096`)")
_FULL = (
    "no space is left on the disk",
    "Free space, or delete files if `df -i` shows that no inode is free; or move the folder to a larger disk",
)
_QUOTA = (
    "the quota of this user is used up, though the disk may have space",
    "Delete files of this user, have the quota raised, or move the folder to another disk",
)
_LIMITED = (
    "a file would be larger than this process, or the file system, allows",
    "Raise the limit (`ulimit -f unlimited`), or move the folder to another file system",
)
_FAILING = (
    "a disk, or the server that has it, failed to read or write",
    "Check both (see `dmesg`), or move the folder to another disk",
)
_READ_ONLY = ("the file system is read-only", "Mount it for writing; if it was, the disk may be failing: see `dmesg`")
_FORBIDDEN = ("permission was denied", "Give this user read and write access")
NOT_A_FOLDER = ("there is a file where its folder should be", "Name another folder, or remove the file")
_NOT_A_FILE = ("there is a folder where its file should be", "Name another file, or remove the folder")
_LONG = ("a name in the path is too long for the system", "Choose a shorter one")
_CIRCLE = ("the links in the path lead in a circle", "Name another path, or correct the links")
_TWO_DISKS = (
    "two places are on different file systems, or mounts, between which a file cannot be linked or renamed",
    "Have the whole folder on one of them: no folder in it may be a mount of its own, or a link to another disk",
)
_UNREACHED = ("a server does not take the connection, or ended it", "Check that it runs and can be reached")
_WORDS = {
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _QUOTA,
    errno.EFBIG: _LIMITED,
    errno.EIO: _FAILING,
    errno.ESTALE: _FAILING,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: _READ_ONLY,
    errno.ENOTDIR: NOT_A_FOLDER,
    errno.EISDIR: _NOT_A_FILE,
    errno.ENAMETOOLONG: _LONG,
    errno.ELOOP: _CIRCLE,
    errno.EXDEV: _TWO_DISKS,
    errno.ECONNREFUSED: _UNREACHED,
    errno.ECONNRESET: _UNREACHED,
    errno.ECONNABORTED: _UNREACHED,
    errno.EHOSTUNREACH: _UNREACHED,
    errno.ENETUNREACH: _UNREACHED,
    errno.ETIMEDOUT: _UNREACHED,
}
#: the words of the system in the texts of other programs, such as Spark's about an error in a task
_IN_TEXTS = {
    "Too many open files": _FILES,
    "No space left on device": _FULL,
    "Disk quota exceeded": _QUOTA,
    "File too large": _LIMITED,
    "Input/output error": _FAILING,
    "Stale file handle": _FAILING,
    "Read-only file system": _READ_ONLY,
}
DISK_TEXTS = tuple(text for text, words in _IN_TEXTS.items() if words is not _FILES)  #: those about a disk


def system_words(error: BaseException | str) -> tuple[str, str] | None:
    """Return (the reason, the repair) of an error of the system, or of one that a text reports; None for other errors.

    >>> system_words(OSError(errno.EMFILE, "Too many open files"))
    ('this process may not open more files', 'Raise the limit (`ulimit -n 4096`)')
    """
    if isinstance(error, str):
        return next((words for said, words in _IN_TEXTS.items() if said in error), None)
    return _WORDS.get(error.errno or 0) if isinstance(error, OSError) else None


def system_error(error: BaseException | str, values: str = "") -> RetryableError | None:
    """Return the error with the words of `system_words`, and with `values` last; None for other errors."""
    words = system_words(error)
    if words is None:
        return None
    why, how = words
    if isinstance(error, OSError):
        # a link or a renaming has two paths, and either may be on the disk that failed
        places = (("path", error.filename), ("to", error.filename2))
        paths = (f"{name}={path}" for name, path in places if path)
        values = ", ".join(value for value in (f"cause={error.strerror}", *paths, values) if value)
    return RetryableError(f"{why}. {how}, then start again; a job resumes.{values and f' {values}'}")


def too_many_files(error: BaseException, values: str) -> RetryableError | None:
    """Return the error if a limit of open files is the cause, also where a library reports it as text; else None.

    It is for places whose own message is about a disk.
    """
    words = system_words(error) or system_words(str(error))
    return system_error("Too many open files", f"{values}, cause={error}") if words == _FILES else None


def local_disk_error(error: BaseException, what: str, values: str, *, other_way: str = "") -> RetryableError:
    """Return the error for temporary files that cannot be written, also where a library reports the cause as text.

    what: what cannot be written. values: say where. other_way: something else to do about it.
    """
    limited = too_many_files(error, values)
    if limited is not None:
        return limited
    why, how = system_words(error) or system_words(str(error)) or ("the system refuses", "Repair the cause")
    return RetryableError(
        f"{what} cannot be written to the folder for temporary files: {why}. Nothing is committed. {how}, or set "
        f"TMPDIR to another disk{other_way and f', or {other_way}'}; then start again; a job resumes from its last "
        f"checkpoint. {values}, cause={error}"
    )
