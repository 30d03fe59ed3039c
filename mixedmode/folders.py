"""The creation of folders at paths that a person names: a path at which none can be made is one message."""

import errno
from pathlib import Path

from mixedmode.errors import RetryableError
from mixedmode.system_errors import NOT_A_FOLDER, system_words

__all__ = ["make_folder", "not_made"]


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Create a folder unless it exists.  mode: of this folder; missing parents get the mode that the umask implies.

    Raises RetryableError, which names the folder and what to do.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode, exist_ok=True)
    except OSError as error:
        raise not_made(folder, error) from error


def not_made(folder: Path, error: OSError, elsewhere: str = "") -> RetryableError:
    """Return the error for a folder that cannot be made.  elsewhere: how to name another place, if the user may."""
    # a file, or a link that leads nowhere, has the name of the folder or of one above
    is_taken = error.errno == errno.EEXIST
    why, how = (NOT_A_FOLDER if is_taken else system_words(error)) or ("the system refuses", "Name another folder")
    return RetryableError(
        f"a folder cannot be made: {why}. {how}{elsewhere}, then start again. cause={error.strerror}, folder={folder}"
    )
