"""Folders between the runs of a benchmark."""

import shutil
from pathlib import Path


def emptied(folder: Path) -> Path:
    """The folder without what an earlier run left in it; a checkpoint must be fresh."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def first_file_of(history: Path, folder: Path) -> Path:
    """The new folder, with only the first of the files in `history`."""
    return linked([min(history.iterdir())], folder)


def linked(files: list[Path], folder: Path) -> Path:
    """The new folder, with these files, which stay where they are, too."""
    folder.mkdir(parents=True)
    for file in files:
        (folder / file.name).hardlink_to(file)
    return folder
