"""Jobs as their checkpoint folders show them: no process of the job is asked, and nothing is written.

A manifest is create-once, so its document is kept. A job that goes back to an older checkpoint, or begins anew in the
folder, commits other manifests under the same epochs. So the newest known manifest is read again each time; if it is
another one, so are all documents. The identity of the job is read each time: a start may change it, and the folder may
become that of another job.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.pause import PauseRecord
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, JobIdentity
from mixedmode.clock import Clock, SystemClock
from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.serve.documents import Document, manifest_document
from mixedmode.serve.graph import graph_of_fingerprints
from mixedmode.serve.timeline import timeline_of
from mixedmode.serve.view import Readiness, page_of

__all__ = ["FolderJob", "Manifests", "open_folders"]

_FRESH_SECONDS = 1.0  # a listing is used again for so long, however many clients ask


@dataclass
class Manifests:
    """The identity of the job and the documents of the manifests in a checkpoint folder. Several threads may read."""

    log: CheckpointLog
    clock: Clock = field(default_factory=SystemClock)
    identity: JobIdentity | None = None  # when the documents were read; the one before, if the folder had none

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Epoch, Document] = {}
        self.is_paused = False  # when the documents were read, as is the next
        self.has_job = self.identity is not None
        self._read_at: float | None = None

    def documents(self) -> list[Document]:
        """Return the documents, oldest first. One that cannot be read has `error`, and nothing else but `epoch`.

        Raises RetryableError if the store fails, CorruptStateError if the identity of the job cannot be read.
        """
        with self._lock:
            now = self.clock.seconds()
            if self._read_at is None or now - self._read_at >= _FRESH_SECONDS:
                self._read()
                self._read_at = now
            return list(self._known.values())

    def _read(self) -> None:
        self.is_paused = PauseRecord(self.log.store).is_there()
        identity = self.log.read_identity()
        self.has_job, self.identity = identity is not None, identity or self.identity
        epochs = self.log.epochs()
        newest = next((epoch for epoch in reversed(epochs) if epoch in self._known), None)
        if newest is not None and self._document(newest) != self._known[newest]:
            self._known = {}
        found: dict[Epoch, Document] = {}
        for epoch in epochs:
            document = self._known.get(epoch) or self._document(epoch)
            if document is not None:
                found[epoch] = document
        self._known = found

    def _document(self, epoch: Epoch) -> Document | None:
        """Return one document; None if the job has dropped the checkpoint since the listing."""
        try:
            manifest = self.log.get(epoch)
        except CorruptStateError as error:
            return {"epoch": epoch, "error": str(error)}
        return None if manifest is None else manifest_document(manifest)


@dataclass
class FolderJob:
    """A job without a connection to its process.

    `id`: its name when the server started, or another one if several jobs had this name.
    """

    id: str
    manifests: Manifests
    clock: Clock = field(default_factory=SystemClock)

    def job(self) -> Document:
        """Return the job after its newest checkpoint."""
        epochs = self._epochs()
        identity = self.manifests.identity
        assert identity is not None, self.id
        newest = epochs[-1] if epochs else None
        is_over = newest is not None and newest["is_final"]
        return {
            "id": self.id,
            "name": identity.name,
            "is_running": None,  # nobody knows from the folder alone
            "mode": None,
            "phase": "over" if is_over else "paused" if self.manifests.is_paused else "unknown",
            "folder": self.manifests.log.store.url,
            "now_ms": self.clock.now_ms(),
            "newest_epoch": newest,
            "checkpoints": len(epochs),
            "max_parallelism": identity.max_parallelism,
            "sources": sorted(newest["sources"]) if newest else [],
            "steps": list(newest["steps"]) if newest else [],
            "graph": graph_of_fingerprints(identity.operators, sorted(newest["sources"]) if newest else []),
        }

    def epochs(self, limit: int, before: int | None = None) -> list[Document]:
        """Return the newest epochs, oldest first.  before: only older ones."""
        return page_of(self._epochs(), limit, before)

    def checkpoints(self) -> list[Document]:
        """Return the checkpoints, oldest first; one that cannot be read has an `error`."""
        return self.manifests.documents()

    def timeline(self) -> Document:
        """Return spans and marks, as far as the manifests tell."""
        epochs = self._epochs()
        found = timeline_of(epochs)
        if epochs:
            found.begin("ended" if epochs[-1]["is_final"] else "stopped", epochs[-1]["committed_ms"])
        return found.document()

    def readiness(self) -> Readiness:
        """Return whether the folder has a job, and can be read."""
        self.manifests.documents()
        if not self.manifests.has_job:
            return Readiness(is_ready=False, reason="the job is gone from its folder")
        return Readiness(is_ready=True, reason="the folder can be read")

    def _epochs(self) -> list[Document]:
        return [document for document in self.manifests.documents() if "error" not in document]


def open_folders(places: Sequence[str], clock: Clock | None = None) -> list[FolderJob]:
    """Return the jobs of checkpoint folders or URLs.  Raises InvalidJobError for one that is no checkpoint folder."""
    found: list[FolderJob] = []
    names: list[str] = []
    for place in places:
        log = CheckpointLog(ObjectStore(place))
        identity = log.read_identity()
        if identity is None:
            msg = (
                "this is not a checkpoint folder: there is no job.json in it. Name the folder that the job file gives "
                f"in execution.checkpointing.dir. folder={place}"
            )
            raise InvalidJobError(msg)
        same = sum(name == identity.name for name in names)
        names.append(identity.name)
        name = f"{identity.name}-{same + 1}" if same else identity.name
        reader = Manifests(log, clock or SystemClock(), identity)
        found.append(FolderJob(id=name, manifests=reader, clock=clock or SystemClock()))
    return found
