r"""Input files that have moved since a savepoint was taken, under their new names in Spark's record of what was read.

Spark knows a file that it has read by its URL. If a folder of input is moved, or is another one on another machine, all
that is in it would be new; so the names in the record are changed when the savepoint is restored.

An entry of a file source is `v1`, and then a line per file:

    {"path":"file:///in/a%20b.json","timestamp":1600000000000,"batchId":0}

Spark escapes in URLs what Java does: a space, for one, but no letter of any alphabet.

Invariants (tests/checkpoint/test_moved_inputs.py):
  I1  files outside of the folders that moved keep their names, and every entry its lines
  I2  moving there and back gives the entry that was
"""

import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

__all__ = ["moved_entry", "spark_url"]

#: what java.net.URI leaves as it is in a path, beside letters, digits and all that is not ASCII
_UNESCAPED = "/_-!.~'()*,;:$&+=@"


def moved_entry(entry: bytes, moved: Mapping[str, str]) -> tuple[bytes, int]:
    """An entry of a source's log with the new names of its files, and how many of them are new ones.

    moved: {folder as it was: folder as it is}, paths or URLs. Entries of other sources than files stay as they are.
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
    """A folder as Spark names it in its log: an absolute URL, escaped, without a slash at its end.

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
    """The line of a file with its new name; None if it is no file, or has not moved."""
    try:
        file = json.loads(line)
    except ValueError:
        return None
    path = file.get("path") if isinstance(file, dict) else None
    if not isinstance(path, str):
        return None
    for before, now in folders:
        if unquote(path).startswith(before):
            kept = path.split("/")[before.count("/") :]  # escaped as it is: no slash is
            return json.dumps({**file, "path": now + "/".join(kept)}, ensure_ascii=False, separators=(",", ":"))
    return None
