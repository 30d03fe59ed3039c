"""The facts about a running job for the API: an observer of its events.

The job's thread calls the observer, and the server's thread reads; each holds the lock for microseconds. Epochs before
this start of the job come from its checkpoint folder.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mixedmode.clock import Clock, SystemClock
from mixedmode.config import JobSpec, resolve_mode
from mixedmode.driver.events import (
    EpochCommitted,
    EpochFailed,
    EpochProgress,
    EpochStarted,
    Event,
    Flipped,
    Phase,
    PhaseBegan,
)
from mixedmode.serve.documents import Document, event_document
from mixedmode.serve.graph import graph_of_job
from mixedmode.serve.timeline import Timeline, timeline_of
from mixedmode.serve.view import EPOCHS_KEPT, Readiness, page_of

__all__ = ["READY_INTERVALS", "READY_SECONDS_MIN", "LiveJob"]

#: a live job is ready while its epoch under way is no older than so many intervals, and than so many seconds
READY_INTERVALS = 10
READY_SECONDS_MIN = 30.0

#: receives (name of the event, its document), in order
Listener = Callable[[str, Document], object]


def _no_epochs() -> Sequence[Document]:
    return ()


@dataclass
class LiveJob:
    """A running job. `stored` returns the documents of its manifests, oldest first."""

    spec: JobSpec
    clock: Clock = field(default_factory=SystemClock)
    stored: Callable[[], Sequence[Document]] = _no_epochs
    listeners: list[Listener] = field(default_factory=list)

    def __post_init__(self) -> None:
        policy = resolve_mode(self.spec)
        self._mode, self._interval_ms = policy.mode, policy.live_interval_ms
        self._lock = threading.Lock()
        self._phase: Phase = "starting"
        self._started_ms = self.clock.now_ms()
        self._timeline = Timeline()
        self._epochs: deque[Document] = deque(maxlen=EPOCHS_KEPT)
        self._first: int | None = None  # the first epoch of this start
        self._under_way: Document | None = None
        self._under_way_since = 0.0
        self._failures = 0
        self._flip: Document | None = None
        self._totals = {kind: {"epochs": 0, "records": 0, "rows_out": 0} for kind in ("backlog", "live")}

    @property
    def id(self) -> str:
        """The name of the job in the API."""
        return self.spec.name

    def __call__(self, event: Event) -> None:
        """Take one event."""
        at_ms = self.clock.now_ms()
        name, document = event_document(event)
        document = {"at_ms": at_ms, **document}
        with self._lock:
            self._timeline.add(event, at_ms)
            self._fold(event, document)
        for listener in self.listeners:
            listener(name, document)

    def mark(self, kind: str, text: str) -> None:
        """Add a mark to the timeline, of something that is no event of the run."""
        at_ms = self.clock.now_ms()
        with self._lock:
            self._timeline.mark(kind, at_ms, text)
        for listener in self.listeners:
            listener("mark", {"at_ms": at_ms, "kind": kind, "text": text})

    def _fold(self, event: Event, document: Document) -> None:
        match event:
            case PhaseBegan(phase):
                self._phase = phase
            case EpochStarted():
                self._under_way = {**document, "began_ms": document["at_ms"]}
                self._under_way_since = self.clock.seconds()
            case EpochProgress():
                self._under_way = {**(self._under_way or {}), **document}
            case EpochCommitted():
                self._under_way, self._failures = None, 0
                self._first = event.epoch if self._first is None else self._first
                self._epochs.append(document)
                totals = self._totals[document["kind"]]
                totals["epochs"] += 1
                totals["records"] += event.records
                totals["rows_out"] += event.rows_out
            case EpochFailed():
                self._under_way, self._failures = None, event.failures
            case Flipped():
                self._flip = document
            case _:
                pass

    def job(self) -> Document:
        """Return the job as it is now."""
        is_ready, reason = self.readiness()
        with self._lock:
            return {
                "id": self.id,
                "name": self.spec.name,
                "is_running": True,
                "mode": self._mode,
                "phase": self._phase,
                "started_ms": self._started_ms,
                "now_ms": self.clock.now_ms(),
                "interval_ms": self._interval_ms,
                "is_ready": is_ready,
                "why": reason,
                "flip": self._flip,
                "epoch_under_way": self._under_way,
                "failures_in_a_row": self._failures,
                "newest_epoch": self._epochs[-1] if self._epochs else None,
                "totals": {kind: dict(total) for kind, total in self._totals.items()},
                "sources": sorted(self.spec.sources),
                "steps": list(self.spec.step_parallelism),
                "graph": graph_of_job(self.spec),
            }

    def epochs(self, limit: int, before: int | None = None) -> list[Document]:
        """Return the newest epochs, oldest first.  before: only older ones."""
        with self._lock:
            own, first = list(self._epochs), self._first
        earlier = [epoch for epoch in self.stored() if first is None or epoch["epoch"] < first]
        return page_of([*earlier, *own], limit, before)

    def checkpoints(self) -> list[Document]:
        """Return the checkpoints that the job retains, oldest first."""
        return list(self.stored())

    def timeline(self) -> Document:
        """Return the timeline, from the oldest retained checkpoint on."""
        stored = self.stored()
        with self._lock:
            first, started_ms = self._first, self._started_ms
            earlier = [
                epoch
                for epoch in stored
                if "error" not in epoch
                and (first is None or epoch["epoch"] < first)
                and epoch["committed_ms"] < started_ms
            ]
            before = timeline_of(earlier)
            if earlier:
                before.begin("stopped", earlier[-1]["committed_ms"])
            return self._timeline.document(before=before)

    def readiness(self) -> Readiness:
        """Return whether the job is live and commits in time."""
        with self._lock:
            if self._phase != "live":
                return Readiness(is_ready=False, reason=f"the job is not live: {self._phase}")
            if self._failures:
                return Readiness(is_ready=False, reason=f"the epoch fails, so far {self._failures} times in a row")
            if self._under_way is not None:
                seconds = self.clock.seconds() - self._under_way_since
                allowed = max(READY_SECONDS_MIN, READY_INTERVALS * self._interval_ms / 1000)
                if seconds > allowed:
                    reason = f"the epoch under way is too old, seconds={seconds:.0f}, allowed={allowed:.0f}"
                    return Readiness(is_ready=False, reason=reason)
            return Readiness(is_ready=True, reason="the job is live")
