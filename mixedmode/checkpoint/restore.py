"""Restore a savepoint into the empty checkpoint folder of a job, which goes on from it as from its own checkpoint.

The manifest is the commit here, too. It is created last, so an interrupted restore has no effect and is
simply repeated; every earlier step is repeatable. Spark's offset entry is written first. If somebody starts the job
after half of a restore, the start finds Spark's log ahead of the manifests, and stops.

Invariants (tests/checkpoint/test_restore.py):
  I1  a restore that is repeated after a crash at any point ends with the same folder
  I2  a folder that holds anything of another run is refused and left unchanged
"""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import assert_never

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.checksum import checksum_of
from mixedmode.checkpoint.decide import CommitPermit, Fenced
from mixedmode.checkpoint.decide_restore import Restorable
from mixedmode.checkpoint.log import AlreadyCommitted, CheckpointLog, Committed
from mixedmode.checkpoint.moved_inputs import moved_entry, spark_url
from mixedmode.checkpoint.savepoint import REQUESTS_AT_ONCE, Savepoint, SavepointFile
from mixedmode.checkpoint.source_log import log_of
from mixedmode.checkpoint.spark_log import source_entries_read
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Generation, JobIdentity, Manifest, SourceLog
from mixedmode.crash_points import reach
from mixedmode.errors import CorruptStateError, FencedError, InvalidJobError

__all__ = [
    "Restoration",
    "check_moved",
    "commit_first",
    "commit_restored",
    "copy_restored",
    "is_restored",
    "moved_logs",
    "restored_manifest",
]

_NO_GENERATION = Generation(0)


@dataclass(frozen=True, slots=True)
class Restoration:
    """The plan of a restore: a verified savepoint, and the manifest that the folder will get.

    `manifest` has generation 0, which no start has; the restore later claims a generation, as a start does. `moved`
    maps folders of input files: {old folder: new folder}.
    """

    source: ObjectStore
    savepoint: Savepoint
    identity: JobIdentity
    manifest: Manifest
    moved: Mapping[str, str] = field(default_factory=dict)


def restored_manifest(
    stored: Manifest, identity: JobIdentity, decision: Restorable, *, outputs: Collection[str]
) -> Manifest:
    """Return the manifest that the restored job goes on from. Pure.

    It omits the state of steps that the job does not have, and the outputs that start empty. outputs: the names of the
    outputs that continue. The manifest still names their files of this epoch: if the old job stopped between its commit
    and the publication, the new job publishes these files.
    """
    steps = set(decision.kept)
    return replace(
        stored,
        job=identity.name,
        generation=_NO_GENERATION,
        previous=None,
        operators=tuple(operator for operator in stored.operators if operator.operator_id in steps),
        list_states=tuple(state for state in stored.list_states if state.operator_id in steps),
        outputs=tuple(file for file in stored.outputs if file.sink in outputs),
        output_names=tuple(name for name in stored.output_names if name in outputs),
        output_contents={name: found for name, found in stored.output_contents.items() if name in outputs},
    )


def moved_logs(
    source: ObjectStore, savepoint: Savepoint, manifest: Manifest, moved: Mapping[str, str]
) -> tuple[SourceLog, ...]:
    """Return the source logs of a savepoint's manifest, recomputed with the new names of moved files."""
    listing = [file.path for file in savepoint.files]
    found = []
    for log in manifest.source_logs:
        if not moved or log.end is None:
            found.append(log)
            continue
        names = source_entries_read(listing, {log.source: log.end})
        entries = [moved_entry(source.get(name) or b"", moved)[0] for name in names]
        found.append(log_of(entries, log.source, log.end))
    return tuple(found)


def check_moved(given: Restoration) -> None:
    """Raise InvalidJobError if a folder is declared as moved but the savepoint's job has read no file from it."""
    entries = [file for file in given.savepoint.files if _is_of_source(file.path)]
    for before in given.moved:
        moved = {before: given.moved[before]}
        if not any(moved_entry(_whole(given, file), moved)[1] for file in entries):
            msg = (
                "no file that the savepoint's job has read was in a folder that is said to have moved. Name the folder "
                f"as it was then. folder={spark_url(before)}, savepoint={given.source.url}"
            )
            raise InvalidJobError(msg)


def is_restored(log: CheckpointLog, given: Restoration) -> bool:
    """Return whether this same restore is already complete, with no epoch committed after it.

    Raises InvalidJobError if the folder holds anything that this restore would not write.
    """
    epochs = log.epochs()
    if epochs:
        newest = log.get(epochs[0]) if len(epochs) == 1 else None
        if newest is not None and replace(newest, generation=_NO_GENERATION) == given.manifest:
            return True
        raise _not_empty(log, f"checkpoints={len(epochs)}, latest_epoch={epochs[-1]}")
    stored = log.read_identity()
    if stored is not None and stored != given.identity:
        raise _not_empty(log, f"found={paths.JOB}")
    ours = {file.path: file for file in given.savepoint.files}
    for path, _ in log.store.list(paths.SPARK):
        if path not in ours or log.store.get(path) != _log_entry(given, ours[path]):
            raise _not_empty(log, f"found={path}")
    return False


def copy_restored(log: CheckpointLog, given: Restoration) -> Generation:
    """Write all files except the manifest; return the generation of the restore, which fences earlier starts.

    Requires that `is_restored` returned False.
    """
    generation = log.claim_generation()
    epoch = given.savepoint.epoch
    needed = {run.path for operator in given.manifest.operators for run in operator.runs}
    offsets = paths.spark_offsets_path(epoch)
    entries = [file for file in given.savepoint.files if _is_of_spark(file.path)]
    for file in sorted(entries, key=lambda file: file.path != offsets):
        log.store.put(file.path, _log_entry(given, file))
    runs = [file for file in given.savepoint.files if file.path in needed]
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        list(pool.map(lambda file: _copy(given.source, file, log.store), runs))
    stored = log.create_identity(given.identity)
    if stored != given.identity:
        raise _not_empty(log, f"found={paths.JOB}")
    return generation


def commit_restored(log: CheckpointLog, given: Restoration, generation: Generation) -> None:
    """Create the manifest: this commits the restore.

    Raises FencedError if the job was started in this folder during the restore.
    """
    manifest = replace(given.manifest, generation=generation)
    reach("restore", manifest.epoch)
    if not commit_first(log, manifest, "a savepoint was restored to it"):
        raise _not_empty(log, f"latest_epoch={manifest.epoch}")


def commit_first(log: CheckpointLog, manifest: Manifest, what: str) -> bool:
    """Create the first manifest of a folder that was filled. Return False if there is another one by now.

    what: what has filled it, for a message. Raise FencedError if the job was started in this folder meanwhile, or if
    somebody else has filled it.
    """
    own = manifest.generation
    permit = log.ask_permit(manifest.epoch, own=own)
    match permit:
        case Fenced():
            msg = (
                f"the job was started in this checkpoint folder while {what}, or somebody else did the same at the "
                "same time, so this stops without having happened. If the other one has finished, the folder is ready: "
                "run the job. If the job was started, stop it, empty the folder, and do this again. "
                f"folder={log.store.url}, own_generation={permit.own}, newest_generation={permit.newest}"
            )
            raise FencedError(msg)
        case CommitPermit():
            outcome = log.commit(manifest, permit)
        case _:
            assert_never(permit)
    match outcome:
        case Committed():
            return True
        case AlreadyCommitted():
            return False
        case _:
            assert_never(outcome)


def _is_of_spark(path: str) -> bool:
    return path == paths.SPARK_METADATA or paths.parse_spark_path(path) is not None


def _log_entry(given: Restoration, file: SavepointFile) -> bytes:
    """Return the content of a file of Spark's log as the restore writes it."""
    data = _whole(given, file)
    if file.path == paths.spark_offsets_path(given.savepoint.epoch):
        return given.manifest.offsets.encode()
    return moved_entry(data, given.moved)[0] if given.moved and _is_of_source(file.path) else data


def _is_of_source(path: str) -> bool:
    file = paths.parse_spark_path(path)
    return file is not None and file.source is not None


def _whole(given: Restoration, file: SavepointFile) -> bytes:
    data = given.source.get(file.path)
    if data is None or checksum_of([data]) != file.checksum:
        raise _damaged_since(given.source, file, None if data is None else checksum_of([data]))
    return data


def _copy(source: ObjectStore, file: SavepointFile, target: ObjectStore) -> None:
    if target.size(file.path) == file.bytes and target.checksum(file.path) == file.checksum:
        return  # an interrupted restore has copied it
    checksum = source.copy_to(file.path, target)
    if checksum != file.checksum:
        raise _damaged_since(source, file, checksum)


def _damaged_since(source: ObjectStore, file: SavepointFile, checksum: str | None) -> CorruptStateError:
    return CorruptStateError(
        "a file of the savepoint was whole when it was verified, and is not any more, so its disk fails or somebody "
        "changes it. Nothing was restored. Take another copy of the savepoint. "
        f"file={source.url}/{file.path}, checksum={checksum}, checksum_written={file.checksum}"
    )


def _not_empty(log: CheckpointLog, found: str) -> InvalidJobError:
    return InvalidJobError(
        "a savepoint is restored to an empty checkpoint folder, and the one of this job holds something of another "
        "run. Give the job a new execution.checkpointing.dir, or delete the folder if what is in it is not needed. "
        f"folder={log.store.url}, {found}"
    )
