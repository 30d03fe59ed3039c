"""Operations on a running job: savepoint, rescale, pause, stop, drain. Each does what the command line does.

A request names a savepoint, and never a place: savepoints go to the folder that the server was started with. So a
control token does not allow anybody to write elsewhere.
"""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mixedmode.clock import Clock, SystemClock
from mixedmode.config import JobSpec, RuntimeMode
from mixedmode.config.outside_texts import shown_value
from mixedmode.driver.pausing import ask_to_pause, ask_to_resume
from mixedmode.driver.rescale_requests import ask_to_rescale
from mixedmode.driver.savepoints import take_savepoint
from mixedmode.errors import InvalidJobError
from mixedmode.serve.documents import Document

__all__ = ["Busy", "Control"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Busy(Exception):  # noqa: N818 - an answer, not an error of the job
    """Another savepoint is being taken."""


@dataclass
class Control:
    """The operations. `savepoints`: a folder or URL; None if savepoints cannot be taken here.

    `mark`: adds a mark to the timeline, from its kind and text.
    """

    spec: JobSpec
    stop: threading.Event
    drain: threading.Event
    savepoints: str | None = None
    clock: Clock = field(default_factory=SystemClock)
    mark: Callable[[str, str], object] = lambda _kind, _text: None

    def __post_init__(self) -> None:
        self._savepoint_lock = threading.Lock()

    def run(self, operation: str, given: Document) -> Document:
        """Run an operation, and return what it did.

        Raises InvalidJobError, with the reason, if the job or the request does not allow it; Busy.
        """
        match operation:
            case "savepoint":
                _check_names(given, {"name"})
                return self._savepoint(_text(given, "name"))
            case "rescale":
                _check_names(given, {"subtasks", "step"})
                return self._rescale(given)
            case "stop":
                _check_names(given, set())
                return self._end(self.stop, "stop", "the job ends after the epoch under way; a new start resumes it")
            case "pause":
                _check_names(given, set())
                return {"text": ask_to_pause(self.spec, clock=self.clock)}
            case "resume":
                _check_names(given, set())
                return {"text": ask_to_resume(self.spec)}
            case "drain":
                _check_names(given, set())
                return self._drain()
            case _:
                raise AssertionError(operation)

    def _savepoint(self, name: str | None) -> Document:
        if self.savepoints is None:
            msg = (
                "the server was started without a folder for savepoints. Start the job with --savepoints FOLDER, set "
                "serve.savepoints in the job file, or use `mixedmode savepoint create`."
            )
            raise InvalidJobError(msg)
        at = datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)
        name = f"{at:%Y-%m-%dT%H-%M-%S}" if name is None else name
        if _NAME.fullmatch(name) is None:
            msg = (
                "the name of a savepoint is at most 100 letters, digits, dots, dashes and underscores, and begins with "
                f"a letter or a digit. found={name[:200]}"
            )
            raise InvalidJobError(msg)
        if not self._savepoint_lock.acquire(blocking=False):
            raise Busy
        try:
            place = f"{self.savepoints.rstrip('/')}/{name}"
            savepoint = take_savepoint(self.spec, place, clock=self.clock)
        finally:
            self._savepoint_lock.release()
        self.mark("savepoint", f"savepoint {name} of epoch {savepoint.epoch}")
        return {
            "place": place,
            "epoch": savepoint.epoch,
            "taken_ms": savepoint.taken_ms,
            "entries": savepoint.entries,
            "bytes": savepoint.bytes,
            "files": len(savepoint.files),
        }

    def _rescale(self, given: Document) -> Document:
        step = _text(given, "step")
        if "subtasks" not in given:
            msg = 'the number of subtasks is missing: send {"subtasks": 4}, or {"subtasks": null} to withdraw requests'
            raise InvalidJobError(msg)
        subtasks = given["subtasks"]
        if subtasks is not None and (not isinstance(subtasks, int) or isinstance(subtasks, bool)):
            msg = f"the number of subtasks is not a whole number. found={shown_value(subtasks)}"
            raise InvalidJobError(msg)
        if subtasks is None and step is not None:
            msg = 'all requests are withdrawn together: send {"subtasks": null} without a step'
            raise InvalidJobError(msg)
        return {"text": str(ask_to_rescale(self.spec, subtasks, step=step, clock=self.clock))}

    def _drain(self) -> Document:
        if self.stop.is_set():
            msg = (
                "the job was asked to stop before, so it ends after the epoch under way, and its input does not end. "
                f"Then start it with --drain. name={self.spec.name}"
            )
            raise InvalidJobError(msg)
        text = "the job processes the input that is present, and then its input ends for good"
        return self._end(self.drain, "drain", text)

    def _end(self, event: threading.Event, name: str, text: str) -> Document:
        if self.spec.chosen_mode is RuntimeMode.BATCH:
            msg = f"a batch job is one epoch, and ends with it. To abort it, end its process. operation={name}"
            raise InvalidJobError(msg)
        event.set()
        return {"text": text}


def _check_names(given: Document, known: set[str]) -> None:
    unknown = sorted(given.keys() - known)
    if unknown:
        names = ", ".join(sorted(known)) or "none"
        msg = f"the request has a name that this operation does not know. Known: {names}. found={unknown[0][:200]}"
        raise InvalidJobError(msg)


def _text(given: Document, name: str) -> str | None:
    value: Any = given.get(name)
    if value is not None and not isinstance(value, str):
        msg = f"{name} must be a text. found={shown_value(value)}"
        raise InvalidJobError(msg)
    return value
