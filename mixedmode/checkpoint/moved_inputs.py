r"""Rename moved input files in Spark's log of a file source, when a savepoint is restored.

Spark identifies a file that it has read by its URL. If an input folder has moved, or has another path on another
machine, Spark would read all of its files again as new. So the restore changes the file names in Spark's log.

An entry of a file source is `v1`, and then a line per file:

    {"path":"file:///in/a%20b.json","timestamp":1600000000000,"batchId":0}

Spark escapes in URLs the same characters as Java: a space, for example, but no letter of any alphabet.

Invariants (tests/checkpoint/test_moved_inputs.py):
  I1  files outside of the moved folders keep their names, and every entry keeps its lines
  I2  moving files to another folder and back restores the original entry
"""

import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

__all__ = ["moved_entry", "spark_url"]

#: characters that java.net.URI does not escape in a path, beside letters, digits and all non-ASCII characters
_UNESCAPED = "/_-!.~'()*,;:$&+=@"


def moved_entry(entry: bytes, moved: Mapping[str, str]) -> tuple[bytes, int]:
    """Return an entry of a source's log with the new names of its files, and the number of renamed files.

    moved: {old folder: new folder}, as paths or URLs. Entries of other sources than file sources are not changed.
    """
    folders = [(f"{unquote(spark_url(before))}/", f"{spark_url(now)}/") for before, now in moved.items()]
    version, *lines = entry.decode().split("\n")
    changed = 0
    for number, line in enumerate(lines):
        renamed = _moved_line(line, folders)
        if renamed is not None:
            lines[number] = renamed
            changed += 1
    return "\n".join([version, *lines]).encode(), changed


def spark_url(place: str) -> str:
    """Return a folder as Spark names it in its log: an absolute URL, escaped, without a slash at its end.

    >>> spark_url("/data/sales 2001/")
    'file:///data/sales%202001'
    >>> spark_url("s3://bucket/sales")
    's3://bucket/sales'
    """
    if "://" in place:
        return place.rstrip("/")
    path = str(Path(place.removeprefix("file:")).absolute())
    return "file://" + "".join(letter if letter > "\x7f" else quote(letter, safe=_UNESCAPED) for letter in path)


def _moved_line(line: str, folders: list[tuple[str, str]]) -> str | None:
    """Return the line with the file's new name; None if the line names no file, or the file has not moved."""
    try:
        file = json.loads(line)
    except ValueError:
        return None
    path = file.get("path") if isinstance(file, dict) else None
    if not isinstance(path, str):
        return None
    for before, now in folders:
        if unquote(path).startswith(before):
            kept = path.split("/")[before.count("/") :]  # still escaped; slashes never are
            return json.dumps({**file, "path": now + "/".join(kept)}, ensure_ascii=False, separators=(",", ":"))
    return None
