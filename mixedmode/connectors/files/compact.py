"""Compaction of an output: merges small files of old epochs into larger files, while the job and its readers run.

The steps, any of which may be the last before a crash (compaction.py explains why that is safe):

    finish an earlier compaction that was interrupted; delete files that a merged file has replaced
    decide which files to merge, and write the plan, create-once
    for each merged file: write it locally, put it at once under its name, delete the files that it replaces

The files of a job's retained checkpoints are not touched, because they are verified, published again, and rolled back.

Invariants (tests/sinks/test_compact.py):
  I1  at any moment, a reader of `publish.steady_files` gets the rows of every epoch, each once (with newest_only: the
      same current table)
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.output_paths import OutputFile
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch
from mixedmode.connectors.files.compaction import (
    NEVER_REPLACED,
    CompactionPlan,
    Merge,
    lost,
    newest_plan,
    next_number,
    plan_merges,
    put_plan,
)
from mixedmode.connectors.files.merge_files import ChangedMeanwhileError, FileMerger
from mixedmode.crash_points import reach
from mixedmode.errors import InvalidJobError
from mixedmode.keys import group_codes
from mixedmode.operators.tables import column_of
from mixedmode.sinks.files import SinkTask
from mixedmode.sinks.publish import OutputDescription, parsed_files, read_output_description, superseded
from mixedmode.sinks.read_files import FileGoneError, read_rows

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Compacted:
    """The number and the bytes of the files that count, before and after a compaction."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int


def compact_output(task: SinkTask, *, before: Epoch, target_bytes: int, newest_only: bool) -> Compacted:
    """Merge files of the epochs before `before`, the oldest epoch that a checkpoint of the job names.

    newest_only: of the rows of a key in those epochs, keep only the newest, also if it deletes the key; rows without a
    key all stay. Raises InvalidJobError if the folder has no output, or the output of a batch run.
    """
    description = _description(ObjectStore(task.url))
    newest_only = newest_only and bool(description.key_columns)
    while True:
        with suppress(FileGoneError, ChangedMeanwhileError):  # another process changed the folder
            return _compacted(task, description, before=before, target_bytes=target_bytes, newest_only=newest_only)


def _compacted(
    task: SinkTask, description: OutputDescription, *, before: Epoch, target_bytes: int, newest_only: bool
) -> Compacted:
    """Raise FileGoneError or ChangedMeanwhileError if another process changed the folder before the plan is stored."""
    store = ObjectStore(task.url)
    number, files, oldest = finished(task, description)
    sizes = {file: size for file, (_, size) in files.items()}
    kept = _kept_rows(store, description, files, before) if newest_only else {}
    rewritten = {file for file, mask in kept.items() if not mask.all()}
    left = {file: int(size * kept[file].mean()) if file in rewritten else size for file, size in sizes.items()}
    merges = plan_merges(
        left,
        before=before,
        target_bytes=target_bytes,
        number=number,
        extension=task.extension,
        rewritten=rewritten,
    )
    if merges:
        wanted = tuple(merge_of(name, files, inputs) for name, inputs in merges)
        plan = CompactionPlan(before, newest_only, wanted, oldest)
        if not put_plan(store, number, plan):
            raise ChangedMeanwhileError
        reach("compact-planned", before)
        finish_plan(task, description, plan)
    after = [size for _, size in parsed_files(store).values()]
    return Compacted(len(sizes), len(after), sum(sizes.values()), sum(after))


def _description(store: ObjectStore) -> OutputDescription:
    found = read_output_description(store)
    if found is None:
        msg = (
            "there is no output of a job to compact here: there is no _mixedmode in the folder. Start the job "
            f"first, or correct the path of the output. folder={store.url}"
        )
        raise InvalidJobError(msg)
    if found.run == "batch":
        msg = (
            "this output is a batch run's, which the next run replaces as a whole, perhaps while it is compacted. For "
            f"fewer and larger files, set a smaller parallelism, or no partitions. folder={store.url}"
        )
        raise InvalidJobError(msg)
    return found


def finished(task: SinkTask, description: OutputDescription) -> tuple[int, dict[OutputFile, tuple[str, int]], Epoch]:
    """Finish the newest plan. Return the number of the next one, the files that count, and the oldest epoch to which
    the output can go back.
    """
    store = ObjectStore(task.url)
    number, plan = newest_plan(store)
    if plan is not None:
        finish_plan(task, description, plan)
    _delete_superseded(store)
    files = parsed_files(store)
    return next_number(number, files), files, NEVER_REPLACED if plan is None else plan.oldest


def merge_of(name: OutputFile, files: Mapping[OutputFile, tuple[str, int]], inputs: Sequence[OutputFile]) -> Merge:
    """Return the merge of some files of a listing.  name: the parsed name of the merged file."""
    path = output_paths.compacted_path(name.first, name.last, name.part, name.extension, folder=name.folder)
    return Merge(path, tuple(files[file][0] for file in inputs))


def finish_plan(task: SinkTask, description: OutputDescription, plan: CompactionPlan) -> None:
    """Create the missing merged files of a plan, and delete the files that they replace. Repeatable, also
    concurrently.
    """
    store = ObjectStore(task.url)
    missing = [merge for merge in plan.merges if not _is_made(store, merge)]
    masks = _masks(store, description, plan) if missing else {}
    for merge in plan.merges:
        if merge in missing:
            _make(task, description, plan, merge, masks)
        reach("compact-merged", plan.before)
        store.delete(merge.inputs)
        reach("compact-deleted", plan.before)


def _masks(store: ObjectStore, description: OutputDescription, plan: CompactionPlan) -> dict[str, Mask]:
    """Return {path of a file: mask of the rows that a plan keeps}; a file that is not in it keeps all rows."""
    while True:
        files = parsed_files(store)
        with suppress(FileGoneError):  # another process is finishing the same plan
            if plan.newest_only:
                kept = _kept_rows(store, description, files, plan.before)
            elif plan.replacement is not None:
                kept = _rows_outside(store, description, files, plan)
            else:
                kept = {}
            return {files[file][0]: mask for file, mask in kept.items()}


def _is_made(store: ObjectStore, merge: Merge) -> bool:
    """Return whether a merged file exists, or a later merged file with all of its epochs."""
    if store.exists(merge.path):
        return True
    wanted = output_paths.parse_output_path(merge.path)
    assert wanted is not None, merge
    return wanted in superseded([*parsed_files(store), wanted])


def _make(
    task: SinkTask, description: OutputDescription, plan: CompactionPlan, merge: Merge, masks: Mapping[str, Mask]
) -> None:
    store = ObjectStore(task.url)
    with temporary_folder("compact-") as folder:
        local = folder / "merged"
        try:
            with FileMerger(local, merge.path, task, description) as merger:
                for number, path in enumerate(merge.inputs):
                    merger.add(_fetched(store, path, folder / f"input-{number}"), path, masks.get(path))
                if plan.replacement is not None:
                    rows = plan.replacement.rows
                    merger.add(_fetched(store, rows, folder / "rows"), rows.removesuffix(".rows"), None)
        except ChangedMeanwhileError:  # another process finishes the same plan
            if not _is_made(store, merge):
                raise lost(store, merge) from None
            return
        reach("compact-written", plan.before)
        store.put_file(local, merge.path)


def _fetched(store: ObjectStore, path: str, local: Path) -> Path:
    if not store.fetch_file(path, local):
        raise ChangedMeanwhileError
    return local


def _delete_superseded(store: ObjectStore) -> None:
    """Delete the replaced files that an interrupted compaction has left."""
    files = parsed_files(store)
    store.delete([files[file][0] for file in sorted(superseded(files))])


def _kept_rows(
    store: ObjectStore,
    description: OutputDescription,
    files: Mapping[OutputFile, tuple[str, int]],
    before: Epoch,
) -> dict[OutputFile, Mask]:
    """Return {file: mask of the rows that are the newest of their keys among the epochs before `before`}. Reads all
    keys.

    A key is in one folder, so only the keys of one folder are in memory at a time.
    """
    kept: dict[OutputFile, Mask] = {}
    old = sorted(file for file in files.keys() - superseded(files) if file.last < before)
    for folder in sorted({file.folder for file in old}):
        inside = [file for file in old if file.folder == folder]
        keys = [read_rows(store, files[file][0], description).select(list(description.key_columns)) for file in inside]
        everything = pa.concat_tables(keys).combine_chunks()
        is_newest = np.zeros(everything.num_rows, np.bool_)
        if everything.num_rows:
            groups = group_codes([column_of(everything, name) for name in description.key_columns])
            newest = np.full(len(groups.first_row), -1, np.int64)
            np.maximum.at(newest, groups.codes, np.arange(everything.num_rows))
            is_newest[newest] = True
        ends = np.cumsum([table.num_rows for table in keys])
        kept |= {
            file: is_newest[end - table.num_rows : end] for file, table, end in zip(inside, keys, ends, strict=True)
        }
    return kept


def _rows_outside(
    store: ObjectStore,
    description: OutputDescription,
    files: Mapping[OutputFile, tuple[str, int]],
    plan: CompactionPlan,
) -> dict[OutputFile, Mask]:
    """Return {file of a plan: mask of the rows whose windows the plan does not replace}."""
    assert plan.replacement is not None, plan
    inputs = {path for merge in plan.merges for path in merge.inputs}
    return {
        file: ~np.asarray(plan.replacement.replaced.has(read_rows(store, path, description)))
        for file, (path, _) in files.items()
        if path in inputs
    }
