"""A subtask's local copy of committed runs: ingests what it lacks, is read, and is never written to.

The one idea: there is nothing to roll back. A replica holds a list of ingested runs in `ingested.json`. When the runs
that an epoch wants begin with that list, the rest is ingested; otherwise the replica is thrown away and built anew.

Invariants (tests/state/test_replica.py):
  I1  an open replica holds exactly the wanted runs, the later over the earlier
  I2  a crash at any point leaves a replica that the next `open_replica` completes or rebuilds
  I3  the committed files themselves are never changed (RocksDB gets hard links or copies)
"""

import fcntl
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from rocksdict import IngestExternalFileOptions, Rdict

from mixedmode.state.rocksdb.options import replica_options

_POLL_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class WantedRun:
    """A committed run by its unique name, and how to get a private local copy of it."""

    name: str
    fetch: Callable[[Path], None]


class Replica:
    """An open replica. Close it, or use it as a context manager; no other process can open it meanwhile."""

    def __init__(self, folder: Path, database: Rdict, lock: IO[str], *, is_temporary: bool) -> None:
        self.database = database
        self._folder = folder
        self._lock = lock
        self._is_temporary = is_temporary

    def __enter__(self) -> "Replica":
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
    replica of its own, named after `attempt`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / "lock").open("w")
    is_temporary = not _try_lock(lock)
    if is_temporary:
        lock.close()
        folder = folder.with_name(f"{folder.name}-{attempt}")
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    names = [run.name for run in wanted]
    held = _ingested(folder)
    if names[: len(held)] != held or _has_pending(folder):
        _clear(folder)
        held = []
    database = Rdict(str(folder / "db"), options=replica_options())
    _ingest(folder, database, wanted, held)
    return Replica(folder, database, lock, is_temporary=is_temporary)


def _ingest(folder: Path, database: Rdict, wanted: Sequence[WantedRun], held: list[str]) -> None:
    missing = wanted[len(held) :]
    if not missing:
        return
    # Between these two notes a crash leaves an unknown part of the runs ingested; the first note says so.
    _note(folder, held, is_pending=True)
    options = IngestExternalFileOptions()
    options.set_move_files(True)  # takes over the private copy instead of copying it again
    for run in missing:
        copy = folder / "incoming.sst"
        copy.unlink(missing_ok=True)
        run.fetch(copy)
        database.ingest_external_file([str(copy)], options)
        copy.unlink(missing_ok=True)
    _note(folder, [*held, *(run.name for run in missing)], is_pending=False)


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_note(folder: Path) -> dict[str, object]:
    try:
        note: dict[str, object] = json.loads((folder / "ingested.json").read_text())
    except (FileNotFoundError, ValueError):
        return {"runs": [], "pending": (folder / "db").exists()}
    return note


def _ingested(folder: Path) -> list[str]:
    runs = _read_note(folder)["runs"]
    assert isinstance(runs, list), runs
    return [str(run) for run in runs]


def _has_pending(folder: Path) -> bool:
    return bool(_read_note(folder)["pending"])


def _note(folder: Path, runs: Sequence[str], *, is_pending: bool) -> None:
    draft = folder / "ingested.json.tmp"
    draft.write_text(json.dumps({"runs": list(runs), "pending": is_pending}))
    draft.replace(folder / "ingested.json")


def _clear(folder: Path) -> None:
    shutil.rmtree(folder / "db", ignore_errors=True)
    (folder / "ingested.json").unlink(missing_ok=True)


def _property(database: Rdict, name: str) -> int:
    value = database.property_int_value(name)
    return 0 if value is None else int(value)
