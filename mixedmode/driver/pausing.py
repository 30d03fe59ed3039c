"""Pause and resume: requests by a file in the checkpoint folder, and the driver that waits while the file exists.

A paused job begins no epoch and keeps its position. The epoch under way is finished first. No connection to the running
process is needed, and a job that is started again stays paused until it is resumed.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.pause import PauseRecord
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.clock import Clock, SystemClock
from mixedmode.config import JobSpec, RuntimeMode
from mixedmode.driver.events import Observer, Phase, PhaseBegan
from mixedmode.errors import InvalidJobError, RetryableError

__all__ = ["Pauses", "ask_to_pause", "ask_to_resume"]

HOLD_SECONDS = 0.5  # between two looks at the file while the job waits
_LOOKS = 20  # of the driver's loop, which turns every 50 ms, for one look at the file


def ask_to_pause(spec: JobSpec, *, clock: Clock | None = None) -> str:
    """Ask a job to begin no further epoch, and return what happens.  Raises InvalidJobError if it cannot pause."""
    record = _record(spec)
    CheckpointLog(record.store).check_goes_on()
    if record.create((clock or SystemClock()).now_ms()):
        return "the job pauses after the epoch under way. It stays paused until it is resumed, also if it is restarted"
    return "the job was already asked to pause"


def ask_to_resume(spec: JobSpec) -> str:
    """Let a paused job go on, and return what happens.  Raises InvalidJobError for a job that cannot pause."""
    return "the job goes on from its position" if _record(spec).delete() else "the job was not paused"


def _record(spec: JobSpec) -> PauseRecord:
    folder = spec.execution.checkpointing.dir
    if folder is None or spec.chosen_mode is RuntimeMode.BATCH:
        msg = f"a batch job cannot pause: it is one epoch, and keeps no position. name={spec.name}"
        raise InvalidJobError(msg)
    store = ObjectStore(folder)
    stored = CheckpointLog(store).read_identity()
    if stored is None or stored.name != spec.name:
        why = "the job has never been started with it" if stored is None else "it is that of another job"
        msg = (
            f"the checkpoint folder has no job to pause or resume: {why}. Name the job file that it was started with. "
            f"name={spec.name}, folder={folder}"
        )
        raise InvalidJobError(msg)
    return PauseRecord(store)


class Pauses:
    """Tells the phases of a run, and holds it before an epoch while it is to pause. Thread-safe."""

    def __init__(self, record: PauseRecord, observer: Observer, stop: threading.Event) -> None:
        self._record, self._observer, self._stop = record, observer, stop
        self._lock = threading.Lock()
        self._phase: Phase = "starting"
        self._is_paused = self._is_under_way = False
        self._looks = 0

    def begin(self, phase: Phase) -> None:
        """Enter a phase. A paused run enters it when it is resumed."""
        with self._lock:
            self._phase = phase
            if not self._is_paused:
                self._observer(PhaseBegan(phase))

    def look(self) -> None:
        """Look now and then whether the run is to pause: without input, no epoch asks."""
        self._looks += 1
        if self._looks % _LOOKS == 0:
            self._tell(is_paused=self._is_asked())

    @contextmanager
    def epoch(self, ends: Callable[[], bool]) -> Iterator[None]:
        """Wait while the run is to pause, then run an epoch in the block.  ends: whether the run is to end instead."""
        self.hold(ends)
        self._is_under_way = True
        try:
            yield
        finally:
            self._is_under_way = False

    def hold(self, ends: Callable[[], bool]) -> None:
        """Wait while the run is to pause, unless it is to end."""
        while not ends() and self._tell(is_paused=self._is_asked()):
            self._stop.wait(HOLD_SECONDS)

    def _is_asked(self) -> bool:
        try:
            return self._record.is_there()
        except RetryableError:
            return self._is_paused  # the store fails: what was known last counts

    def _tell(self, *, is_paused: bool) -> bool:
        with self._lock:
            if is_paused != self._is_paused and not self._is_under_way:
                self._is_paused = is_paused
                self._observer(PhaseBegan("paused" if is_paused else self._phase))
        return is_paused
