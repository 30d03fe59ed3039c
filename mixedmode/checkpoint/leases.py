"""Leases: a reader asks the job to keep a checkpoint for a while, by a small file in the checkpoint folder.

A lease is create-once; its name holds the epoch and the time at which it ends, and its content the runs that are read.
The reader and the job each write first and look afterwards, so that at least one of them sees the other:

    reader   creates the lease, then looks for the manifest: if it is gone, or another one, the lease is given up.
             It also looks before, so that it makes no folders where a checkpoint folder was deleted or moved away
    job      deletes the manifest, then looks for leases: if there is one of this epoch, the runs stay (retention.py)

Runs that stay without a manifest are deleted by the first collection of garbage after the lease file is gone. The job
deletes the files of leases that have ended when it drops checkpoints.

A lease is not synced: a power cut ends its reader, too, and the disk that the job waits for has less to do.

Invariant (tests/checkpoint/test_leases.py): while a lease is valid, no run of its checkpoint is deleted, whatever the
order of the steps of reader, job and collection.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.decide_leases import LEASE_MS_MAX, is_valid
from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.manifest import decode_as, encode_as
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Lease, Manifest
from mixedmode.errors import CorruptStateError

__all__ = ["Leases"]

_LEASE = DocumentKind("mixedmode-lease", 1, "the lease of a reader")


@dataclass(frozen=True, slots=True)
class _Content:
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leases:
    """The leases in a checkpoint folder. Each read goes to the store."""

    store: ObjectStore

    def take(self, manifest: Manifest, *, now_ms: int, lasts_ms: int, token: str) -> Lease | None:
        """Create a lease of a checkpoint; return None if the job has dropped the checkpoint meanwhile.

        A job that has begun anew in the folder, or has gone back, may have another checkpoint of the same epoch.
        Raise CorruptStateError if the manifest of the epoch is damaged.

        token: differs from that of every other reader, [A-Za-z0-9_]+.
        """
        assert 0 < lasts_ms <= LEASE_MS_MAX, lasts_ms
        lease = Lease(manifest.epoch, now_ms + lasts_ms, token)
        if not self._has(manifest):
            return None
        runs = dict.fromkeys(run.path for operator in manifest.operators for run in operator.runs)
        self.store.put_unsynced(paths.lease_path(lease), encode_as(_LEASE, _Content(tuple(runs))))
        if self._has(manifest):
            return lease
        self.give_up([lease])
        return None

    def _has(self, manifest: Manifest) -> bool:
        found = CheckpointLog(self.store).get(manifest.epoch)
        return found is not None and found.identity == manifest.identity

    def give_up(self, leases: Iterable[Lease]) -> None:
        """End leases: delete their files."""
        self.store.delete([paths.lease_path(lease) for lease in leases])

    def all(self) -> tuple[Lease, ...]:
        """Return all leases, also those that have ended; this costs one small listing."""
        listed = (paths.parse_lease_path(path) for path, _ in self.store.list(paths.LEASES))
        return tuple(lease for lease in listed if lease is not None)

    def valid(self, now_ms: int) -> tuple[Lease, ...]:
        """Return the leases that count at a time, and delete the others."""
        every = self.all()
        ended = [lease for lease in every if not is_valid(lease, now_ms)]
        if ended:
            self.give_up(ended)
        return tuple(lease for lease in every if is_valid(lease, now_ms))

    def runs(self) -> frozenset[str]:
        """Return the runs that leases name. Leases whose files still exist count, even if they have ended."""
        found = set[str]()
        for lease in self.all():
            path = paths.lease_path(lease)
            data = self.store.get(path)
            if data is not None:
                found.update(self._runs_in(data, path))
        return frozenset(found)

    def _runs_in(self, data: bytes, path: str) -> tuple[str, ...]:
        try:
            return decode_as(_LEASE, _Content, data, where=f"{self.store.url}/{path}").runs
        except CorruptStateError:
            return ()  # the reader fails with an error that says so; the job must not
