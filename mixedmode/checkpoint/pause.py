"""The pause of a job: a small file in its checkpoint folder. While it exists, the job begins no epoch.

The file stays until somebody resumes the job, so a job that is started again is still paused. A damaged file counts:
somebody has asked for a pause.
"""

from dataclasses import dataclass

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.manifest import decode_as, encode_as
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.errors import CorruptStateError

__all__ = ["Pause", "PauseRecord"]

_PAUSE = DocumentKind("mixedmode-pause", 1, "the record of a pause")


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause. `asked_ms`: the time of the request; None if the record is damaged."""

    asked_ms: int | None


@dataclass(frozen=True, slots=True)
class PauseRecord:
    """The record of a pause in a checkpoint folder. Each read goes to the store."""

    store: ObjectStore

    def is_there(self) -> bool:
        """Return whether the job is to pause."""
        return self.store.exists(paths.PAUSE)

    def read(self) -> Pause | None:
        """Return the pause; None if the job is not to pause."""
        data = self.store.get(paths.PAUSE)
        if data is None:
            return None
        try:
            return decode_as(_PAUSE, Pause, data, where=f"{self.store.url}/{paths.PAUSE}")
        except CorruptStateError:
            return Pause(None)

    def create(self, asked_ms: int) -> bool:
        """Ask for a pause. Return False if somebody has asked before."""
        return self.store.put_new(paths.PAUSE, encode_as(_PAUSE, Pause(asked_ms)))

    def delete(self) -> bool:
        """End the pause. Return False if there was none."""
        was_there = self.is_there()
        self.store.delete([paths.PAUSE])
        return was_there
