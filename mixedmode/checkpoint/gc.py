"""Garbage: files that attempts left behind and that no manifest, present or future, can name.

The one idea: a file's name holds the epoch of the manifest that would be the first to name it (types.py I3), and that
manifest is create-once. So once epoch N has a manifest, an unnamed file of an epoch <= N can never be named any more,
whoever still runs: it is an orphan. A file of a later epoch may be named yet, and is left alone: by this start, and
also by an *older* start that was stopped between its last look at the generations and its put of the manifest, and
goes on after we looked. No lock, clock or age is needed, and it is safe at any time, not only at start.

What that leaves for later is garbage of epochs not yet committed. It goes at the first collection after their commit.
A start that fails in an epoch without having tried to commit it is the only one that could have, so it may take back
its own files at once (discard_attempts); a backlog that keeps failing on a full disk does not fill it further.

The records of earlier starts (generations/*) are garbage, too, once a newer one exists: all that is ever asked of them
is the highest number. A start that lost its record is fenced by the higher one as before; a start that is just taking a
number makes sure that it is the highest (CheckpointLog.claim_generation), so none is given out twice.

Savepoints are copies of their own, elsewhere: nothing of a checkpoint folder belongs to one.

Everything unknown is kept: names that paths.py does not give, and all files that a manifest which cannot be read might
name. Orphans are named by nothing, so a crash while deleting loses nothing. A manifest is deleted only by
drop_checkpoint, which the retention of checkpoints calls, oldest first.

Invariants (tests/checkpoint/test_gc.py):
  I1  every path is in exactly one of the four classes
  I2  no file that a manifest names, or could come to name, is an orphan
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.paths import AttemptFile
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, Manifest
from mixedmode.crash_points import reach
from mixedmode.errors import CorruptStateError

__all__ = [
    "Classified",
    "Collected",
    "classify",
    "collect_orphans",
    "discard_attempts",
    "drop_checkpoint",
    "readable_manifests",
    "unneeded_files",
]


@dataclass(frozen=True, slots=True)
class Classified:
    """Paths by what may be done with them; each class in the order of the listing. Only `orphaned` may be deleted."""

    referenced: tuple[str, ...]  #: a manifest names it
    orphaned: tuple[str, ...]  #: nothing names it, and nothing can come to
    pending: tuple[str, ...]  #: of an epoch after the latest committed: an attempt that may be running
    unknown: tuple[str, ...]  #: not a name of ours, or an unreadable manifest might name it


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection deleted: files and bytes."""

    files: int
    bytes: int


def classify(
    listing: Iterable[str], manifests: Sequence[Manifest], *, latest: Epoch | None, unreadable: Epoch | None = None
) -> Classified:
    """Sort paths of runs/ and _staging/ into classes.

    manifests: all that can be read. latest: the highest epoch that has a manifest, readable or not; None: no epoch has.
    unreadable: the highest epoch whose manifest cannot be read: it may name any file of its own or an earlier epoch.
    """
    named = _named(manifests)
    referenced, orphaned, pending, unknown = [], [], [], []
    for path in listing:
        file = _parsed(path)
        if path in named:
            referenced.append(path)
        elif file is None or (unreadable is not None and file.epoch <= unreadable):
            unknown.append(path)
        elif latest is None or file.epoch > latest:
            pending.append(path)
        else:
            orphaned.append(path)
    return Classified(tuple(referenced), tuple(orphaned), tuple(pending), tuple(unknown))


def collect_orphans(log: CheckpointLog, *, sinks: Sequence[ObjectStore]) -> Collected:
    """Delete orphaned runs, staged outputs and records of earlier starts.  sinks: the folders of the job's outputs.

    Outputs of one attempt bear one name in the folders of several sinks. That is harmless: what an attempt staged is
    named by its manifest altogether or not at all.

    Called after the generation was claimed and before the first task runs, and after a commit whenever it pays.
    """
    epochs = log.epochs()
    manifests, unreadable = readable_manifests(log, epochs)
    latest = epochs[-1] if epochs else None
    files = size = 0
    for store, folder in _folders(log, sinks):
        listing = dict(store.list(folder))
        orphans = classify(listing, manifests, latest=latest, unreadable=unreadable).orphaned
        if orphans:
            store.delete(orphans[:1])
            reach("collect", 0 if latest is None else latest)
            store.delete(orphans[1:])
        files, size = files + len(orphans), size + sum(listing[path] for path in orphans)
        store.sweep_unfinished()
    log.forget_older_generations()
    return Collected(files, size)


def unneeded_files(dropped: Manifest, kept: Iterable[Manifest]) -> tuple[str, ...]:
    """Runs that only the manifest `dropped` names, in its order. Pure; `kept` are all other manifests."""
    needed = _named(kept)
    own = dict.fromkeys(run.path for operator in dropped.operators for run in operator.runs)
    return tuple(path for path in own if path not in needed)


def drop_checkpoint(log: CheckpointLog, dropped: Manifest, kept: Sequence[Manifest]) -> Collected:
    """Delete an old checkpoint and the runs that no other one names.  kept: all others, the latest among them.

    The manifest goes first: a crash in between leaves runs that nothing names, which the next collection finds.
    """
    assert kept, "the latest checkpoint is never dropped"
    assert all(dropped.epoch < manifest.epoch for manifest in kept), dropped.epoch
    unneeded = unneeded_files(dropped, kept)
    sizes = {run.path: run.bytes for operator in dropped.operators for run in operator.runs}
    log.store.delete([paths.manifest_path(dropped.epoch)])
    reach("drop", max(manifest.epoch for manifest in kept))
    log.store.delete(unneeded)
    return Collected(len(unneeded), sum(sizes[path] for path in unneeded))


def discard_attempts(log: CheckpointLog, *, sinks: Sequence[ObjectStore], epoch: Epoch, own: Generation) -> Collected:
    """Delete what this start of the job wrote for an epoch that it gives up.  sinks: the folders of its outputs.

    Requires that this start has not called `commit` for the epoch (after a failed call it is not known whether the
    manifest exists) and never will. Finds its files by `paths.attempt`. Files that a straggling task writes
    afterwards stay until the epoch is committed.
    """
    files = size = 0
    for store, folder in _folders(log, sinks):
        listing = dict(store.list(folder))
        given_up = [path for path in listing if _is_own(path, epoch, own)]
        store.delete(given_up)
        files, size = files + len(given_up), size + sum(listing[path] for path in given_up)
    return Collected(files, size)


def readable_manifests(log: CheckpointLog, epochs: Iterable[Epoch]) -> tuple[list[Manifest], Epoch | None]:
    """Manifests of `epochs` that can be read, in that order, and the highest epoch whose manifest cannot."""
    manifests: list[Manifest] = []
    unreadable: Epoch | None = None
    for epoch in epochs:
        try:
            manifest = log.get(epoch)
        except CorruptStateError:
            unreadable = epoch
            continue
        if manifest is None:  # deleted since it was listed: what it named is not ours to judge
            unreadable = epoch
        else:
            manifests.append(manifest)
    return manifests, unreadable


def _folders(log: CheckpointLog, sinks: Sequence[ObjectStore]) -> list[tuple[ObjectStore, str]]:
    return [(log.store, paths.RUNS), *((sink, paths.STAGING) for sink in sinks)]


def _named(manifests: Iterable[Manifest]) -> set[str]:
    named: set[str] = set()
    for manifest in manifests:
        named.update(run.path for operator in manifest.operators for run in operator.runs)
        named.update(staged.staged_path for staged in manifest.outputs)
    return named


def _parsed(path: str) -> AttemptFile | None:
    return paths.parse_run_path(path) or paths.parse_staged_path(path)


def _is_own(path: str, epoch: Epoch, own: Generation) -> bool:
    file = _parsed(path)
    return file is not None and file.epoch == epoch and paths.parse_attempt(file.unique) == own
