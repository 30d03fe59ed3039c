"""Decides which small files of an output are merged, from their names and sizes. Opens no file.

The name of a merged file contains its range of epochs and the number of its plan (output_paths.compacted_path), and
the file has all rows of its folder in that range. So as soon as it exists, a listing shows which files it replaces
(publish.superseded), and those can be deleted. The listing is right at every moment, and a crash only leaves files to
delete. No file is ever written over: whoever writes a merged file late writes what a newer plan has replaced.

This requires that the ranges of a folder's merged files are nested or disjoint, so compactions run one after the
other. For example, 0-9 and 0-4 are allowed, 0-4 and 5-9 too, but not 0-5 and 3-9. A plan is a create-once object with
a number. A process that finds an unfinished plan completes it before it makes the next plan.

Invariants (tests/sinks/test_compact.py):
  I1  only epochs before the oldest checkpoint are merged, whole epochs, and of one folder
  I2  merging the planned files yields the rows of the folder in their order, each once
  I3  the numbers of plans grow, and no two plans have one number (tests/sinks/test_replace_windows.py)
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.manifest import decode_as, encode_as
from mixedmode.checkpoint.output_paths import OutputFile
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch
from mixedmode.errors import CorruptStateError
from mixedmode.time.window_range import ReplacedRows

#: what `CompactionPlan.oldest` is while no rows were replaced
NEVER_REPLACED = Epoch(0)
_PLAN = DocumentKind("mixedmode-compaction", 4, "the plan of a compaction")


@dataclass(frozen=True, slots=True)
class Merge:
    """One merged file: its path, and the paths of the files that it replaces, in the order of their rows."""

    path: str
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Replacement:
    """Rows of windows that are replaced in a merge: `replaced` go, those of the file `rows` come last."""

    replaced: ReplacedRows
    rows: str


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """All merges of one compaction.

    before: the first epoch that is not merged. newest_only: drop rows of a key that a newer row before that epoch
    replaces. oldest: the oldest epoch to which the output can go back, because this plan or an earlier one replaces
    rows. replacement: of a backfill, which has one merge.
    """

    before: Epoch
    newest_only: bool
    merges: tuple[Merge, ...]
    oldest: Epoch
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
    number: int,
    extension: str,
    rewritten: Collection[OutputFile] = (),
) -> list[tuple[OutputFile, tuple[OutputFile, ...]]]:
    """Return (parsed name of the merged file, the files to merge) for each merge. Pure.

    sizes: {file: the bytes that it will add} of the files that count. before: the first epoch that stays as it is.
    number: that the plan is to have.
    rewritten: files that lose rows, and so are rewritten even alone. A merged file has at most `target_bytes`, unless
    a single epoch is larger. Such an epoch is not divided, and is not rewritten unless it loses rows.
    """
    by_folder: dict[str, list[OutputFile]] = {}
    for file in sorted(sizes):
        if file.last < before:
            by_folder.setdefault(file.folder, []).append(file)
    return [
        (
            OutputFile(folder, units[0].first, units[-1].last, -1, number, extension),
            tuple(file for unit in units for file in unit.files),
        )
        for folder, files in by_folder.items()
        for units in _groups(_units(files), sizes, target_bytes)
        if _is_worth_it(units, sizes, target_bytes, rewritten)
    ]


def newest_plan(store: ObjectStore) -> tuple[int, CompactionPlan | None]:
    """Return the number of the newest plan, and the plan; (-1, None) if there never was a plan."""
    number = _newest_number(store)
    if number < 0:
        return -1, None
    path = output_paths.compaction_path(number)
    data = store.get(path)
    if data is None:  # a newer plan has replaced it meanwhile
        return newest_plan(store)
    return number, decode_as(_PLAN, CompactionPlan, data, where=f"{store.url}/{path}")


def put_plan(store: ObjectStore, number: int, plan: CompactionPlan) -> bool:
    """Store a plan under `number`, and delete older plans, and rows that no plan needs any more. The newest plan stays,
    because the next one continues its numbers.

    Return False, and store nothing, if another process has stored a plan of this number or of a later one.
    """
    path = output_paths.compaction_path(number)
    if not store.put_new(path, encode_as(_PLAN, plan)):
        return False
    if _newest_number(store) > number:  # the other plan of this number is forgotten already
        store.delete([path])
        return False
    own = None if plan.replacement is None else plan.replacement.rows
    store.delete([path for path, _ in store.list(output_paths.COMPACTIONS) if path != own and _is_over(path, number)])
    return True


def next_number(number: int, files: Collection[OutputFile]) -> int:
    """Return the number of the next plan.  number: of the newest one. files: also those of plans that were deleted."""
    return 1 + max([number, *(file.part for file in files if file.is_compacted)])


def _newest_number(store: ObjectStore) -> int:
    numbers = [output_paths.parse_compaction_path(path) for path, _ in store.list(output_paths.COMPACTIONS)]
    return max((number for number in numbers if number is not None), default=-1)


def _is_over(path: str, number: int) -> bool:
    """Return whether a plan is older than that of a number, or rows are not needed once that plan is stored."""
    of_plan, of_rows = output_paths.parse_compaction_path(path), output_paths.parse_replacement_path(path)
    return (of_plan is not None and of_plan < number) or (of_rows is not None and of_rows <= number)


def lost(store: ObjectStore, merge: Merge) -> CorruptStateError:
    """Return the error for files of a plan that no longer exist although their merged file does not exist, either."""
    return CorruptStateError(
        "files of the output are gone that were about to be merged, and the merged one is not there: they were deleted "
        "from outside, or rolled back by a job that was restored during the compaction. If it was the latter, delete "
        f"the folder {output_paths.COMPACTIONS} of the output and compact again; else restore the files from a copy. "
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
