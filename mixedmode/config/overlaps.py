"""Check that no place the job writes overlaps another place that the job reads or writes.

A job that writes where it reads would read its own output again in every epoch. A reader could not tell the rows of
outputs in one folder apart. Files of a savepoint or checkpoint folder in an output would be read as output files.
Places are compared after resolving `.`, `..`, symbolic links and globs. `file:` URLs are paths, and `s3://` is the same
as `s3a://`. Sources may overlap each other, since reading twice does no harm.

Invariants (tests/config/test_overlaps.py):
  I1  of two places, one of which the job writes, neither is in the other; the refusal names both
  I2  a pattern overlaps what it matches and what is below or above that, and nothing else
"""

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path as FilePath
from typing import Literal
from urllib.parse import unquote

from mixedmode.config.document import Path, path_text
from mixedmode.config.globs import InputPath, alternatives, input_path
from mixedmode.config.spec import JobSpec
from mixedmode.config.used_places import UsedPlace
from mixedmode.errors import InvalidJobError

Role = Literal["source", "output", "checkpoints", "savepoint"]
_S3 = re.compile(r"s3[an]?://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Place:
    """A place: files below `paths`, or something with a name. Places with an equal name are one place.

    `owner` is the path of its setting in the job, `found` the value of the setting. `shared` distinguishes what may lie
    in one file (tables of a SQLite database).
    """

    role: Role
    owner: Path
    found: str
    paths: tuple[InputPath, ...] = ()
    names: frozenset[str] = frozenset()
    shared: str = ""


def overlap_findings(spec: JobSpec) -> Iterator[tuple[Path, str]]:
    """Yield (path in the job, error) of each overlap in a job whose paths are absolute."""
    for one, other in combinations(_places(spec), 2):
        if _overlap(one, other):
            yield other.owner, _refusal(one, other)


def check_savepoint_place(spec: JobSpec, place: str) -> None:
    """Raise InvalidJobError if a savepoint would overlap another place of the job."""
    _check_savepoint(place, _places(spec))


def check_savepoint_folder(checkpoints: str, place: str) -> None:
    """Raise InvalidJobError if a savepoint would overlap the checkpoint folder from which it is created."""
    _check_savepoint(place, [_checkpoints(checkpoints)])


def _check_savepoint(place: str, others: Sequence[_Place]) -> None:
    savepoint = _Place("savepoint", ("savepoint",), place, _resolved(place))
    for other in others:
        if _overlap(other, savepoint):
            msg = f"savepoint{_refusal(other, savepoint)}"
            raise InvalidJobError(msg)


def _refusal(one: _Place, other: _Place) -> str:
    owner = path_text(one.owner)
    if one.role == other.role == "output":
        is_folder = other.paths and not other.shared
        has = "has this folder, or one in it or around it," if is_folder else "has this place already,"
        why = f"{owner} {has} and a reader could not tell their rows apart"
    elif one.role == "source" and other.role == "output":
        why = f"{owner} reads this place, or one in it or around it, so the job would read what it writes"
    elif one.role == "source":
        why = f"{owner} reads this folder, or one in it or around it, and would take its files for input"
    else:
        why = f"{owner} has this folder, or one in it or around it, and each would take files of the other for its own"
    return f": {why}. Choose another, outside of it. found={other.found}, {owner}={one.found}"


def _places(spec: JobSpec) -> list[_Place]:
    """Return all places of a job, first those that it reads."""
    read = {"sources": spec.sources, "dimensions": spec.dimensions}
    found = [
        _used("source", (section, name), used)
        for section, sources in read.items()
        for name, source in sources.items()
        for used in source.used_places
    ]
    if spec.execution.checkpointing.dir is not None:
        found.append(_checkpoints(spec.execution.checkpointing.dir))
    return found + [_used("output", path, used) for path, sink in spec.sinks.items() for used in sink.used_places]


def _checkpoints(folder: str) -> _Place:
    return _Place("checkpoints", ("execution", "checkpointing", "dir"), folder, _resolved(folder))


def _used(role: Role, owner: Path, used: UsedPlace) -> _Place:
    paths = () if used.path is None else _matched(used.path) if used.is_pattern else _resolved(used.path)
    return _Place(role, (*owner, *used.key), used.found, paths, used.names, used.shared)


def _overlap(one: _Place, other: _Place) -> bool:
    if one.role == other.role == "source":
        return False
    if one.shared and other.shared and one.paths == other.paths:
        return one.shared == other.shared
    if any(_same_name(left, right) for left in one.names for right in other.names):
        return True
    return any(_in_one_another(left, right) for left in one.paths for right in other.paths)


def _same_name(left: str, right: str) -> bool:
    """Return whether two names are of one thing. A topic may be a pattern, which is written after a `~`."""
    cluster, _, pattern = left.partition(" ~")
    if not pattern:
        return left == right
    there, _, topic = right.partition(" ")
    try:
        return cluster == there and re.fullmatch(pattern, topic) is not None
    except re.error:  # a pattern of Java's syntax that Python does not have
        return False


def _in_one_another(one: InputPath, other: InputPath) -> bool:
    """Return whether the places are equal, or one is in the other. At most the first of them has a pattern.

    Example: the pattern /data/*/x (literal /data) overlaps /data/out, below which it can match /data/out/x.
    The pattern /data/*.json does not overlap /data/out.
    """
    here, there = _parts(one.literal), _parts(other.literal)
    if here[: len(there)] == there:
        return True
    if there[: len(here)] != here:
        return False
    return not one.has_pattern or any(path.matches(there[len(here) :]) for path in alternatives(one))


def _parts(literal: str) -> tuple[str, ...]:
    scheme, _, rest = literal.rpartition("://")
    return (scheme, *(part for part in rest.split("/") if part))


def _resolved(place: str) -> tuple[InputPath, ...]:
    """Return the real path of a folder, file or URL without a pattern."""
    return (InputPath(_real(place)),)


def _matched(place: str) -> tuple[InputPath, ...]:
    """Return the real path of a folder, file or pattern, and the targets of the symbolic links that it matches."""
    path = input_path(_local(place), os.path.exists)
    whole = InputPath(_real(path.literal), path.parts)
    if not path.has_pattern or "://" in path.literal:
        return (whole,)
    links = [_real(str(link)) for one in alternatives(path) for link in _links(FilePath(one.literal), one.parts)]
    return (whole, *(InputPath(link) for link in links))


def _links(folder: FilePath, parts: Sequence[str]) -> Iterator[FilePath]:
    """Yield the symbolic links that a pattern matches, at any of its levels."""
    try:
        children = list(folder.iterdir()) if parts else []
    except OSError:  # no folder, or none that can be read: the source says so when it opens it
        return
    pattern = InputPath("", tuple(parts[:1]))
    for child in children:
        if pattern.matches((child.name,)):
            if child.is_symlink():
                yield child
            yield from _links(child, parts[1:])


def _local(place: str) -> str:
    return unquote(place.removeprefix("file://")) if place.startswith("file:///") else place


def _real(place: str) -> str:
    """Return the canonical name of a place."""
    place = _local(place)
    if "://" not in place:
        return os.path.realpath(place)
    scheme, _, rest = _S3.sub("s3://", place).partition("://")
    return f"{scheme.lower()}://{posixpath.normpath(unquote(rest))}"
