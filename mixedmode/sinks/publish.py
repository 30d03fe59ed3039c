"""Publication: staged outputs of tasks get the names that readers see, once their epoch is committed.

A published name depends only on epoch, subtask, partition and part, never on the attempt. So publishing is a rename
that anyone who holds the manifest may repeat any number of times. The folder is the same in the end.

States of one file when publication begins (a crash or another publisher can cause any of the first three):

    staged     final              action
    exists     -                  rename
    exists     exists, same       delete the staged file (an object store's rename was interrupted after its copy)
    -          exists, same       nothing
    -          -                  CorruptStateError: committed output is lost
    any        exists, different  CorruptStateError: another program wrote a file under this name

A compaction (compaction.py) merges the files of old epochs in a folder. The name of a merged file contains its range
of epochs. So a listing shows which files it replaces, even if they are not deleted yet: `steady_files`.

Invariants (tests/sinks/test_publish.py):
  I1  after publish returns, every final file exists, complete and durable, and no staged file does
  I2  a repeated publish changes nothing more, also after a publish that was interrupted anywhere
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.manifest import decode_as, encode_as
from mixedmode.checkpoint.output_paths import OutputFile
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.errors import CorruptStateError, InvalidJobError, RetryableError

__all__ = [
    "OutputColumn",
    "OutputDescription",
    "describe_output",
    "parsed_files",
    "publish",
    "published_files",
    "published_of",
    "read_output_description",
    "steady_files",
    "superseded",
    "unpublished_after_waiting",
]

_LOOK_SECONDS, _LOOKS = 0.2, 50  # at files that a running job is about to publish

_OUTPUT = DocumentKind("mixedmode-output", 2, "the description of an output folder")


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of an output, and its type as the writer of the output names it."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class OutputDescription:
    """The contents of an output folder.

    run: whether a start replaces the output (batch) or continues it. key_columns: of an upsert output; () if the
    output has no key. partition_by: as in the job file.
    """

    job: str
    run: Literal["batch", "continuous"]
    format: str
    key_columns: tuple[str, ...]
    columns: tuple[OutputColumn, ...]
    partition_by: tuple[str, ...] = ()


def publish(store: ObjectStore, staged: Sequence[StagedFile]) -> None:
    """Rename each staged output to its final name.  store: the sink's folder; staged: `outputs` of a committed
    manifest.

    Called by the driver after the commit, and again at the start for the latest manifest. When it returns, all outputs
    are published durably. Raises CorruptStateError (restore) if an output is lost or was overwritten, RetryableError if
    the folder was deleted or moved while the job runs: what was published before would be missing.
    """
    assert len({file.final_path for file in staged}) == len(staged), "two files under one name: one would be lost"
    names = [*(file.final_path for file in staged), *(file.staged_path for file in staged)]
    description, *sizes = store.at_once(store.size, [output_paths.OUTPUT_DESCRIPTION, *names])
    if staged and description is None:
        raise _no_description(store)
    found = list(zip(staged, sizes[: len(staged)], sizes[len(staged) :], strict=True))
    unpublished = [file for file, final, _ in found if final is None]
    for file, final, size in found:
        if final is None and size not in {None, file.bytes}:
            raise _damaged(store, file, size)
    store.at_once(lambda file: _is_published(store, file), [file for file, final, _ in found if final is not None])
    # includes published files: a crash may have interrupted their rename before it was durable, and this syncs it
    done = store.rename_all([(file.staged_path, file.final_path) for file in staged])
    for file, was_renamed in zip(staged, done, strict=True):
        if file in unpublished and not was_renamed and not _is_published(store, file):  # another publisher, or lost
            raise _lost(store, file)


def unpublished_after_waiting(
    staged: Sequence[tuple[ObjectStore, StagedFile]], sleep: Callable[[float], None] = time.sleep
) -> StagedFile | None:
    """Wait a while until the files of a committed epoch are published. Return one that is not; None if all are.

    staged: the files, each with the store in which it was staged.
    """
    for seconds in [_LOOK_SECONDS] * _LOOKS + [0.0]:
        staged = [(store, file) for store, file in staged if store.exists(file.staged_path)]
        if not staged:
            return None
        sleep(seconds)
    return staged[0][1]


def describe_output(store: ObjectStore, description: OutputDescription) -> None:
    """Write `_mixedmode`, create-once.  Raises InvalidJobError if the folder holds another output."""
    path = output_paths.OUTPUT_DESCRIPTION
    if store.put_new(path, encode_as(_OUTPUT, description)):
        return
    stored = read_output_description(store)
    if stored is None:
        raise _no_description(store)
    if stored != description:
        msg = (
            "the output folder holds the output of another job, or of this one with other columns, and files of both "
            f"would be mixed: {'; '.join(_differences(stored, description))}. Give this output a new path, or put the "
            f"setting back. folder={store.url}"
        )
        raise InvalidJobError(msg)


def read_output_description(store: ObjectStore) -> OutputDescription | None:
    """Return the description of an output folder;
    None if mixedmode never wrote to it.  Raises CorruptStateError if the description is damaged.
    """
    path = output_paths.OUTPUT_DESCRIPTION
    data = store.get(path)
    return None if data is None else decode_as(_OUTPUT, OutputDescription, data, where=f"{store.url}/{path}")


def published_files(store: ObjectStore) -> Sequence[tuple[str, int]]:
    """Return (path, bytes) of published outputs, ordered by name, also of those that a compacted file has replaced."""
    return [(path, size) for path, size in store.list() if output_paths.parse_output_path(path) is not None]


def parsed_files(store: ObjectStore) -> dict[OutputFile, tuple[str, int]]:
    """Return {parsed name: (path, bytes)} of published_files."""
    found = ((output_paths.parse_output_path(path), (path, size)) for path, size in store.list())
    return {file: entry for file, entry in found if file is not None}


def superseded(files: Iterable[OutputFile]) -> set[OutputFile]:
    """Return the files of a folder whose epochs are all in one other compacted file, which readers use instead. Pure.

    If two compacted files have the same epochs, the one of the newer plan counts.
    """
    by_folder: dict[str, list[OutputFile]] = {}
    for file in files:
        by_folder.setdefault(file.folder, []).append(file)
    found = set()
    for inside in by_folder.values():
        merged = [file for file in inside if file.is_compacted]
        found |= {file for file in inside if any(_takes_place(one, file) for one in merged)}
    return found


def steady_files(store: ObjectStore) -> Sequence[tuple[str, int]]:
    """Return (path, bytes) of the published files that count; a key's newer rows come after its older ones.

    They are from listings during which no compaction changed the folder.
    While a compaction runs, one listing may miss both a merged file that appears and the files that it replaces. A
    file that exists from the first listing to the second is in both. So the folder is listed until the second of two
    listings contains every file of the first and no additional merged file. Files of new epochs do no harm.
    """
    before = parsed_files(store)
    while True:
        now = parsed_files(store)
        is_steady = before.keys() <= now.keys() and not any(file.is_compacted for file in now.keys() - before.keys())
        if is_steady:
            return _current(now)
        before = now


def published_of(store: ObjectStore, epoch: Epoch) -> list[str]:
    """Return the paths of the published outputs of one epoch, as its tasks wrote them."""
    return [path for file, (path, _) in parsed_files(store).items() if file.first == epoch and not file.is_compacted]


def _current(files: Mapping[OutputFile, tuple[str, int]]) -> Sequence[tuple[str, int]]:
    return [files[file] for file in sorted(files.keys() - superseded(files))]


def _takes_place(merged: OutputFile, file: OutputFile) -> bool:
    if not merged.first <= file.first <= file.last <= merged.last or merged == file:
        return False
    is_same_range = (merged.first, merged.last) == (file.first, file.last)
    return not (file.is_compacted and is_same_range) or merged.part > file.part


def _is_published(store: ObjectStore, file: StagedFile) -> bool:
    """Return whether the final file exists and is complete.  Deletes a staged file beside it;
    raises if it is another file.
    """
    size = store.size(file.final_path)
    if size is None:
        return False
    checksum = store.checksum(file.final_path) if size == file.bytes else None
    if checksum != file.checksum:
        msg = (
            "a published output file is not the one that was committed: something else wrote under its name, or it was "
            "damaged. Start the job again: it goes back to the checkpoint before, and writes the file anew. If two "
            "jobs write to one folder, give each a folder of its own first. "
            f"file={store.url}/{file.final_path}, bytes={size}, bytes_committed={file.bytes}, "
            f"checksum={checksum}, checksum_committed={file.checksum}"
        )
        raise CorruptStateError(msg)
    store.delete([file.staged_path])
    return True


def _no_description(store: ObjectStore) -> RetryableError:
    return RetryableError(
        "the description of the output was there and is gone, so something deletes or moves the output folder. Find "
        "out what it is, and put the folder back; then start the job again. "
        f"file={store.url}/{output_paths.OUTPUT_DESCRIPTION}"
    )


def _damaged(store: ObjectStore, file: StagedFile, size: int | None) -> CorruptStateError:
    return CorruptStateError(
        "a committed output file was damaged before it was published. Start the job again: it goes back to the "
        "checkpoint before, and writes the file anew. "
        f"file={store.url}/{file.staged_path}, bytes={size}, bytes_committed={file.bytes}"
    )


def _lost(store: ObjectStore, file: StagedFile) -> CorruptStateError:
    return CorruptStateError(
        "a committed output file is gone, both as it was staged and as it is published: it was deleted from outside. "
        "Start the job again: it goes back to the checkpoint before, and writes the file anew. "
        f"folder={store.url}, staged={file.staged_path}, published={file.final_path}"
    )


def _differences(stored: OutputDescription, wanted: OutputDescription) -> list[str]:
    names = ("job", "run", "format", "key_columns", "columns", "partition_by")
    pairs = [(name, getattr(stored, name), getattr(wanted, name)) for name in names]
    return [f"{name} was {_shown(before)} and is {_shown(now)}" for name, before, now in pairs if before != now]


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        parts = (f"{part.name} {part.type}" if isinstance(part, OutputColumn) else str(part) for part in value)
        return f"({', '.join(parts)})"
    return repr(value)
