"""Which small files of an output are merged, decided from their names and sizes. Nothing here opens a file.

The one idea: a merged file's name says which epochs it has (paths.compacted_path), and it has all that its folder had
of them. So the moment it is there, whoever lists the folder knows what it takes the place of (publish.superseded); what
is left to do is to delete that. There is no moment at which the listing lies, and a crash leaves only files to delete.

For that, the ranges of a folder's merged files must lie in one another or apart: compactions come one after the other.
A plan is a create-once object with a number; who finds one that is not done finishes it before making the next.

Invariants (tests/sinks/test_compact.py):
  I1  only epochs before the oldest checkpoint are merged, whole ones, and of one folder
  I2  merging what was planned gives the rows of the folder in their order, each once
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.manifest import decode_as, encode_as
from mixedmode.checkpoint.paths import OutputFile
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch
from mixedmode.errors import CorruptStateError

_PLAN = DocumentKind("mixedmode-compaction", 1, "the plan of a compaction")


@dataclass(frozen=True, slots=True)
class Merge:
    """One merged file: its path, and those that it takes the place of, in the order of their rows."""

    path: str
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """All that one compaction merges.

    before: the first epoch that it leaves alone. newest_only: rows of a key that a newer row before that epoch replaces
    are dropped.
    """

    before: Epoch
    newest_only: bool
    merges: tuple[Merge, ...]


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is merged whole: a merged file, or all files that a folder has of an epoch."""

    first: Epoch
    last: Epoch
    files: tuple[OutputFile, ...]


def plan_merges(
    sizes: Mapping[OutputFile, int],
    *,
    before: Epoch,
    target_bytes: int,
    extension: str,
    rewritten: Collection[OutputFile] = (),
) -> list[tuple[OutputFile, tuple[OutputFile, ...]]]:
    """(what a merged file's name is to say, what it is made of) of each. Pure.

    sizes: {file: the bytes that it will add} of the files that count. before: the first epoch that stays as it is.
    rewritten: files that lose rows, and so are written anew even alone. A merged file is at most `target_bytes` large,
    but where one epoch is: it is never divided, and stays as it is unless it loses rows.
    """
    by_folder: dict[str, list[OutputFile]] = {}
    for file in sorted(sizes):
        if file.last < before:
            by_folder.setdefault(file.folder, []).append(file)
    return [
        (_merged_name(units, folder, extension), tuple(file for unit in units for file in unit.files))
        for folder, files in by_folder.items()
        for units in _groups(_units(files), sizes, target_bytes)
        if _is_worth_it(units, sizes, target_bytes, rewritten)
    ]


def newest_plan(store: ObjectStore) -> tuple[int, CompactionPlan | None]:
    """The number of the newest plan and the plan; (-1, None) if there never was one."""
    parsed = ((paths.parse_compaction_path(path), path) for path, _ in store.list(paths.COMPACTIONS))
    found = max(((number, path) for number, path in parsed if number is not None), default=None)
    if found is None:
        return -1, None
    data = store.get(found[1])
    if data is None:  # a newer one has taken its place since
        return newest_plan(store)
    return found[0], decode_as(_PLAN, CompactionPlan, data, where=f"{store.url}/{found[1]}")


def put_plan(store: ObjectStore, number: int, plan: CompactionPlan) -> bool:
    """Make a plan the newest one; False if somebody else has made one of this number."""
    return store.put_new(paths.compaction_path(number), encode_as(_PLAN, plan))


def forget_plans(store: ObjectStore, *, before: int) -> None:
    """Delete older plans. The newest one stays: the next one counts on from its number."""
    parsed = ((paths.parse_compaction_path(path), path) for path, _ in store.list(paths.COMPACTIONS))
    store.delete([path for number, path in parsed if number is not None and number < before])


def lost(store: ObjectStore, merge: Merge) -> CorruptStateError:
    """The error for files that a plan names, and that are gone without what they were to be merged into."""
    return CorruptStateError(
        "files of the output are gone that were about to be merged, and the merged one is not there: they were deleted "
        "from outside, or taken back by a job that was restored while the compaction ran. If it was the latter, delete "
        f"the folder {paths.COMPACTIONS} of the output and compact again; else restore the files from a copy. "
        f"folder={store.url}, merged={merge.path}, first_input={merge.inputs[0]}"
    )


def _units(files: Sequence[OutputFile]) -> Iterator[_Unit]:
    """In the order of their epochs; `files` are sorted, and no merged one has an epoch of another file."""
    waiting: list[OutputFile] = []
    for file in files:
        if waiting and (file.is_compacted or waiting[0].first != file.first):
            yield _Unit(waiting[0].first, waiting[0].last, tuple(waiting))
            waiting = []
        waiting.append(file)
        if file.is_compacted:
            yield _Unit(file.first, file.last, tuple(waiting))
            waiting = []
    if waiting:
        yield _Unit(waiting[0].first, waiting[0].last, tuple(waiting))


def _groups(units: Iterator[_Unit], sizes: Mapping[OutputFile, int], target_bytes: int) -> Iterator[list[_Unit]]:
    group: list[_Unit] = []
    total = 0
    for unit in units:
        size = _size([unit], sizes)
        if group and total + size > target_bytes:
            yield group
            group, total = [], 0
        group.append(unit)
        total += size
    if group:
        yield group


def _is_worth_it(
    units: Sequence[_Unit], sizes: Mapping[OutputFile, int], target_bytes: int, rewritten: Collection[OutputFile]
) -> bool:
    files = [file for unit in units for file in unit.files]
    return any(file in rewritten for file in files) or (len(files) > 1 and _size(units, sizes) <= target_bytes)


def _size(units: Sequence[_Unit], sizes: Mapping[OutputFile, int]) -> int:
    return sum(sizes[file] for unit in units for file in unit.files)


def _merged_name(units: Sequence[_Unit], folder: str, extension: str) -> OutputFile:
    """One merged file written anew keeps its name, whatever the compression is now: it takes its own place."""
    is_same = len(units) == 1 and units[0].files[0].is_compacted
    kept = units[0].files[0].extension if is_same else extension
    return OutputFile(folder, units[0].first, units[-1].last, -1, -1, kept)
