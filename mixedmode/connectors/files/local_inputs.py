"""Local files that a source's path selects: one file, a folder, or all files that a pattern matches.

A path is read literally as far as it exists (config/globs.py), so `run[12]` selects a folder of that name if it
exists.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from mixedmode.config.globs import InputPath, alternatives, escaped, has_magic, input_path, pattern_of

_BEING_COPIED = "._COPYING_"


def local_input(path: str) -> InputPath:
    """Cut an absolute path into the part that exists and the pattern after it."""
    return input_path(path, os.path.exists)


def is_hidden(name: str) -> bool:
    """Return whether Spark ignores a file or folder of this name."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith(_BEING_COPIED)


def matched(path: str) -> Iterator[Path]:
    """Yield the files and folders that a path selects now."""
    for one in alternatives(local_input(path)):
        yield from _matching(Path(one.literal), one.parts)


def visible_files(path: str) -> Iterator[Path]:
    """Yield the files that Spark may read below a path now."""
    for root in matched(path):
        if root.is_file():
            yield root
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if not is_hidden(name)]
            yield from (Path(folder, name) for name in names if not is_hidden(name))


def files_in_folders(path: str) -> Iterator[Path]:
    """Yield the files in folders below those that a path selects, which Spark reads only if it searches recursively."""
    for root in matched(path):
        for folder in root.iterdir() if root.is_dir() else ():
            if folder.is_dir() and not is_hidden(folder.name):
                yield from visible_files(str(folder))


def spark_path(path: str) -> str:
    r"""Return an absolute path in the form in which Spark reads a literal path literally.

    A single file is written as a pattern of one name, since Spark's streaming reader takes any other path for a folder.
    """
    cut = local_input(path)
    if not cut.has_pattern and os.path.isfile(cut.literal):  # noqa: PTH113 - its parent may be empty
        folder, _, name = cut.literal.rpartition("/")
        return f"{escaped(folder)}/{{{escaped(name).replace(',', f'{chr(92)},')}}}"
    return "/".join([escaped(cut.literal).rstrip("/"), *cut.parts])


def has_magic_names(path: str) -> bool:
    """Return whether an existing file has a path that Spark takes for a pattern."""
    return any(has_magic(str(file)) for file in visible_files(path))


def files_depth(path: str) -> int | None:
    """Return the number of folders above the files of a path; None if it differs between the path's alternatives."""
    depths = {len(Path(one.literal).parts) - 1 + len(one.parts) for one in alternatives(local_input(path))}
    return depths.pop() if len(depths) == 1 else None


def _matching(folder: Path, parts: tuple[str, ...]) -> Iterator[Path]:
    if not parts:
        if folder.exists():
            yield folder
        return
    pattern = pattern_of(parts[0])
    for child in folder.iterdir() if folder.is_dir() else ():
        if pattern.fullmatch(child.name):
            yield from _matching(child, parts[1:])
