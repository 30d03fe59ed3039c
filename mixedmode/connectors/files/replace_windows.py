"""Replaces the rows of windows in an output folder: a compaction that leaves the old rows out and puts the new ones in.

The merged file has all other rows of its epochs, and appears at once under its name. So a reader sees all old rows of
the windows or all new ones, and a crash leaves the one or the other. As with a compaction, another process that finds
the plan unfinished completes it, with the same rows.

Only files of epochs to which the job cannot go back are rewritten. A savepoint may be older. After it was restored, the
job would write rows of windows again that a backfill has added, or lack them where they are in a later file. So the
plan says to which epoch the output can go back from then on.

Invariants (tests/sinks/test_replace_windows.py):
  I1  at any moment, the table is the old one or the new one, whatever is killed, and a repeat makes it the new one
"""

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.output_paths import OutputFile
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch
from mixedmode.connectors.files.compact import finish_plan, finished, merge_of
from mixedmode.connectors.files.compaction import CompactionPlan, Replacement, put_plan
from mixedmode.connectors.files.merge_files import ChangedMeanwhileError
from mixedmode.crash_points import reach
from mixedmode.errors import InvalidJobError
from mixedmode.sinks.files import EPOCH_COLUMN, SinkTask
from mixedmode.sinks.publish import OutputDescription, read_output_description
from mixedmode.sinks.read_files import OP_COLUMN, FileGoneError, read_rows
from mixedmode.sinks.row_files import open_row_file
from mixedmode.time.window_range import ReplacedRows

__all__ = ["replace_windows"]

_INSERT = "insert"


def replace_windows(task: SinkTask, rows: pa.Table, replaced: ReplacedRows, before: Epoch) -> None:
    """Replace the rows of windows; see Sink.replace_windows. Every file of the output is read."""
    description = read_output_description(ObjectStore(task.url))
    assert description is not None, "prepared"
    while True:
        with suppress(FileGoneError, ChangedMeanwhileError):  # another process changed the folder
            _replace(task, description, rows, replaced, before)
            return


def _replace(
    task: SinkTask, description: OutputDescription, rows: pa.Table, replaced: ReplacedRows, before: Epoch
) -> None:
    """Raise FileGoneError or ChangedMeanwhileError if another process changed the folder before the plan is stored."""
    store = ObjectStore(task.url)
    number, files, oldest = finished(task, description)
    inside = _files_to_merge(store, description, files, replaced, before)
    if not inside:
        if rows.num_rows:
            raise InvalidJobError(_NO_FILE.format(folder=store.url, before=before))
        return
    first, last = min(file.first for file in inside), max(file.last for file in inside)
    given = output_paths.replacement_path(number, uuid.uuid4().hex, task.extension)
    names = read_rows(store, files[inside[-1]][0], description).column_names  # of a row that is added, some have _op
    rows = rows.append_column(OP_COLUMN, pa.array([_INSERT] * rows.num_rows, pa.string()))
    rows = rows.append_column(EPOCH_COLUMN, pa.array([int(last)] * rows.num_rows, pa.int64()))
    _store_rows(store, task, rows.select(names), given)
    merge = merge_of(OutputFile("", first, last, -1, number, task.extension), files, inside)
    replacement = Replacement(replaced, given)
    plan = CompactionPlan(before, False, (merge,), max(oldest, before), replacement)
    if not put_plan(store, number, plan):
        store.delete([given])
        raise ChangedMeanwhileError
    reach("compact-planned", before)
    finish_plan(task, description, plan)
    store.delete([given])


def _files_to_merge(
    store: ObjectStore,
    description: OutputDescription,
    files: Mapping[OutputFile, tuple[str, int]],
    replaced: ReplacedRows,
    before: Epoch,
) -> Sequence[OutputFile]:
    """Return the files to merge: those with rows of the windows, and all between them; without any, the newest one.

    Return none if no file may be rewritten. Raise InvalidJobError if a newer file has rows of the windows.
    """
    touched = []
    for file, (path, _) in files.items():
        if pc.any(replaced.has(read_rows(store, path, description))).as_py():
            touched.append(file)
            if file.last >= before:
                raise InvalidJobError(_TOO_NEW.format(epoch=file.last, before=before, folder=store.url))
    old = sorted(file for file in files if file.last < before)
    touched = touched or old[-1:]
    return _whole_epochs(old, touched) if touched else ()


def _whole_epochs(old: Sequence[OutputFile], touched: Sequence[OutputFile]) -> tuple[OutputFile, ...]:
    """Return the files of all epochs between the first and the last of `touched`; a merged file is in as a whole."""
    first, last = min(file.first for file in touched), max(file.last for file in touched)
    while True:
        inside = tuple(file for file in old if file.first <= last and file.last >= first)
        wider = min(file.first for file in inside), max(file.last for file in inside)
        if wider == (first, last):
            return inside
        first, last = wider


def _store_rows(store: ObjectStore, task: SinkTask, rows: pa.Table, path: str) -> None:
    """Store the new rows in the format of the output."""
    with temporary_folder("backfill-") as folder:
        local = folder / "rows"
        file = open_row_file(local, rows.schema, task.format, task.compression)
        file.write(rows)
        file.close()
        store.put_file(local, path)


_TOO_NEW = (
    "windows of the range are in files of an epoch to which the job may still go back, and such files are not "
    "rewritten. Let the job commit more epochs, or choose an earlier range, and do the same again. Nothing was "
    "replaced. epoch={epoch}, oldest_checkpoint={before}, folder={folder}"
)
_NO_FILE = (
    "the output has no file of an epoch before the oldest checkpoint, so no file may be rewritten. Let the job commit "
    "more epochs, and do the same again. Nothing was replaced. oldest_checkpoint={before}, folder={folder}"
)
