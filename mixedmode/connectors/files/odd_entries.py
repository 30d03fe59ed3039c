"""Entries of local input folders that Spark passes over or waits for, and that are an error instead.

Spark's JVM knows files by their names as text. It lists a file whose name is not UTF-8 under another name, does not
find it, and passes over it silently. A named pipe is a file to it, and reading one may wait for a writer for ever.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from urllib.parse import unquote

from mixedmode.connectors.files.local_inputs import is_hidden, matched
from mixedmode.errors import InvalidJobError

__all__ = ["check_entries", "check_regular"]

_LOCAL = "file://"


def check_entries(path: str, *, where: str, is_recursive: bool) -> None:
    """Raise InvalidJobError, beginning with `where`, for an entry that a local path selects now and that is odd.

    is_recursive: Spark reads the files in folders below, too.
    """
    for root in matched(path):
        told = _odd(str(root), is_usual=root.is_file() or root.is_dir())
        for entry in _entries(str(root), is_recursive=is_recursive):
            told = told or _odd(entry.path, is_usual=entry.is_file() or entry.is_dir() or entry.is_symlink())
        if told:
            msg = f"{where}: {told}"
            raise InvalidJobError(msg)


def check_regular(url: str, length: int) -> None:
    """Raise InvalidJobError for a file on this machine that is a pipe, a socket or a device. These have no length."""
    if length == 0 and url.startswith(f"{_LOCAL}/"):
        path = unquote(url[len(_LOCAL) :])
        with suppress(FileNotFoundError):
            if not S_ISREG(Path(path).stat().st_mode):
                raise InvalidJobError(_not_regular(path))


def _entries(folder: str, *, is_recursive: bool) -> Iterator["os.DirEntry[str]"]:
    with suppress(NotADirectoryError, PermissionError, FileNotFoundError), os.scandir(folder) as found:
        for entry in found:
            if is_hidden(entry.name):
                continue
            yield entry
            if is_recursive and entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path, is_recursive=True)


def _odd(path: str, *, is_usual: bool) -> str:
    """Return what is wrong with an entry; "" if nothing is. `is_usual`: it is a file, a folder or a dangling link."""
    try:
        path.encode()
    except UnicodeEncodeError:  # Python has kept bytes that are no UTF-8 as surrogates
        return (
            "the name of a file or folder is not UTF-8, so Spark would pass over it and its records would be missing. "
            f"Rename it. name={os.fsencode(path)!r}"
        )
    return "" if is_usual else _not_regular(path)


def _not_regular(path: str) -> str:
    return (
        "an entry of an input folder is a pipe, a socket or a device, and reading it might never end. Remove it, or "
        f"give the source a pattern that does not match it. path={path}"
    )
