"""Processes of jobs that were started in the background, and their records in checkpoint folders.

    <checkpoint folder>/process.json     the process of the newest `mixedmode start`
    <checkpoint folder>/logs/run.log     what it printed

If the checkpoint folder is a URL, both are in a folder of the same content below `state_folder()`. There, each job also
has an entry for `mixedmode list`. Only a start makes these folders.

The system gives the number of a process that has ended to another one. So a record also has the time at which its
process began, which the system tells: a process with another time is another process (I1).

Invariants (tests/cli/test_background.py):
  I1  a process that is not the recorded one is never taken for it, and gets no signal
  I2  of two starts at the same time, one starts the job, and the other one is refused
  I3  a damaged record or entry is named, and never taken for a job that was not started
"""

import fcntl
import hashlib
import json
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.manifest import decode_as, encode_as
from mixedmode.checkpoint.private_folder import private_subfolder
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.config import JobSpec
from mixedmode.errors import CorruptStateError, InvalidJobError, RetryableError
from mixedmode.folders import make_folder
from mixedmode.user_folders import state_folder

__all__ = ["JobProcess", "ProcessPlace", "places_known"]

_logger = logging.getLogger(__name__)
_RECORD, _LOCK, _LOG = "process.json", "process.lock", "run.log"
_ENTRIES = "jobs"  # the folder of the entries for `mixedmode list`, in the state folder
_PROCESS = DocumentKind("mixedmode-process", 1, "the record of a process")


@dataclass(frozen=True, slots=True)
class JobProcess:
    """A process. `began`: when it began, in the words of the system; `started_ms`: for people."""

    job: str
    pid: int
    began: str
    host: str
    started_ms: int

    @property
    def is_of_this_host(self) -> bool:
        """Return whether the process belongs to this machine."""
        return self.host == socket.gethostname()

    @property
    def is_running(self) -> bool:
        """Return whether the process still runs, on this machine."""
        return self.is_of_this_host and began_of(self.pid) == self.began

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; return False if the process has ended."""
        if not self.is_of_this_host:
            return False
        try:
            if not hasattr(os, "pidfd_open"):
                if self.is_running:
                    os.kill(self.pid, number)
                    return True
                return False
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.is_running:  # asked after the handle was opened, so the handle is of the process that answers
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True


def began_of(pid: int) -> str | None:
    """Return when a process began, as the system tells it; None if there is none, or if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _began_by_ps(pid)
    except ProcessLookupError:
        return None
    state, *fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    return None if state in "ZX" else f"{boot}/{fields[18]}"


def _began_by_ps(pid: int) -> str | None:
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # a number
    return found.stdout.strip() or None


def _made_below_state(name: str) -> Path:
    """Return a folder below the state folder, and make both if they are missing. Raises as private_subfolder."""
    folder = state_folder()
    make_folder(folder.parent)
    return private_subfolder(private_subfolder(folder.parent, folder.name), name)


@dataclass(frozen=True, slots=True)
class ProcessPlace:
    """The folders of a job's process: of the record, and of the log."""

    folder: Path
    logs: Path

    @classmethod
    def of(cls, spec: JobSpec) -> "ProcessPlace":
        """Return the place of a job.  Raises InvalidJobError for a job without a checkpoint folder."""
        folder = spec.execution.checkpointing.dir
        if folder is None:
            msg = (
                "only a job with a checkpoint folder can run in the background, which keeps its process and its log "
                f"there. A batch job ends by itself: use `mixedmode run`. name={spec.name}"
            )
            raise InvalidJobError(msg)
        if "://" in folder:
            local = state_folder() / f"job-{_short(folder)}"
            return cls(local, local / "logs")
        return cls(Path(folder), Path(folder) / "logs")

    @property
    def log(self) -> Path:
        """Return the log of the newest process."""
        return self.logs / _LOG

    def read(self) -> JobProcess | None:
        """Return the process of the newest start; None if there was none.

        Raises CorruptStateError if its record is damaged: a job may run of which nothing is known.
        """
        record = self.folder / _RECORD
        try:
            return decode_as(_PROCESS, JobProcess, record.read_bytes(), where=str(record))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except CorruptStateError as error:
            msg = (
                "the record of the process of this job is damaged, so nobody knows whether the job runs. Look for its "
                "process with `ps -ef | grep 'mixedmode run'`. If it runs, end it with `kill PROCESS`, which lets it "
                f"finish its epoch. Then delete the file; `mixedmode start` writes a new one. file={record}"
            )
            raise CorruptStateError(msg) from error

    def write(self, process: JobProcess) -> None:
        """Store the process of a start.  Raises RetryableError if the folder cannot be written."""
        ObjectStore(self.folder).put(_RECORD, encode_as(_PROCESS, process))

    def enter(self) -> None:
        """Store an entry for `places_known`.  Raises the errors of private_subfolder, and those of `write`."""
        text = json.dumps([str(self.folder.absolute()), str(self.logs.absolute())])
        name = f"{_short(str(self.folder.absolute()))}.json"
        ObjectStore(_made_below_state(_ENTRIES)).put(name, text.encode())

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Start a process in the block.  Raises RetryableError if another start is under way, or the job runs."""
        if self.folder.parent == state_folder():
            _made_below_state(self.folder.name)
        make_folder(self.logs)
        with (self.folder / _LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                msg = f"another `mixedmode start` of this job is under way. folder={self.folder}"
                raise RetryableError(msg) from error
            self.check_free()
            yield

    def check_free(self) -> None:
        """Raise InvalidJobError if the job runs in the background of this machine, in another process than this one.

        Raises CorruptStateError as `read`.
        """
        running = self.read()
        if running is not None and running.is_running and running.pid != os.getpid():
            msg = (
                "the job already runs in the background. Stop it first with `mixedmode stop`, or look at it with "
                f"`mixedmode status`. job={running.job}, process={running.pid}"
            )
            raise InvalidJobError(msg)


def places_known() -> list[ProcessPlace]:
    """Return the places of the jobs that this user has started here; a place without a record is forgotten.

    A damaged entry is named in a warning.
    """
    found = []
    for entry in sorted((state_folder() / _ENTRIES).glob("*.json")):
        place = _place_in(entry)
        if place is not None and (place.folder / _RECORD).exists():
            found.append(place)
        elif place is not None:
            with suppress(OSError):  # where nothing can be written, it is only left out
                entry.unlink(missing_ok=True)
    return found


def _place_in(entry: Path) -> ProcessPlace | None:
    try:
        folders = json.loads(entry.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        folders = None
    match folders:
        case [str(folder), str(logs)]:
            return ProcessPlace(Path(folder), Path(logs))
        case _:
            _logger.warning(
                "an entry of the list of jobs is damaged, so a job is missing from the list. Its commands `status`, "
                "`logs` and `stop` find it. Delete the file; the next `mixedmode start` of the job writes a new one. "
                "file=%s",
                entry,
            )
            return None


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
