"""The folder of this process for the sockets over which the driver, the JVM and the Python workers talk.

The name of a socket has a limit, which the name of a temporary folder may reach: macOS, schedulers and test runners
choose long ones. So where this user's temporary folder has a long name, the folder is in /tmp.

Neither Spark nor PySpark removes all of its sockets, so the folder is deleted with everything in it: when this process
ends, or by a later one if it was killed.
"""

import atexit
import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

from mixedmode.checkpoint.locked_folder import locked_folder
from mixedmode.checkpoint.private_folder import own_subfolder, own_temporary_folder, own_temporary_path
from mixedmode.errors import MixedmodeError

__all__ = ["lost_folder", "socket_folder"]

_PREFIX = "sockets-"
_NAME_BYTES = len(f"/{_PREFIX}") + 8  # with what tempfile adds
_FOLDER_BYTES_MAX = 60  # macOS allows a socket 103; Spark's names have 42
_SHORT = Path("/tmp")  # noqa: S108  a folder of this user there is private


@cache
def socket_folder() -> Path:
    """Return the folder, which only this user can enter.

    Raises OSError if no folder can be made whose name is short enough, and as own_temporary_folder.
    """
    bytes_max = _FOLDER_BYTES_MAX - _NAME_BYTES
    parent = next((folder for folder in _parents() if len(os.fsencode(folder)) <= bytes_max), None)
    if parent is None:
        msg = f"no folder has a name that is short enough for sockets: {own_temporary_folder()}"
        raise OSError(msg)
    kept = ExitStack()
    atexit.register(kept.close)
    return kept.enter_context(locked_folder(parent, _PREFIX))


def lost_folder() -> Path | None:
    """Return a folder of this process for temporary files that somebody has deleted; None if none is gone.

    It is the folder for sockets, without which tasks get no work, or that of this user, which holds all others.
    """
    if not socket_folder.cache_info().currsize:
        return None
    used = (socket_folder(), own_temporary_path())
    return next((folder for folder in used if not folder.exists()), None)


def _parents() -> Iterator[Path]:
    yield own_temporary_folder()
    with suppress(OSError, MixedmodeError):  # such as no /tmp, or another user's folder of this name
        yield own_subfolder(_SHORT)
