"""A local file that one thread writes from its beginning to its end, while another one stores what is there already."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["GivenUpError", "GrowingFile"]

_LOOK_SECONDS = 0.1  # between two looks whether there is more to read
_CHUNK_BYTES = 1 << 20


class GivenUpError(Exception):
    """The writer has given the file up, so it is not stored."""


@dataclass(frozen=True, slots=True, eq=False)
class GrowingFile:
    """A file to which bytes are only appended. Its writer calls `end` or `give_up` once, after its last write."""

    path: Path
    _has_ended: threading.Event = field(default_factory=threading.Event)
    _is_given_up: threading.Event = field(default_factory=threading.Event)

    @property
    def has_ended(self) -> bool:
        """Return whether the writer has ended the file, or given it up."""
        return self._has_ended.is_set()

    @property
    def size(self) -> int:
        """The bytes that are there already; 0 if a task that failed has removed the file."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def end(self) -> None:
        """Tell that the file is complete, and closed."""
        self._has_ended.set()

    def give_up(self) -> None:
        """Tell that nobody wants the file any more. It may be gone."""
        self._is_given_up.set()
        self._has_ended.set()

    def wait(self) -> None:
        """Wait until the file is complete.  Raises GivenUpError if its writer has given it up."""
        self._has_ended.wait()
        self._check()

    def sizes(self) -> Iterator[int]:
        """Yield the bytes that are there already, at each look, until the file is complete.

        Raises GivenUpError if its writer gives it up.
        """
        while not self._has_ended.wait(_LOOK_SECONDS):
            yield self.size
        self._check()

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes from the beginning, each as soon as it is there, until the end of the complete file.

        Raises GivenUpError if its writer gives it up.
        """
        with self.path.open("rb") as file:
            while True:
                has_ended = self._has_ended.is_set()  # before reading: what is read then is the rest of the file
                self._check()
                while chunk := file.read(_CHUNK_BYTES):
                    yield chunk
                if has_ended:
                    return
                self._has_ended.wait(_LOOK_SECONDS)

    def _check(self) -> None:
        if self._is_given_up.is_set():
            raise GivenUpError
