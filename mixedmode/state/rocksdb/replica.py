"""A subtask's local copy of committed runs: ingests what it lacks, is read, and is never written to.

The one idea: there is nothing to roll back. A replica holds a list of ingested runs in `ingested.json`. When the runs
that an epoch wants begin with that list, the rest is ingested; otherwise the replica is thrown away and built anew. A
run that was merged from runs that the replica holds counts as held.

Invariants (tests/state/test_replica.py):
  I1  an open replica holds exactly the wanted runs, the later over the earlier
  I2  a crash at any point leaves a replica that the next `open_replica` completes or rebuilds; so does damage or
      loss of its files, once it has been met
  I3  the committed files themselves are never changed (RocksDB gets hard links or copies)
"""

import fcntl
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from rocksdict import IngestExternalFileOptions, Rdict

from mixedmode.errors import MixedmodeError, RetryableError
from mixedmode.state.rocksdb.options import replica_options

_POLL_SECONDS = 0.002
_NOTE = "ingested.json"


@dataclass(frozen=True, slots=True)
class WantedRun:
    """A committed run by its unique name, and how to get a private local copy of it.

    `merged_from` names the runs, oldest first, that this one holds the same entries as.
    """

    name: str
    fetch: Callable[[Path], None]
    merged_from: tuple[str, ...] = ()


class Replica:
    """An open replica. Close it, or use it as a context manager; no other process can open it meanwhile."""

    def __init__(self, folder: Path, database: Rdict, lock: IO[str], *, is_temporary: bool) -> None:
        self.database = database
        self._folder = folder
        self._lock = lock
        self._is_temporary = is_temporary

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Waits for compactions that are under way, since closing would throw their work away."""
        while _property(self.database, "rocksdb.num-running-compactions"):
            time.sleep(_POLL_SECONDS)
        self.database.close()
        if self._is_temporary:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.close()


def open_replica(folder: Path, wanted: Sequence[WantedRun], *, attempt: str) -> Replica:
    """The replica in `folder`, holding exactly the runs `wanted`, oldest first.

    A second attempt of the same subtask on one machine (speculation) finds the folder locked, and gets a temporary
    replica of its own, named after `attempt`. Raises RetryableError when the local disk cannot take the replica, and
    whatever `fetch` raises.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / "lock").open("w")
    is_temporary = not _try_lock(lock)
    if is_temporary:
        lock.close()
        folder = folder.with_name(f"{folder.name}-{attempt}")
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    try:
        with building(folder):
            database = _opened(folder, wanted)
    except BaseException:
        lock.close()
        raise
    return Replica(folder, database, lock, is_temporary=is_temporary)


@contextmanager
def reading(database: Rdict) -> Iterator[None]:
    """Around reads of a replica. One that cannot be read raises RetryableError, and is built anew when next opened."""
    try:
        yield
    except Exception as error:  # rocksdict raises plain Exception
        folder = Path(database.path()).parent
        (folder / _NOTE).unlink(missing_ok=True)
        msg = (
            "the local copy of the state cannot be read, because its files are damaged or gone. The committed state is "
            "not affected. Check the disk, then start the job again: it makes a new copy and resumes from its last "
            f"checkpoint. folder={folder}"
        )
        raise RetryableError(msg) from error


@contextmanager
def building(folder: Path) -> Iterator[None]:
    """Around writes of local files made from committed runs: what goes wrong there is a RetryableError."""
    try:
        yield
    except MixedmodeError:
        raise
    except Exception as error:  # rocksdict raises plain Exception
        msg = (
            "the local copy of the state cannot be made. The committed state is not affected. Free some space there, "
            "or repair the disk; then start the job again: it resumes from its last checkpoint. "
            f"folder={folder}"
        )
        raise RetryableError(msg) from error


def _opened(folder: Path, wanted: Sequence[WantedRun]) -> Rdict:
    held_count = count_held(_ingested(folder), wanted)
    database = None
    if held_count is not None and not _is_doubtful(folder):
        database = _open_or_none(folder)
    if database is None or held_count is None:
        _clear(folder)
        held_count = 0
        database = Rdict(str(folder / "db"), options=replica_options())
    try:
        _ingest(folder, database, wanted, held_count)
    except BaseException:
        database.close()
        raise
    return database


def count_held(held: Sequence[str], wanted: Sequence[WantedRun]) -> int | None:
    """How many of the runs `wanted`, from the oldest on, a replica that ingested `held` already holds. Pure.

    None when it holds something that is not wanted, or not in that order, so that it has to be built anew.
    """
    at = 0
    for count, run in enumerate(wanted):
        if at == len(held):
            return count
        if held[at] == run.name:
            at += 1
        elif run.merged_from and tuple(held[at : at + len(run.merged_from)]) == run.merged_from:
            at += len(run.merged_from)
        else:
            return None
    return len(wanted) if at == len(held) else None


def _open_or_none(folder: Path) -> Rdict | None:
    """None if it cannot be opened, whatever the cause: it is only a copy, and is built anew."""
    try:
        return Rdict(str(folder / "db"), options=replica_options())
    except Exception:  # noqa: BLE001 - rocksdict raises plain Exception
        return None


def _ingest(folder: Path, database: Rdict, wanted: Sequence[WantedRun], held_count: int) -> None:
    missing = wanted[held_count:]
    names = [run.name for run in wanted]
    if not missing:
        if _ingested(folder) != names:  # runs that it holds were merged since
            _note(folder, names, is_pending=False)
        return
    # Between these two notes a crash leaves an unknown part of the runs ingested; the first note says so.
    _note(folder, names[:held_count], is_pending=True)
    options = IngestExternalFileOptions()
    options.set_move_files(True)  # takes over the private copy instead of copying it again
    for run in missing:
        copy = folder / "incoming.sst"
        copy.unlink(missing_ok=True)
        run.fetch(copy)
        database.ingest_external_file([str(copy)], options)
        copy.unlink(missing_ok=True)
    _note(folder, names, is_pending=False)


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_note(folder: Path) -> dict[str, object]:
    try:
        note: dict[str, object] = json.loads((folder / _NOTE).read_text())
    except (FileNotFoundError, ValueError):
        return {"runs": [], "pending": (folder / "db").exists()}
    return note


def _ingested(folder: Path) -> list[str]:
    runs = _read_note(folder)["runs"]
    assert isinstance(runs, list), runs
    return [str(run) for run in runs]


def _is_doubtful(folder: Path) -> bool:
    """Whether the database may hold something else than the note says. RocksDB takes one without CURRENT for new."""
    is_gone = bool(_ingested(folder)) and not (folder / "db" / "CURRENT").exists()
    return is_gone or bool(_read_note(folder)["pending"])


def _note(folder: Path, runs: Sequence[str], *, is_pending: bool) -> None:
    draft = folder / f"{_NOTE}.tmp"
    draft.write_text(json.dumps({"runs": list(runs), "pending": is_pending}))
    draft.replace(folder / _NOTE)


def _clear(folder: Path) -> None:
    shutil.rmtree(folder / "db", ignore_errors=True)
    (folder / _NOTE).unlink(missing_ok=True)


def _property(database: Rdict, name: str) -> int:
    value = database.property_int_value(name)
    return 0 if value is None else int(value)
