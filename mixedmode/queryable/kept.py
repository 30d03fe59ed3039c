"""Open snapshots that many requests share, so that a request opens no files.

    without an epoch   the snapshot of the newest epoch; `tick` replaces it when the job has committed another one
    with an epoch      the snapshot of this epoch, which stays open for the requests after this one

A thread calls `tick` twice a second, or less often if that would take more than TICK_SHARE of a core. It opens the
snapshot of a new epoch beside the old one, with the files that the last requests needed, so no request waits for that.

Invariants (tests/queryable/test_kept.py):
  I1  an answer is of the epoch that was asked for, or of the newest one at the last tick
  I2  no snapshot is closed while a request reads it, and none by a request: that may wait for a store
  I3  a snapshot without requests is closed after IDLE_SECONDS, and its lease is given up, unless it has a further page
  I4  an epoch that the job went back from has no answers after the next tick
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.lineage import is_abandoned
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.types import GoingBack, Manifest, ManifestIdentity
from mixedmode.clock import Clock, SystemClock
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.queryable.checkpoints import Place, manifest_at, state_log
from mixedmode.queryable.fetched import SharedRuns
from mixedmode.queryable.folders import reader_folder
from mixedmode.queryable.snapshot import LEASE_SECONDS, StateAnswer, StateSnapshot, opened_snapshot

__all__ = ["IDLE_SECONDS", "OPEN_MAX", "TICK_SECONDS", "TICK_SHARE", "KeptState", "pause_after"]

TICK_SECONDS = 0.5
TICK_SHARE = 0.05  # of the time of a core: a tick that takes more of it is followed by a longer pause
IDLE_SECONDS = 30.0
OPEN_MAX = 8  # snapshots; beyond it, one that nobody reads is closed

#: the newest manifest as it is stored, None: there is none; and the records of going back
_Written = tuple[bytes | None, tuple[GoingBack, ...]]


@dataclass
class _Kept:
    """An open snapshot. `readers` requests read it now; `has_next`: a client may come back for another page."""

    snapshot: StateSnapshot
    used_at: float
    leased_at: float
    readers: int = 0
    has_next: bool = False

    @property
    def identity(self) -> ManifestIdentity:
        return self.snapshot.manifest.identity

    @property
    def epoch(self) -> int:
        return self.snapshot.epoch

    def is_abandoned(self, backs: Iterable[GoingBack]) -> bool:
        return is_abandoned(self.snapshot.manifest.epoch, self.snapshot.manifest.generation, backs)


class KeptState:
    """The state of a job for many requests. Thread-safe. `start` begins the ticks, and `close` ends them."""

    def __init__(self, place: Place, *, lease_seconds: float = LEASE_SECONDS, clock: Clock | None = None) -> None:
        """place: a checkpoint folder, perhaps one that does not exist yet.  lease_seconds: as of open_state."""
        self._place, self._lease_seconds, self._clock = place, lease_seconds, clock or SystemClock()
        self._lock = threading.Lock()  # of the attributes below, for microseconds
        self._opening = threading.Lock()  # held while a snapshot is opened
        self._kept: dict[ManifestIdentity, _Kept] = {}
        self._newest: _Kept | None = None
        self._left: list[_Kept] = []  # forgotten while they had readers, and now without; the next tick closes them
        #: what the last tick found, and the newest epoch that was open then
        self._written: tuple[_Written, ManifestIdentity | None] | None = None
        self._stack = ExitStack()
        self._shared: SharedRuns | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def ask(self, question: Callable[[StateSnapshot], StateAnswer], epoch: int | None = None) -> StateAnswer:
        """Return the answer of a snapshot. If it has a further page, its checkpoint is kept for the next request."""
        kept = self._acquired(epoch) or self._opened(epoch)
        try:
            answer = question(kept.snapshot)
            kept.has_next = kept.has_next or answer.next is not None
            return answer
        finally:
            self._release(kept)

    @contextmanager
    def snapshot(self, epoch: int | None = None) -> Iterator[StateSnapshot]:
        """Return the snapshot of an epoch, None: of the newest one, for the block.  Raises the errors of open_state."""
        kept = self._acquired(epoch) or self._opened(epoch)
        try:
            yield kept.snapshot
        finally:
            self._release(kept)

    def has_open(self, epoch: int | None) -> bool:
        """Return whether a request for this epoch finds an open snapshot.  epoch: as in `snapshot`."""
        with self._lock:
            return self._found(epoch) is not None

    def _acquired(self, epoch: int | None) -> _Kept | None:
        """Return an open snapshot, with one more reader; None if there is none of this epoch."""
        with self._lock:
            found = self._found(epoch)
            if found is not None:
                found.readers += 1
            return found

    def _release(self, kept: _Kept) -> None:
        with self._lock:
            kept.readers -= 1
            kept.used_at = self._clock.seconds()
            if kept.readers == 0 and self._kept.get(kept.identity) is not kept:
                self._left.append(kept)

    def _found(self, epoch: int | None) -> _Kept | None:
        if epoch is None:
            return self._newest
        return next((kept for kept in self._kept.values() if kept.epoch == epoch), None)

    def _opened(self, epoch: int | None) -> _Kept:
        """Return a new snapshot, with one reader."""
        with self._opening:
            found = self._acquired(epoch)  # another request may have opened it meanwhile
            if found is not None:
                return found
            kept = self._open(epoch)
            kept.readers = 1
            self._add(kept, is_newest=epoch is None)
            return kept

    def _open(self, epoch: int | None, found: Manifest | None = None) -> _Kept:
        if self._ended.is_set():
            msg = "the server is ending, so it opens no state"
            raise RetryableError(msg)
        log = self._log()
        if self._shared is None:
            self._shared = SharedRuns(log.store, self._stack.enter_context(reader_folder()))
        now = self._clock.seconds()
        opened = opened_snapshot(log, epoch, self._lease_seconds, self._shared, found)
        return _Kept(opened, used_at=now, leased_at=now)

    def _log(self) -> CheckpointLog:
        try:
            return state_log(self._place)
        except InvalidJobError as error:
            msg = (
                "the job has no state yet: its checkpoint folder has no job.json, which a start creates. Read again "
                f"later; if the folder was deleted, start the job again. folder={self._place}"
            )
            raise RetryableError(msg) from error

    def _add(self, kept: _Kept, *, is_newest: bool) -> None:
        with self._lock:
            same = self._kept.get(kept.identity)
            self._kept[kept.identity] = kept
            before = self._newest
            if is_newest:
                self._newest = kept
            dropped = [same] if same is not None and same.readers == 0 else []
            if is_newest and before is not None and before is not same and not before.has_next:
                dropped += self._removed([before])
            unread = [one for one in self._kept.values() if one is not self._newest and one.readers == 0]
            excess = max(0, len(self._kept) - OPEN_MAX)
            dropped += self._removed(sorted(unread, key=lambda one: one.used_at)[:excess])
        for one in dropped:
            self._close(one)

    def _removed(self, wanted: list[_Kept]) -> list[_Kept]:
        """Forget snapshots, and return those that can be closed now; each other one is left by its last reader."""
        for kept in wanted:
            self._kept.pop(kept.identity, None)
            if self._newest is kept:
                self._newest = None
        return [kept for kept in wanted if kept.readers == 0]

    def _close(self, kept: _Kept) -> None:
        if kept.has_next and not self._ended.is_set() and self._is_renewed(kept):
            kept.snapshot.keep_lease()
        kept.snapshot.close()

    def _is_renewed(self, kept: _Kept) -> bool:
        """Renew a lease; return False if that is not possible."""
        if self._lease_seconds == 0:
            return False
        try:
            kept.leased_at = self._clock.seconds()
            return kept.snapshot.renew(self._lease_seconds)
        except RetryableError:
            return False

    def tick(self) -> None:
        """Go to the newest epoch, renew leases, and close snapshots that nobody has read for a while."""
        self._close_left()
        self._close_unused()
        if self._kept:
            try:
                self._go_to_newest()
            except Exception:  # noqa: BLE001  # an error of RocksDB or of the disk, too: the ticks must go on
                self._drop(lambda _kept: True)  # the next request opens its epoch again, and gets the error
        with self._lock:
            kept_now = list(self._kept.values())
        for kept in kept_now:
            if self._clock.seconds() - kept.leased_at > self._lease_seconds / 2 > 0 and not self._is_renewed(kept):
                self._drop(lambda one, kept=kept: one is kept)  # type: ignore[misc]
        if self._shared is not None:
            self._keep_local_files()

    def _go_to_newest(self) -> None:
        log, open_now = self._log(), self._newest
        found = _written(log)
        if self._written == (found, None if open_now is None else open_now.identity):
            return  # most ticks find nothing new, and to decode a manifest takes milliseconds
        manifest, backs = manifest_at(log, None), log.goings_back()
        newest = manifest.identity
        with self._opening:  # else a request could open an epoch that the job has left, and keep it
            self._drop(lambda kept: kept.identity != newest and (kept.epoch >= newest[0] or kept.is_abandoned(backs)))
            before = self._newest
            self._written = (found, None if before is None else newest)
            if before is None or before.identity == newest:
                return
            kept = self._open(None, manifest)
            try:
                kept.snapshot.prepare(before.snapshot.places())
            except BaseException:
                kept.snapshot.close()
                raise
            kept.used_at = before.used_at
            self._add(kept, is_newest=True)

    def _close_left(self) -> None:
        """Close snapshots that readers have left: a reader may be an event loop, which must not wait for a store."""
        with self._lock:
            left, self._left = self._left, []
        for kept in left:
            self._close(kept)

    def _close_unused(self) -> None:
        now = self._clock.seconds()
        self._drop(lambda kept: kept.readers == 0 and now - kept.used_at > IDLE_SECONDS)

    def _drop(self, is_wanted: Callable[[_Kept], bool]) -> None:
        with self._lock:
            closed = self._removed([kept for kept in self._kept.values() if is_wanted(kept)])
        for kept in closed:
            self._close(kept)

    def _keep_local_files(self) -> None:
        """Delete the local files of runs that no open snapshot has."""
        with self._opening:
            with self._lock:
                manifests = [kept.snapshot.manifest for kept in self._kept.values()]
            assert self._shared is not None
            self._shared.fetched.keep_only(
                {run.path for found in manifests for operator in found.operators for run in operator.runs}
            )

    def start(self) -> None:
        """Call `tick` in a thread from now on."""
        self._thread = threading.Thread(target=self._run, name="state", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pause = TICK_SECONDS
        while not self._ended.wait(pause):
            began = time.thread_time()
            self.tick()
            pause = pause_after(time.thread_time() - began)

    def close(self) -> None:
        """Close all snapshots, and give up their leases. No request is answered afterwards."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        with self._opening:
            self._drop(lambda _kept: True)
            self._close_left()
            self._stack.close()


def pause_after(cpu_seconds: float) -> float:
    """Return the seconds until the next tick, after one that has taken so much CPU time.

    >>> pause_after(0.01), pause_after(0.1)
    (0.5, 2.0)
    """
    return max(TICK_SECONDS, cpu_seconds / TICK_SHARE)


def _written(log: CheckpointLog) -> _Written:
    epochs = log.epochs()
    return (log.store.get(paths.manifest_path(epochs[-1])) if epochs else None), log.goings_back()
