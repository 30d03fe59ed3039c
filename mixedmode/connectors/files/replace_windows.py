"""Replaces the rows of windows in an output folder: a compaction that leaves the old rows out and puts the new ones in.

The merged file has all other rows of its epochs, and appears at once under its name. So a reader sees all old rows of
the windows or all new ones, and a crash leaves the one or the other. As with a compaction, another process that finds
the plan unfinished completes it, with the same rows.

Only files of epochs to which the job cannot go back are rewritten.

Invariants (tests/sinks/test_replace_windows.py):
  I1  at any moment, the table is the old one or the new one, whatever is killed, and a repeat makes it the new one
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.paths import OutputFile
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch
from mixedmode.connectors.files.compact import delete_superseded, finish_plan
from mixedmode.connectors.files.compaction import (
    CompactionPlan,
    Merge,
    Replacement,
    forget_plans,
    newest_plan,
    put_plan,
)
from mixedmode.crash_points import reach
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.sinks.files import EPOCH_COLUMN, SinkTask
from mixedmode.sinks.publish import OutputDescription, parsed_files, read_output_description
from mixedmode.sinks.read_files import OP_COLUMN, read_rows
from mixedmode.sinks.row_files import open_row_file
from mixedmode.time.window_range import WindowRange

__all__ = ["replace_windows"]

_INSERT = "insert"


@dataclass(frozen=True, slots=True)
class _Place:
    """The files to merge, in order, and the name of the merged file."""

    merged: OutputFile
    files: tuple[OutputFile, ...]


def replace_windows(task: SinkTask, rows: pa.Table, windows: WindowRange, before: Epoch) -> None:
    """Replace the rows of windows; see Sink.replace_windows. Every file of the output is read."""
    store = ObjectStore(task.url)
    description = read_output_description(store)
    assert description is not None, "prepared"
    number, plan = newest_plan(store)
    if plan is not None:
        finish_plan(task, description, plan)
    delete_superseded(store)
    files = parsed_files(store)
    place = _place(store, description, files, windows, before)
    if place is None:
        if rows.num_rows:
            raise InvalidJobError(_NO_FILE.format(folder=store.url, before=before))
        return
    forget_rows(store)
    given = _stored(store, task, description, place.merged, rows)
    merged = paths.compacted_path(place.merged.first, place.merged.last, place.merged.extension)
    merge = Merge(merged, tuple(files[file][0] for file in place.files))
    plan = CompactionPlan(before, False, (merge,), Replacement(windows.start_us, windows.end_us, given))
    if not put_plan(store, number + 1, plan):
        raise RetryableError(_AT_ONCE.format(folder=store.url))
    forget_plans(store, before=number + 1)
    reach("compact-planned", before)
    finish_plan(task, description, plan, is_own=True)
    if merge.path in merge.inputs and newest_plan(store)[0] != number + 1:
        # a compaction may have merged the old file under another name, before this one replaced it
        raise RetryableError(_AT_ONCE.format(folder=store.url))
    store.delete([given])


def forget_rows(store: ObjectStore) -> None:
    """Delete rows that no unfinished plan needs; every plan is finished when this is called."""
    store.delete([path for path, _ in store.list(paths.COMPACTIONS) if paths.parse_compaction_path(path) is None])


def _place(
    store: ObjectStore,
    description: OutputDescription,
    files: Mapping[OutputFile, tuple[str, int]],
    windows: WindowRange,
    before: Epoch,
) -> _Place | None:
    """Return the files to merge: those with rows of the windows, and all between them; without any, the newest one.

    Return None if no file may be rewritten. Raise InvalidJobError if a newer file has rows of the windows.
    """
    touched = []
    for file, (path, _) in files.items():
        if pc.any(windows.has(read_rows(store, path, description))).as_py():
            touched.append(file)
            if file.last >= before:
                raise InvalidJobError(_TOO_NEW.format(epoch=file.last, before=before, folder=store.url))
    old = sorted(file for file in files if file.last < before)
    touched = touched or old[-1:]
    if not touched:
        return None
    inside = _whole_epochs(old, touched)
    if len(inside) == 1 and inside[0].is_compacted:
        return _Place(inside[0], inside)
    first, last = min(file.first for file in inside), max(file.last for file in inside)
    return _Place(OutputFile("", first, last, -1, -1, inside[-1].extension), inside)


def _whole_epochs(old: Sequence[OutputFile], touched: Sequence[OutputFile]) -> tuple[OutputFile, ...]:
    """Return the files of all epochs between the first and the last of `touched`; a merged file is in as a whole."""
    first, last = min(file.first for file in touched), max(file.last for file in touched)
    while True:
        inside = tuple(file for file in old if file.first <= last and file.last >= first)
        wider = min(file.first for file in inside), max(file.last for file in inside)
        if wider == (first, last):
            return inside
        first, last = wider


def _stored(
    store: ObjectStore, task: SinkTask, description: OutputDescription, merged: OutputFile, rows: pa.Table
) -> str:
    """Store the new rows in the format of the output, as rows of the last epoch that is merged; return the path."""
    rows = rows.select([column.name for column in description.columns])
    if description.key_columns:
        rows = rows.append_column(OP_COLUMN, pa.array([_INSERT] * rows.num_rows, pa.string()))
    rows = rows.append_column(EPOCH_COLUMN, pa.array([int(merged.last)] * rows.num_rows, pa.int64()))
    path = paths.replacement_path(uuid.uuid4().hex, task.extension)
    with temporary_folder("backfill-") as folder:
        local = folder / "rows"
        file = open_row_file(local, rows.schema, task.format, task.compression)
        file.write(rows)
        file.close()
        store.put_file(local, path)
    return path


_TOO_NEW = (
    "windows of the range are in files of an epoch to which the job may still go back, and such files are not "
    "rewritten. Let the job commit more epochs, or choose an earlier range, and do the same again. Nothing was "
    "replaced. epoch={epoch}, oldest_checkpoint={before}, folder={folder}"
)
_NO_FILE = (
    "the output has no file of an epoch before the oldest checkpoint, so no file may be rewritten. Let the job commit "
    "more epochs, and do the same again. Nothing was replaced. oldest_checkpoint={before}, folder={folder}"
)
_AT_ONCE = "a compaction of the output began at the same time. Do the same again when it has ended. folder={folder}"
