"""Put state from elsewhere into the empty checkpoint folder of a job, which goes on from it as from its own checkpoint.

    begin     claim a generation; put the entries of Spark's log, the offsets first
    (the caller stores the runs)
    commit    create the identity, and then the manifest: this is the commit
    give_up   delete what was put, after a refusal

An import that is interrupted before the commit has no effect, and is repeated. If somebody starts the job after half of
one, the start finds Spark's log ahead of the manifests, and stops.

Invariants (tests/checkpoint/test_imported.py):
  I1  an import that is repeated after a crash at any point ends with the same input, watermark and state
  I2  a folder that holds anything of another run is refused and left unchanged
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.gc import discard_attempts
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.restore import commit_first
from mixedmode.checkpoint.types import Generation, JobIdentity, Manifest, OperatorState
from mixedmode.errors import InvalidJobError

__all__ = ["Imported", "begin_import", "commit_import", "give_up_import", "is_imported"]


@dataclass(frozen=True, slots=True)
class Imported:
    """The things that an import puts into the folder, but for the runs.

    `manifest` has no operators, and generation 0, which no start has. `entries`: {path of an entry of Spark's log: its
    content}.
    """

    identity: JobIdentity
    manifest: Manifest
    entries: Mapping[str, bytes]


def is_imported(log: CheckpointLog, given: Imported) -> bool:
    """Return whether this same import is already complete, with no epoch committed after it.

    Raise InvalidJobError if the folder holds anything that this import would not put there.
    """
    epochs = log.epochs()
    if epochs:
        newest = log.get(epochs[0]) if len(epochs) == 1 else None
        if newest is not None and _without_state(newest) == _without_state(given.manifest):
            return True
        raise _not_empty(log, f"checkpoints={len(epochs)}, latest_epoch={epochs[-1]}")
    stored = log.read_identity()
    if stored is not None and stored != given.identity:
        raise _not_empty(log, f"found={paths.JOB}")
    for path, _ in log.store.list(paths.SPARK):
        if path not in given.entries or log.store.get(path) != given.entries[path]:
            raise _not_empty(log, f"found={path}")
    return False


def begin_import(log: CheckpointLog, given: Imported) -> Generation:
    """Put the entries of Spark's log; return the generation of the import, which fences earlier starts.

    Requires that `is_imported` returned False.
    """
    generation = log.claim_generation()
    offsets = paths.spark_offsets_path(given.manifest.epoch)
    for path in sorted(given.entries, key=lambda path: path != offsets):
        log.store.put(path, given.entries[path])
    return generation


def commit_import(
    log: CheckpointLog, given: Imported, generation: Generation, operators: tuple[OperatorState, ...]
) -> None:
    """Create the manifest with the state of all steps. All runs are stored.

    Raise FencedError if the job was started in this folder during the import.
    """
    stored = log.create_identity(given.identity)
    if stored != given.identity:
        raise _not_empty(log, f"found={paths.JOB}")
    manifest = replace(given.manifest, operators=operators, generation=generation)
    if not commit_first(log, manifest, "state of Spark was imported into it"):
        raise _not_empty(log, f"latest_epoch={manifest.epoch}")


def give_up_import(log: CheckpointLog, given: Imported, generation: Generation) -> None:
    """Delete what this import has put into the folder, so that a job may begin there. Nothing was committed.

    A newer import of the same checkpoint has put the same entries of Spark's log, and needs them: they stay.
    """
    discard_attempts(log, sinks=(), epoch=given.manifest.epoch, own=generation)
    if log.newest_generation() != generation:
        return
    offsets = paths.spark_offsets_path(given.manifest.epoch)
    log.store.delete([path for path in given.entries if path != offsets])
    log.store.delete([offsets])


def _without_state(manifest: Manifest) -> Manifest:
    return replace(manifest, operators=(), pairs=0, parallelism=1, generation=Generation(0))


def _not_empty(log: CheckpointLog, found: str) -> InvalidJobError:
    return InvalidJobError(
        "state of Spark is imported into an empty checkpoint folder, and the one of this job holds something of "
        "another run. Give the job a new execution.checkpointing.dir, or delete the folder if what is in it is not "
        f"needed. folder={log.store.url}, {found}"
    )
