"""The interface of a job for the API, running or not."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from mixedmode.serve.documents import Document

__all__ = ["EPOCHS_KEPT", "JobView", "Readiness", "page_of"]

EPOCHS_KEPT = 2000


class Readiness(NamedTuple):
    """The readiness of a job, and the reason for a person."""

    is_ready: bool
    reason: str


class JobView(Protocol):
    """A job as the API shows it. Its methods may read files, so they are called in threads of the server."""

    @property
    def id(self) -> str:
        """The name of the job in the API."""

    def job(self) -> Document:
        """Return the job as it is now."""

    def epochs(self, limit: int, before: int | None = None) -> list[Document]:
        """Return the newest epochs, oldest first.  before: only older ones."""

    def checkpoints(self) -> list[Document]:
        """Return the checkpoints, oldest first; one that cannot be read has an `error`."""

    def timeline(self) -> Document:
        """Return spans and marks."""

    def readiness(self) -> Readiness:
        """Return whether the job is ready."""


def page_of(epochs: Sequence[Document], limit: int, before: int | None) -> list[Document]:
    """Return at most `limit` of the newest epochs, those before the epoch `before`."""
    found = [epoch for epoch in epochs if before is None or epoch["epoch"] < before]
    return found[-limit:] if limit > 0 else []
