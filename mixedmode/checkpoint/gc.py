"""Garbage collection: delete files that attempts left behind and that no manifest, present or future, can name.

A file's name holds the epoch of the first manifest that can name it (types.py I3), and that manifest is
create-once. So once epoch N has a manifest, an unnamed file of an epoch <= N can never be named any more: it is an
orphan, no matter which starts still run. A file of a later epoch is kept, because a manifest may still name it. That
manifest may come from this start. It may also come from an *older* start that was paused after its last check of the
generations and before it created its manifest. The collector needs no lock, clock or file age, and it is safe at any
time, not only at the start of a job.

    Example: the latest manifest is of epoch 7. An unnamed file of epoch 7 or 5 is an orphan; one of epoch 8 is pending.

So garbage of uncommitted epochs stays until the first collection after their commit, with one exception. If a start
fails in an epoch before it tries to commit the epoch, no manifest can name the files that it wrote for the epoch. So
it may delete these files at once (discard_attempts), and a backlog that keeps failing on a full disk does not fill the
disk further.

The runs of a reader's lease (leases.py) count as named, even if the manifest is gone.

The records of earlier starts (generations/*) are also garbage once a newer record exists, because only the highest
number is ever read. A start that lost its record is still fenced by the higher number. A start that claims a number
verifies that it is the highest (CheckpointLog.claim_generation), so no number is used twice.

Savepoints are separate copies in other folders: no file of a checkpoint folder belongs to a savepoint.

The collector keeps every file whose name it cannot parse, and every file that an unreadable
manifest might name. No manifest names an orphan, so a crash while deleting loses nothing. Only drop_checkpoint deletes
manifests here; the retention of checkpoints calls it, oldest first.

Invariant (tests/checkpoint/test_gc.py): no file that a manifest names, or could come to name, is an orphan.
"""

from collections.abc import Collection, Iterable, Sequence

from mixedmode.checkpoint import output_paths, paths
from mixedmode.checkpoint.leases import Leases
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.paths import AttemptFile
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, Manifest
from mixedmode.crash_points import reach
from mixedmode.errors import CorruptStateError

__all__ = [
    "collect_orphans",
    "discard_attempts",
    "drop_checkpoint",
    "find_orphans",
    "readable_manifests",
    "unneeded_files",
]


def find_orphans(
    listing: Iterable[str],
    manifests: Sequence[Manifest],
    *,
    latest: Epoch | None,
    unreadable: Epoch | None = None,
    leased: Collection[str] = (),
) -> list[str]:
    """Return the paths of runs/ or _staging/ that may be deleted, in the order of the listing.

    manifests: all readable manifests. latest: the highest epoch that has a manifest, readable or not; None if no epoch
    has one. unreadable: the highest epoch whose manifest cannot be read; that manifest may name any file of its own or
    an earlier epoch. leased: the runs that leases name.
    """
    if latest is None:
        return []
    named = _named(manifests) | set(leased)
    kept_up_to = -1 if unreadable is None else unreadable
    files = ((path, _parsed(path)) for path in listing if path not in named)
    return [path for path, file in files if file is not None and kept_up_to < file.epoch <= latest]


def collect_orphans(log: CheckpointLog, *, sinks: Sequence[ObjectStore]) -> None:
    """Delete orphaned runs, staged outputs and records of earlier starts.  sinks: the folders of the job's outputs.

    The outputs of one attempt have the same name in the folders of several sinks. That is harmless, because a manifest
    names either all files that an attempt staged or none of them.

    The driver calls this after it has claimed its generation and before the first task runs.
    """
    epochs = log.epochs()
    manifests, unreadable = readable_manifests(log, epochs)
    latest = epochs[-1] if epochs else None
    for store, folder in _folders(log, sinks):
        listing = [path for path, _ in store.list(folder)]
        leased = Leases(log.store).runs() if folder == paths.RUNS else ()  # after the manifests: see leases.py
        orphans = find_orphans(listing, manifests, latest=latest, unreadable=unreadable, leased=leased)
        if orphans:
            store.delete(orphans[:1])
            reach("collect", 0 if latest is None else latest)
            _delete(store, orphans[1:])
        store.sweep_unfinished()
    log.forget_older_generations()


def unneeded_files(dropped: Manifest, kept: Iterable[Manifest]) -> tuple[str, ...]:
    """Return the runs that only the manifest `dropped` names, in its order. Pure; `kept` are all other manifests."""
    needed = _named(kept)
    own = dict.fromkeys(run.path for operator in dropped.operators for run in operator.runs)
    return tuple(path for path in own if path not in needed)


def drop_checkpoint(log: CheckpointLog, dropped: Manifest, kept: Sequence[Manifest]) -> None:
    """Delete an old checkpoint and the runs that no other checkpoint names.  kept: all others, including the latest.

    The manifest is deleted first. A crash in between leaves runs that no manifest names; the next collection deletes
    them. It also deletes the runs that stay because a reader has just taken a lease.
    """
    assert kept, "the latest checkpoint is never dropped"
    assert all(dropped.epoch < manifest.epoch for manifest in kept), dropped.epoch
    unneeded = unneeded_files(dropped, kept)
    log.store.delete([paths.manifest_path(dropped.epoch)])
    reach("drop", max(manifest.epoch for manifest in kept))
    leased = Leases(log.store).runs() if unneeded else frozenset()  # after the manifest: see leases.py
    _delete(log.store, (path for path in unneeded if path not in leased))


def discard_attempts(log: CheckpointLog, *, sinks: Sequence[ObjectStore], epoch: Epoch, own: Generation) -> None:
    """Delete the files that this start of the job wrote for an epoch that it abandons.  sinks: the output folders.

    Requires that this start has not called `commit` for the epoch, and never will: after a failed call the manifest may
    exist. The files of this start are found by the name part that `paths.attempt` builds. Files that a straggling task
    writes afterwards stay until the epoch is committed.
    """
    for store, folder in _folders(log, sinks):
        _delete(store, [path for path, _ in store.list(folder) if _is_own(path, epoch, own)])


def readable_manifests(log: CheckpointLog, epochs: Iterable[Epoch]) -> tuple[list[Manifest], Epoch | None]:
    """Return the readable manifests of `epochs`, in that order, and the highest epoch whose manifest is unreadable."""
    manifests: list[Manifest] = []
    unreadable: Epoch | None = None
    for epoch in epochs:
        try:
            manifest = log.get(epoch)
        except CorruptStateError:
            unreadable = epoch
            continue
        if manifest is None:  # deleted after it was listed: which files it named is unknown
            unreadable = epoch
        else:
            manifests.append(manifest)
    return manifests, unreadable


def _delete(store: ObjectStore, unordered: Iterable[str]) -> None:
    store.at_once(lambda path: store.delete([path]), unordered)


def _folders(log: CheckpointLog, sinks: Sequence[ObjectStore]) -> list[tuple[ObjectStore, str]]:
    return [(log.store, paths.RUNS), *((sink, output_paths.STAGING) for sink in sinks)]


def _named(manifests: Iterable[Manifest]) -> set[str]:
    named: set[str] = set()
    for manifest in manifests:
        named.update(run.path for operator in manifest.operators for run in operator.runs)
        named.update(staged.staged_path for staged in manifest.outputs)
    return named


def _parsed(path: str) -> AttemptFile | None:
    return paths.parse_run_path(path) or output_paths.parse_staged_path(path)


def _is_own(path: str, epoch: Epoch, own: Generation) -> bool:
    file = _parsed(path)
    return file is not None and file.epoch == epoch and paths.parse_attempt(file.unique) == own
