"""Versions of a set of files: a file keeps its contents as long as its size and modification time stay the same.

Spark lists the files of a frame once, when it makes the frame. So a frame has one version if the files are the same
before it is made, after it is made, and after it was read.
"""

from collections.abc import Callable, Mapping
from functools import partial

from pyspark.sql import DataFrame

from mixedmode.checkpoint.checksum import checksum_of
from mixedmode.counts import counted
from mixedmode.errors import RetryableError
from mixedmode.sources.versions import TableVersion
from mixedmode.spark.file_lengths import FileState

__all__ = ["changed_files", "newest_version", "version_name"]

_ATTEMPTS = 5
#: {URL: its state} of all files that a frame reads
States = Mapping[str, FileState]


def newest_version(
    rows: Callable[[], DataFrame],
    states_of: Callable[[DataFrame], States],
    before: TableVersion | None,
    checked: Callable[[DataFrame], DataFrame],
    *,
    place: str,
) -> TableVersion:
    """Return the version of the files that exist now; `before` if it is the same.

    rows: makes a frame of all files that exist. states_of: looks at the files of a frame. checked: checks them. Raise
    RetryableError if files change while they are listed, several times in a row.
    """
    changed = None
    for _ in range(_ATTEMPTS):
        first = states_of(rows())
        if before is not None and before.name == version_name(first):
            return before
        frame = checked(rows())
        changed = changed_files(first, states_of(frame))
        if changed is None:
            return TableVersion(version_name(first), frame, partial(_changed_since, first, states_of, frame))
    msg = (
        "the files of a dimension change faster than they can be listed. Replace them less often, or put them into a "
        f"Delta Lake or Iceberg table. place={place}, changed={changed}"
    )
    raise RetryableError(msg)


def _changed_since(before: States, states_of: Callable[[DataFrame], States], frame: DataFrame) -> str | None:
    return changed_files(before, states_of(frame))


def version_name(states: States) -> str:
    """Return the name of a version: the number of files, their bytes, and a checksum of their names and states."""
    text = "\n".join(f"{url}\t{size}\t{modified}" for url, (size, modified) in sorted(states.items()))
    total = sum(size for size, _ in states.values())
    return f"{counted(len(states), 'file')}, {total} bytes, {checksum_of([text.encode()])}"


def changed_files(before: States, now: States) -> str | None:
    """Return a phrase on the first file that was changed, removed or added; None if there is none."""
    for url in sorted(before.keys() | now.keys()):
        if before.get(url) != now.get(url):
            what = "was added" if url not in before else "is gone" if url not in now else "was changed"
            return f"{url} {what}"
    return None
