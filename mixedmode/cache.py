"""The folder for files that can be made again: $MIXEDMODE_CACHE, else `mixedmode` in the cache folder of the user."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder. It need not exist."""
    chosen = os.environ.get("MIXEDMODE_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mixedmode"
