"""The checkpoint log: generations, the job's identity, and the manifests, over one object store.

Every object here is create-once. So each step either happens now, or finds that it has happened before.

Invariants (tests/checkpoint/test_log.py):
  I1  the first manifest of an epoch is never replaced; a second commit of the epoch returns the first manifest
  I2  no two starts of a job hold the same generation
  I3  an abandoned manifest, one that the job has gone back from, never counts as the commit of an epoch (lineage.py)
"""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.decide import CommitDecision, CommitPermit, Fenced, decide_commit
from mixedmode.checkpoint.lineage import encode_going_back, is_abandoned
from mixedmode.checkpoint.manifest import (
    decode_identity,
    decode_manifest,
    decode_start,
    encode_identity,
    encode_manifest,
    encode_start,
)
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, GoingBack, JobIdentity, Manifest, Start
from mixedmode.errors import CorruptStateError, FencedError, InvalidJobError, RetryableError

__all__ = ["AlreadyCommitted", "CheckpointLog", "CommitOutcome", "Committed"]


@dataclass(frozen=True, slots=True)
class Committed:
    """The manifest passed to `commit` is stored durably."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class AlreadyCommitted:
    """Another attempt committed the epoch first. `existing` counts; the files of this attempt are garbage."""

    existing: Manifest


CommitOutcome = Committed | AlreadyCommitted


@dataclass(frozen=True, slots=True)
class CheckpointLog:
    """The documents of a checkpoint folder.  Each read goes to the store; nothing is cached."""

    store: ObjectStore

    def epochs(self) -> tuple[Epoch, ...]:
        """Return the committed epochs in ascending order, including those whose manifests cannot be read."""
        listed = (paths.parse_manifest_path(path) for path, _ in self.store.list(paths.MANIFESTS))
        return tuple(sorted(epoch for epoch in listed if epoch is not None))

    def get(self, epoch: Epoch) -> Manifest | None:
        """Return the manifest of an epoch; None if there is none.  Raises CorruptStateError if it cannot be read."""
        path = paths.manifest_path(epoch)
        data = self.store.get(path)
        if data is None:
            return None
        manifest = decode_manifest(data, where=self._where(path))
        if manifest.epoch != epoch:
            msg = (
                "a manifest is under the name of another epoch, so the checkpoint folder was changed by hand. Restore "
                f"it from a copy. file={self._where(path)}, epoch={manifest.epoch}"
            )
            raise CorruptStateError(msg)
        return manifest

    def latest(self) -> Manifest | None:
        """Return the newest manifest; None if no epoch is committed.

        Raises CorruptStateError if this manifest cannot be read. The caller then decides whether to use an older one of
        `epochs()`.
        """
        epochs = self.epochs()
        return self.get(epochs[-1]) if epochs else None

    def check_goes_on(self) -> None:
        """Raise InvalidJobError if the input of the job has ended for good, so that no epoch follows.

        A manifest that cannot be read does not say so; the next start finds it.
        """
        with suppress(CorruptStateError):
            newest = self.latest()
            if newest is not None and newest.is_final:
                msg = (
                    "the input of this job has ended for good, so no epoch follows for which this could count. "
                    "`mixedmode table` shows the result. To read on, give the job a new execution.checkpointing.dir "
                    f"and output. folder={self.store.url}, epoch={newest.epoch}"
                )
                raise InvalidJobError(msg)

    def newest_generation(self) -> Generation | None:
        """Return the highest generation that was claimed; None if the job never started."""
        listed = (paths.parse_generation_path(path) for path, _ in self.store.list(paths.GENERATIONS))
        return max((generation for generation in listed if generation is not None), default=None)

    def claim_generation(self) -> Generation:
        """Claim the next generation; from here on all older starts of the job are fenced.  The first generation is 1.

        After claiming a number, this start lists the generations once more. Example: the newest generation is 4, so
        this start is about to claim 5. Meanwhile one start claims 5, another one claims 6, and the latter deletes the
        record of 5 (gc.py). Then this start can create 5 again, although the other start with number 5 may still run.
        But the second listing shows 6, so this start claims a number above it.

        Raises InvalidJobError if the folder is a savepoint, and writes nothing there.
        """
        while True:
            newest = self.newest_generation()
            if newest is None:
                self._check_no_savepoint()
            claimed = Generation(1 if newest is None else newest + 1)
            start = Start(claimed, socket.gethostname(), os.getpid())
            is_ours = self.store.put_new(paths.generation_path(claimed), encode_start(start))
            if is_ours and self.newest_generation() == claimed:
                return claimed

    def forget_older_generations(self) -> tuple[str, ...]:
        """Delete the records of all starts but the newest, as only the highest number counts.  Return deleted paths."""
        found = {paths.parse_generation_path(path): path for path, _ in self.store.list(paths.GENERATIONS)}
        numbers = sorted(generation for generation in found if generation is not None)
        older = tuple(found[generation] for generation in numbers[:-1])
        self.store.delete(older)
        return older

    def goings_back(self) -> tuple[GoingBack, ...]:
        """Return all records of going back, oldest first. They are read from their names only, so `reasons` are ()."""
        listed = (paths.parse_going_back_path(path) for path, _ in self.store.list(paths.GOINGS_BACK))
        return tuple(GoingBack(*numbers, reasons=()) for numbers in listed if numbers is not None)

    def record_going_back(self, back: GoingBack) -> None:
        """Record durably that manifests after `back.to` by older starts do not count from here on."""
        self.store.put_new(paths.going_back_path(back.generation, back.to), encode_going_back(back))

    def ask_permit(self, epoch: Epoch, *, own: Generation) -> CommitDecision:
        """Return the answer of decide_commit for the current generations. Call this right before `commit`."""
        newest = self.newest_generation()
        if newest is None or newest < own:
            msg = (
                "the record of this start of the job is gone, so the checkpoint folder was moved, deleted or replaced "
                "while the job ran. Nothing was committed. Find out what did it, and put the folder back in its place; "
                "then start the job again. "
                f"store={self.store.url}, own_generation={own}, newest_generation={newest}"
            )
            raise CorruptStateError(msg)
        return decide_commit(epoch, own=own, newest=newest)

    def check_newest(self, epoch: Epoch, *, own: Generation) -> CommitPermit:
        """Return the permit of `ask_permit`.  Raises FencedError if there is a newer start of the job."""
        decision = self.ask_permit(epoch, own=own)
        match decision:
            case CommitPermit():
                return decision
            case Fenced():
                msg = decision.reason + self._who_started(decision.newest)
                raise FencedError(msg)
            case _:
                assert_never(decision)

    def commit(self, manifest: Manifest, permit: CommitPermit) -> CommitOutcome:
        """THE commit: create the manifest, once and durably.  All files that it names must be stored before.

        After a RetryableError the epoch may or may not be committed: the caller must stop, and the next start finds
        out. Raises CorruptStateError if the epoch already has a manifest that the job has abandoned by going back.
        """
        assert (permit.epoch, permit.generation) == (manifest.epoch, manifest.generation), (permit, manifest.epoch)
        assert manifest.previous is None or manifest.previous < manifest.epoch, (manifest.previous, manifest.epoch)
        published = {(file.sink, file.final_path) for file in manifest.outputs}
        assert len(published) == len(manifest.outputs), "one output of two tasks under one name: one would be lost"
        path = paths.manifest_path(manifest.epoch)
        if self.store.put_new(path, encode_manifest(manifest)):
            return Committed(manifest)
        existing = self.get(manifest.epoch)
        if existing is None:
            msg = (
                "a manifest existed and is gone, so something deletes checkpoints while the job runs. Find out what it "
                f"is, then start the job again; it resumes. file={self._where(path)}"
            )
            raise RetryableError(msg)
        if existing == manifest:  # an earlier request of this call created it, but its answer was lost
            return Committed(manifest)
        if is_abandoned(existing.epoch, existing.generation, self.goings_back()):
            msg = (
                "an older start of this job, stopped long ago, went on and put a manifest where this start wanted to "
                "commit; the job has gone back since, so that manifest belongs to a past that no longer counts. This "
                "epoch was not committed. End the older start, and start the job again: it goes back behind it. "
                f"file={self._where(path)}, own_generation={manifest.generation}, found={existing.generation}"
            )
            raise CorruptStateError(msg)
        return AlreadyCommitted(existing)

    def read_identity(self) -> JobIdentity | None:
        """Return the identity of the folder's job; None for a new folder.

        Raises CorruptStateError if it cannot be read, InvalidJobError if the folder is a savepoint.
        """
        data = self.store.get(paths.JOB)
        if data is None:
            self._check_no_savepoint()
            return None
        return decode_identity(data, where=self._where(paths.JOB))

    def _check_no_savepoint(self) -> None:
        if self.store.exists(paths.SAVEPOINT):
            msg = (
                "this folder is a savepoint, which no job changes. `mixedmode savepoint inspect DIR` shows it, and "
                "`mixedmode savepoint restore DIR JOB` starts a job from it, in a checkpoint folder of the job's own. "
                f"folder={self.store.url}"
            )
            raise InvalidJobError(msg)

    def create_identity(self, wanted: JobIdentity) -> JobIdentity:
        """Write job.json unless it exists.  Return the stored identity: `wanted`, or the one of an earlier start."""
        self.store.put_new(paths.JOB, encode_identity(wanted))
        stored = self.read_identity()
        if stored is None:
            msg = (
                "job.json was written and is gone, so something deletes the checkpoint folder. Find out what it is, "
                f"then start the job again. file={self._where(paths.JOB)}"
            )
            raise RetryableError(msg)
        return stored

    def _who_started(self, generation: Generation) -> str:
        """Return the host and process of a start, as the end of a message; "" if its record does not tell."""
        path = paths.generation_path(generation)
        with suppress(CorruptStateError, RetryableError):
            data = self.store.get(path)
            if data is not None:
                start = decode_start(data, where=self._where(path))
                return f", newest_host={start.host}, newest_process={start.process}"
        return ""

    def _where(self, path: str) -> str:
        return f"{self.store.url}/{path}"
