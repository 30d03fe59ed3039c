"""`mixedmode start`, `status`, `stop`, `logs`, `list`: jobs that run in the background on this machine.

The process of a job is `mixedmode run` in a session of its own. So it goes on when the shell ends.
"""

import logging
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.pause import Pause, PauseRecord
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.cli.consoles import plain_table, utc_text
from mixedmode.cli.processes import JobProcess, ProcessPlace, began_of, places_known
from mixedmode.clock import SystemClock
from mixedmode.config import JobSpec
from mixedmode.errors import CorruptStateError, InvalidJobError, MixedmodeError, RetryableError
from mixedmode.installed import python_command
from mixedmode.user_folders import state_folder

__all__ = ["JobStatus", "follow_log", "last_lines", "listed_jobs", "size_of", "start_job", "status_of", "stop_job"]

_logger = logging.getLogger(__name__)
_LOG_BYTES_MAX = 64 * 1024 * 1024  # a longer log is renamed at the next start
_LINES_OF_FAILURE = 20
_POLL_SECONDS = 0.1
_TAIL_BYTES = 1024 * 1024


def start_job(spec: JobSpec, arguments: Sequence[str], *, wait_seconds: float) -> str:
    """Start `mixedmode run` in the background, and return what was started.

    arguments: of `mixedmode run`, which has the environment of this process. Wait for a moment. Raise RetryableError
    with the end of the log if the process fails meanwhile.
    """
    place = ProcessPlace.of(spec)
    with place.starting():
        if place.log.exists() and place.log.stat().st_size > _LOG_BYTES_MAX:
            place.log.replace(place.log.with_name("run.log.1"))
        with place.log.open("ab") as log:
            begins = log.tell()
            process = subprocess.Popen(  # noqa: S603  # the user's own command line
                [python_command(), "-m", "mixedmode", "run", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        began = began_of(process.pid)
        if began is not None:
            now_ms = SystemClock().now_ms()
            _record(place, process, JobProcess(spec.name, process.pid, began, socket.gethostname(), now_ms))
    try:
        code = process.wait(wait_seconds)
    except subprocess.TimeoutExpired:
        return f"{spec.name}: started, process {process.pid}. Its log: {place.log}"
    said = "\n".join(last_lines(place.log, _LINES_OF_FAILURE, begins))
    if code == 0:
        return f"{spec.name}: started, and ended already: its input has ended, or it was stopped.\n{said}"
    msg = f"the job ended right after its start. Its log has the reason:\n{said}\nexit_code={code}, log={place.log}"
    raise RetryableError(msg)


def _record(place: ProcessPlace, started: "subprocess.Popen[bytes]", process: JobProcess) -> None:
    """Store a process that has just begun. Without a record, no command would find it, so it is ended then."""
    try:
        place.write(process)
    except MixedmodeError:
        started.terminate()
        started.wait()
        raise
    try:
        place.enter()
    except (MixedmodeError, OSError) as error:
        _logger.warning(
            "the job is started, and `mixedmode list` does not show it, because its entry cannot be written. The "
            "commands `status`, `logs` and `stop` find the job. To list it, set XDG_STATE_HOME to a folder that this "
            "user can write to, and start it again. state_folder=%s, cause=%s",
            state_folder().absolute(),
            str(error),
        )


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job in the background. `process`: of the newest start, None if there was none."""

    name: str
    folder: str
    process: JobProcess | None
    is_running: bool
    pause: Pause | None
    epoch: int | None
    committed_ms: int | None
    is_over: bool
    log: Path
    trouble: str = ""

    def document(self) -> dict[str, Any]:
        """Return the status as an object of JSON."""
        process = self.process
        return {
            "job": self.name,
            "folder": self.folder,
            "is_running": self.is_running,
            "is_paused": self.pause is not None,
            "process": None if process is None else process.pid,
            "host": None if process is None else process.host,
            "started_ms": None if process is None else process.started_ms,
            "newest_epoch": self.epoch,
            "committed_ms": self.committed_ms,
            "is_over": self.is_over,
            "trouble": self.trouble or None,
            "log": str(self.log),
        }

    def lines(self, now_ms: int) -> Iterator[str]:
        """Yield the status for a person."""
        process = self.process
        if process is None:
            yield f"{self.name}: was never started in the background"
        elif not process.is_of_this_host:
            yield f"{self.name}: was started on another machine; ask there. host={process.host}, process={process.pid}"
        elif self.is_running:
            word = "running" if self.pause is None else "paused"
            yield f"{self.name}: {word}, process {process.pid} since {utc_text(process.started_ms)}"
        else:
            yield f"{self.name}: not running; process {process.pid} of {utc_text(process.started_ms)} has ended"
        if self.pause is not None:
            at = "" if self.pause.asked_ms is None else f" at {utc_text(self.pause.asked_ms)}"
            yield f"a pause was asked for{at}: no epoch begins until `mixedmode resume`"
        if self.trouble:
            yield self.trouble
        elif self.epoch is None:
            yield "no checkpoint yet"
        else:
            assert self.committed_ms is not None
            over = "; its input has ended for good" if self.is_over else ""
            yield f"newest checkpoint: epoch {self.epoch}, {max(0, now_ms - self.committed_ms) / 1000:,.0f} s ago{over}"
        yield f"log: {self.log}"


def status_of(spec: JobSpec) -> JobStatus:
    """Return the status of a job. Checkpoints that cannot be read are told as `trouble`.

    Raises CorruptStateError if the record of its process is damaged.
    """
    place, folder = ProcessPlace.of(spec), spec.execution.checkpointing.dir
    assert folder is not None, "it has a place"
    process, newest, pause, trouble = place.read(), None, None, ""
    try:
        store = ObjectStore(folder)
        newest, pause = CheckpointLog(store).latest(), PauseRecord(store).read()
    except (CorruptStateError, RetryableError) as error:
        trouble = str(error)
    return JobStatus(
        name=spec.name,
        folder=folder,
        process=process,
        is_running=process is not None and process.is_running,
        pause=pause,
        epoch=None if newest is None else newest.epoch,
        committed_ms=None if newest is None else newest.created_ms,
        is_over=newest is not None and newest.is_final,
        log=place.log,
        trouble=trouble,
    )


def stop_job(spec: JobSpec, *, timeout_seconds: float) -> str:
    """Stop the process of a job after its epoch under way, and return what happened.

    Raise RetryableError if it does not end in time; it ends later. Raise CorruptStateError if nobody knows its process.
    """
    process = ProcessPlace.of(spec).read()
    if process is not None and not process.is_of_this_host:
        msg = f"the job was started on another machine. Stop it there. host={process.host}, process={process.pid}"
        raise InvalidJobError(msg)
    if process is None or not process.send(signal.SIGTERM):
        return f"{spec.name}: does not run in the background"
    ends_at = time.monotonic() + timeout_seconds
    while process.is_running:
        if time.monotonic() > ends_at:
            msg = (
                "the job was asked to stop, and still processes its epoch. It ends after this epoch; `mixedmode "
                "status` tells when. Do not repeat the command, since a second signal aborts the epoch. "
                f"process={process.pid}, seconds={timeout_seconds:g}"
            )
            raise RetryableError(msg)
        time.sleep(_POLL_SECONDS)
    return f"{spec.name}: stopped, process {process.pid}"


def size_of(log: Path) -> int:
    """Return the bytes of a log; 0 without a log."""
    return log.stat().st_size if log.exists() else 0


def last_lines(log: Path, count: int, begins: int = 0, ends: int | None = None) -> list[str]:
    """Return the last lines of a log between two places in it; [] without a log."""
    if not log.exists() or not count:
        return []
    ends = size_of(log) if ends is None else ends
    with log.open("rb") as file:
        file.seek(max(begins, ends - _TAIL_BYTES))
        return file.read(max(0, ends - file.tell())).decode("utf-8", "replace").splitlines()[-count:]


def follow_log(log: Path, place: int, say: Callable[[str], object], *, goes_on: Callable[[], bool]) -> None:
    """Say what a log has from a place on, until `goes_on` returns False. A new log of this name is read as a whole."""
    number = None
    while True:
        is_last = not goes_on()
        if log.exists():
            found = log.stat()
            if (number is not None and found.st_ino != number) or found.st_size < place:
                place = 0
            number = found.st_ino
            with log.open("rb") as file:
                file.seek(place)
                added = file.read()
            place += len(added)
            if added:
                say(added.decode("utf-8", "replace"))
        if is_last:
            return
        time.sleep(_POLL_SECONDS)


def listed_jobs() -> Table | str:
    """Return a table of the jobs that this user has started on this machine."""
    rows = [_row(place) for place in places_known()]
    if not rows:
        return "no job was started in the background: mixedmode start JOB"
    table = plain_table(("job", "status", "process", "started", "folder"))
    for row in rows:
        table.add_row(*row)
    return table


def _row(place: ProcessPlace) -> Sequence[str]:
    """Return the job of a place for the list. `mixedmode status` says what to do about a damaged record."""
    try:
        process = place.read()
    except CorruptStateError:
        process = None
    if process is None:
        return "unknown", "record damaged", "", "", str(place.folder)
    word = "running" if process.is_running else "stopped" if process.is_of_this_host else f"on {process.host}"
    return process.job, word, str(process.pid), utc_text(process.started_ms), str(place.folder)
