"""Decides which small files of an output are merged, from their names and sizes. Opens no file.

The name of a merged file contains its range of epochs (paths.compacted_path), and the file has all rows of its folder
in that range. So as soon as it exists, a listing shows which files it replaces (publish.superseded), and those can be
deleted. The listing is right at every moment, and a crash only leaves files to delete.

This requires that the ranges of a folder's merged files are nested or disjoint, so compactions run one after the
other. For example, 0-9 and 0-4 are allowed, 0-4 and 5-9 too, but not 0-5 and 3-9. A plan is a create-once object with
a number. A process that finds an unfinished plan completes it before it makes the next plan.

Invariants (tests/sinks/test_compact.py):
  I1  only epochs before the oldest checkpoint are merged, whole epochs, and of one folder
  I2  merging the planned files yields the rows of the folder in their order, each once
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
from mixedmode.time.window_range import WindowRange

_PLAN = DocumentKind("mixedmode-compaction", 2, "the plan of a compaction")


@dataclass(frozen=True, slots=True)
class Merge:
    """One merged file: its path, and the paths of the files that it replaces, in the order of their rows."""

    path: str
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Replacement:
    """Rows of windows that are replaced in a merge: those of the range go, those of the file `rows` come last."""

    start_us: int
    end_us: int
    rows: str

    @property
    def windows(self) -> WindowRange:
        """The windows whose rows are replaced."""
        return WindowRange(self.start_us, self.end_us)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """All merges of one compaction.

    before: the first epoch that is not merged. newest_only: drop rows of a key that a newer row before that epoch
    replaces. replacement: of a backfill, which has one merge.
    """

    before: Epoch
    newest_only: bool
    merges: tuple[Merge, ...]
    replacement: Replacement | None = None


@dataclass(frozen=True, slots=True)
class _Unit:
    """The smallest unit of a merge: a merged file, or all files that a folder has of an epoch."""

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
    """Return (parsed name of the merged file, the files to merge) for each merge. Pure.

    sizes: {file: the bytes that it will add} of the files that count. before: the first epoch that stays as it is.
    rewritten: files that lose rows, and so are rewritten even alone. A merged file has at most `target_bytes`, unless
    a single epoch is larger. Such an epoch is not divided, and is not rewritten unless it loses rows.
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
    """Return the number of the newest plan, and the plan; (-1, None) if there never was a plan."""
    parsed = ((paths.parse_compaction_path(path), path) for path, _ in store.list(paths.COMPACTIONS))
    found = max(((number, path) for number, path in parsed if number is not None), default=None)
    if found is None:
        return -1, None
    data = store.get(found[1])
    if data is None:  # a newer plan has replaced it meanwhile
        return newest_plan(store)
    return found[0], decode_as(_PLAN, CompactionPlan, data, where=f"{store.url}/{found[1]}")


def put_plan(store: ObjectStore, number: int, plan: CompactionPlan) -> bool:
    """Store a plan under `number`; return False if another process has already stored a plan of this number."""
    return store.put_new(paths.compaction_path(number), encode_as(_PLAN, plan))


def forget_plans(store: ObjectStore, *, before: int) -> None:
    """Delete older plans. The newest plan stays, because the next plan continues its numbers."""
    parsed = ((paths.parse_compaction_path(path), path) for path, _ in store.list(paths.COMPACTIONS))
    store.delete([path for number, path in parsed if number is not None and number < before])


def lost(store: ObjectStore, merge: Merge) -> CorruptStateError:
    """Return the error for files of a plan that no longer exist although their merged file does not exist, either."""
    return CorruptStateError(
        "files of the output are gone that were about to be merged, and the merged one is not there: they were deleted "
        "from outside, or rolled back by a job that was restored during the compaction. If it was the latter, delete "
        f"the folder {paths.COMPACTIONS} of the output and compact again; else restore the files from a copy. "
        f"folder={store.url}, merged={merge.path}, first_input={merge.inputs[0]}"
    )


def _units(files: Sequence[OutputFile]) -> Iterator[_Unit]:
    """Yield units in the order of their epochs.

    `files` must be sorted, and no merged file may share an epoch with another file.
    """
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
    """Return the name of a merged file. If one merged file is rewritten alone, it keeps its name and so is replaced,
    even if the compression setting has changed.
    """
    is_same = len(units) == 1 and units[0].files[0].is_compacted
    kept = units[0].files[0].extension if is_same else extension
    return OutputFile(folder, units[0].first, units[-1].last, -1, -1, kept)
