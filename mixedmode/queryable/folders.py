"""The local folders of readers: private, and removed by the next reader if theirs has crashed.

A folder holds links to files of the state, which keep the space of deleted runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mixedmode.checkpoint.locked_folder import locked_folder
from mixedmode.checkpoint.private_folder import own_temporary_folder, private_subfolder

__all__ = ["reader_folder"]


@contextmanager
def reader_folder(parent: Path | None = None) -> Iterator[Path]:
    """Return a new folder, as a context manager that deletes it.  parent: of all readers; None: the usual place."""
    if parent is None:
        parent = private_subfolder(own_temporary_folder(), "readers")
    with locked_folder(parent, "reader-") as folder:
        yield folder
