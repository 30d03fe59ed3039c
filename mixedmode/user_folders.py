"""The folders of this user outside of jobs: for files that can be made again, and for what outlives a command."""

import os
from pathlib import Path

from mixedmode.errors import RetryableError

__all__ = ["cache_folder", "state_folder"]


def cache_folder() -> Path:
    """Return the folder for files that can be made again: $MIXEDMODE_CACHE, else `mixedmode` in the user's cache.

    It need not exist. Raises RetryableError if this user has no home folder, and no variable names another one.
    """
    chosen = os.environ.get("MIXEDMODE_CACHE")
    return Path(chosen) if chosen else _folder("XDG_CACHE_HOME", ".cache")


def state_folder() -> Path:
    """Return the folder for what outlives a command: $XDG_STATE_HOME/mixedmode. Raises as cache_folder."""
    return _folder("XDG_STATE_HOME", ".local/state")


def _folder(variable: str, in_home: str) -> Path:
    chosen = os.environ.get(variable)
    try:
        return (Path(chosen) if chosen else Path.home() / in_home) / "mixedmode"
    except RuntimeError as error:  # pathlib's, without HOME, for a user whom the system does not know
        msg = (
            f"this user has no home folder, as HOME is not set and the system knows no user of this id. Set HOME or "
            f"{variable} to a folder that this user can write to, then start again. uid={os.getuid()}"
        )
        raise RetryableError(msg) from error
