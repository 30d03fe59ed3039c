"""The folder of this process for the sockets over which the driver, the JVM and the Python workers talk.

Neither Spark nor PySpark removes all of its sockets, so the folder is deleted with everything in it: when this process
ends, or by a later one if it was killed.
"""

import atexit
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from mixedmode.checkpoint.locked_folder import temporary_folder

__all__ = ["socket_folder"]


@cache
def socket_folder() -> Path:
    """Return the folder, which only this user can enter. Raises as temporary_folder."""
    kept = ExitStack()
    atexit.register(kept.close)
    return kept.enter_context(temporary_folder("sockets-"))
