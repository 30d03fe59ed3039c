"""A subtask's local copy of committed runs: it ingests missing runs, answers reads, and is never written to otherwise.

A replica holds only committed runs, so nothing has to be rolled back. `ingested.json` lists the runs that
it holds. If the runs that an epoch wants begin with this list, the remaining runs are ingested. Otherwise the replica
is deleted and rebuilt. It is also rebuilt if the MANIFEST, RocksDB's own list of files, is not as it was: RocksDB takes
a MANIFEST that is cut short for one of fewer runs, and reads some damaged ones without end. A run counts as held if the
replica holds all the runs that it was merged from. The lists are compared per state, because each state has its own
merges and keys.

    Example: a replica that holds a, b and wants a, b, c ingests c. If it wants m (merged from a and b) and c, it also
    ingests only c. If it wants b and c, it is rebuilt.

Invariants (tests/state/test_replica.py):
  I1  the database of an open replica holds exactly the wanted runs, and later runs override earlier ones
  I2  after a crash at any point, the next `open_replica` completes or rebuilds the replica; the same holds after damage
      or loss of its files, once a read has detected it
  I3  the committed files themselves are never changed: RocksDB gets hard links or copies, and opens them only to read
      and to sync them; no other user can write to them, since replicas are in a folder of this user alone. A link
      shares its bytes with the committed file, and copies would cost the size of the state at each start. A change by
      another program is found by the checksums of the next start
  I4  opening a replica removes unlocked replicas beside it: temporary replicas of the same name, and replicas of the
      same operator with overlapping key groups, which belong to a former parallelism; it removes no others
"""

import fcntl
import glob
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from rocksdict import IngestExternalFileOptions, Rdict

from mixedmode.checkpoint.checksum import checksum_of
from mixedmode.checkpoint.private_folder import LOCK, holds, try_lock
from mixedmode.errors import MixedmodeError, RetryableError
from mixedmode.keys import KeyGroupRange
from mixedmode.state.rocksdb.columns import ColumnsFolder, NewestRuns
from mixedmode.state.rocksdb.options import BLOCK_BYTES, replica_options
from mixedmode.system_errors import local_disk_error, too_many_files

DEFAULT_CACHE_BYTES = 8 * 1024 * 1024
_POLL_SECONDS = 0.002
_NOTE = "ingested.json"
_NOTHING: dict[str, Any] = {"runs": [], "pending": False, "manifest": None}  # noted of a new replica
_TEMPORARY = "~"  # between the name of a replica and the attempt; no operator id holds it
_NAME = re.compile(r"(.+)-([0-9]+)-([0-9]+)")  # see replica_name


@dataclass(frozen=True, slots=True)
class WantedRun:
    """A committed run with its unique name, and a function that fetches a private local copy.

    `fetch` creates no file for a run without entries. `merged_from` names the runs, oldest first, whose merge this run
    is: it has the same entries. Runs of different states (`state_id`) have no key in common.
    """

    name: str
    fetch: Callable[[Path], None]
    merged_from: tuple[str, ...] = ()
    state_id: int = 0


class Replica:
    """An open replica. Close it, or use it as a context manager; no other process can open it meanwhile.

    `columns`: the columns of the newest runs, by state. `open_database` is called at the first access to the database.
    """

    def __init__(
        self,
        folder: Path,
        open_database: Callable[[], Rdict],
        columns: Mapping[int, NewestRuns],
        lock: IO[str],
        *,
        is_temporary: bool,
    ) -> None:
        self.columns = columns
        self._folder = folder
        self._open_database = open_database
        self._database: Rdict | None = None
        self._lock = lock
        self._is_temporary = is_temporary

    @property
    def database(self) -> Rdict:
        """Return the database with all runs. Raises RetryableError if the local disk fails, and errors of `fetch`."""
        if self._database is None:
            with building(self._folder):
                self._database = self._open_database()
        return self._database

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the replica. Wait for running compactions first, since closing would discard their work."""
        if self._database is not None:
            while self._database.property_int_value("rocksdb.num-running-compactions"):
                time.sleep(_POLL_SECONDS)
            if _close(self._database):
                _note_compactions(self._folder)
            else:
                (self._folder / _NOTE).unlink(missing_ok=True)  # a file is damaged, so the next open rebuilds it
        if self._is_temporary:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.close()


def open_replica(
    folder: Path, wanted: Sequence[WantedRun], *, attempt: str, cache_bytes: int = DEFAULT_CACHE_BYTES
) -> Replica:
    """Open the replica in `folder` with exactly the runs `wanted`, oldest first.

    A second attempt of the same subtask on one machine (speculation) finds the folder locked, and gets a separate
    temporary replica, named after `attempt`. `cache_bytes` is the memory for columns; the rest of it caches blocks of
    the database. If the columns hold all stored entries, the database is opened only at its first access. It may then
    lack the runs of many epochs, and ingests all of them at once. Raises the errors of `Replica.database`.
    """
    with building(folder):
        lock = _hold(folder, waits=False)
        _remove_abandoned(folder)
        _remove_former_ranges(folder)
        is_temporary = lock is None
        if lock is None:
            folder = folder.with_name(f"{folder.name}{_TEMPORARY}{attempt}")
            lock = _hold(folder, waits=True)
        assert lock is not None
    try:
        with building(folder):
            columns, taken_bytes = columns_of(folder).open(
                [(run.state_id, run.name) for run in wanted], bytes_max=cache_bytes
            )
        opened = partial(_opened, folder, wanted, max(BLOCK_BYTES, cache_bytes - taken_bytes))
        replica = Replica(folder, opened, columns, lock, is_temporary=is_temporary)
        if not (columns and all(of_state.is_all for of_state in columns.values())):
            _ = replica.database  # it will be read anyway, so its errors are raised here
    except BaseException:
        if is_temporary:
            shutil.rmtree(folder, ignore_errors=True)
        lock.close()
        raise
    return replica


def columns_of(folder: Path) -> ColumnsFolder:
    """Return the columns of the runs in the replica of this folder, which need not exist yet."""
    return ColumnsFolder(folder / "columns")


@contextmanager
def reading(database: Rdict) -> Iterator[None]:
    """Wrap reads of a replica: if it cannot be read, raise RetryableError, and have it rebuilt at the next open."""
    try:
        yield
    except Exception as error:  # rocksdict raises plain Exception
        folder = Path(database.path()).parent
        of_limit = too_many_files(error, f"folder={folder}")
        if of_limit is not None:
            raise of_limit from error
        (folder / _NOTE).unlink(missing_ok=True)
        msg = (
            "the local copy of the state cannot be read, because its files are damaged or gone. The committed state is "
            "not affected. Check the disk, then start the job again: it makes a new copy and resumes from its last "
            f"checkpoint. folder={folder}"
        )
        raise RetryableError(msg) from error


@contextmanager
def building(folder: Path) -> Iterator[None]:
    """Wrap writes of local files made from committed runs: turn every failure into a RetryableError."""
    try:
        yield
    except MixedmodeError:
        raise
    except Exception as error:  # rocksdict raises plain Exception
        raise local_disk_error(error, "the local copy of the state", f"folder={folder}") from error


def _opened(folder: Path, wanted: Sequence[WantedRun], cache_bytes: int) -> Rdict:
    missing = missing_runs(_ingested(folder), wanted)
    if missing is None or _is_doubtful(folder):
        _clear(folder)
        missing = list(wanted)
    try:
        return _completed(folder, wanted, missing, cache_bytes)
    except MixedmodeError:
        raise  # of a committed run
    except Exception:  # noqa: BLE001 - rocksdict raises plain Exception; the database is only a copy, and is rebuilt
        _clear(folder)
        return _completed(folder, wanted, list(wanted), cache_bytes)


def _completed(folder: Path, wanted: Sequence[WantedRun], missing: Sequence[WantedRun], cache_bytes: int) -> Rdict:
    """Open the database in the folder, or create it, and ingest the missing runs."""
    options = replica_options(cache_bytes)
    # A column family that is not named here is opened with the options in the database's own file. These have neither
    # the block cache nor the filter policy: reads would search blocks instead of asking the run's bloom filter first.
    database = Rdict(str(folder / "db"), options=options, column_families={"default": options})
    try:
        _ingest(folder, database, wanted, missing)
    except BaseException:
        _close(database)
        raise
    return database


def _close(database: Rdict) -> bool:
    """Close the database. Return whether no compaction has failed; without its work, the replica is slow, not wrong."""
    try:
        database.close()
    except Exception:  # noqa: BLE001 - rocksdict raises plain Exception, and has closed the database all the same
        return False
    return True


def missing_runs(held: Sequence[str], wanted: Sequence[WantedRun]) -> list[WantedRun] | None:
    """Return the runs of `wanted` that a replica with the runs `held` lacks, in the order of `wanted`. Pure.

    Per state, all of them are newer than the held runs, so they can be ingested on top. Return None if the replica has
    to be rebuilt: it holds an unwanted run, or another order of runs, or only some of the runs that were merged.
    """
    state_of = {name: run.state_id for run in wanted for name in (run.name, *run.merged_from)}
    held_of: dict[int, list[str]] = {}
    for name in held:
        if name not in state_of:
            return None
        held_of.setdefault(state_of[name], []).append(name)
    missing: set[str] = set()
    for state_id in set(state_of.values()):
        of_state = [run for run in wanted if run.state_id == state_id]
        count = _count_held(held_of.get(state_id, []), of_state)
        if count is None:
            return None
        missing.update(run.name for run in of_state[count:])
    return [run for run in wanted if run.name in missing]


def _count_held(held: Sequence[str], wanted: Sequence[WantedRun]) -> int | None:
    """Return how many of the oldest runs `wanted` of one state are held, as such or as the runs merged into them.

    Return None if `held` does not match the beginning of `wanted`.
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


def _ingest(folder: Path, database: Rdict, wanted: Sequence[WantedRun], missing: Sequence[WantedRun]) -> None:
    names, lacking = [run.name for run in wanted], {run.name for run in missing}
    if not missing:
        _note(folder, names, is_pending=False)  # some held runs may have been merged meanwhile
        return
    # After a crash between these two notes, it is unknown which runs were ingested; the first note records that.
    _note(folder, [name for name in names if name not in lacking], is_pending=True)
    options = IngestExternalFileOptions()
    options.set_move_files(True)  # takes over the private copy instead of copying it again
    for run in missing:
        copy = folder / "incoming.sst"
        copy.unlink(missing_ok=True)
        run.fetch(copy)
        if copy.exists():
            database.ingest_external_file([str(copy)], options)
            copy.unlink(missing_ok=True)
    _note(folder, names, is_pending=False)


def _hold(folder: Path, *, waits: bool) -> IO[str] | None:
    """Lock a folder, which is created if it is missing; return None if it is locked and `waits` is False."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = (folder / LOCK).open("w")
        except FileNotFoundError:
            continue  # another process has just removed the folder as abandoned
        if not try_lock(lock):
            if not waits:
                lock.close()
                return None
            fcntl.flock(lock, fcntl.LOCK_EX)
        if holds(folder, lock):
            return lock
        lock.close()


def _remove_abandoned(folder: Path) -> None:
    """Remove the unlocked temporary replicas beside `folder`. Their lock is held until they are removed."""
    for found in folder.parent.glob(f"{glob.escape(folder.name)}{_TEMPORARY}*"):
        remove_unheld(found)


def _remove_former_ranges(folder: Path) -> None:
    """Remove the unlocked replicas of the same operator whose key groups overlap, but do not equal, those of `folder`.

    The ranges of one parallelism are disjoint, so an overlapping range belongs to a former parallelism. Each such range
    overlaps a range in use, so all of these replicas are removed once every subtask has been opened here. If that
    parallelism comes back, they are rebuilt.

    Example: opening the replica of [0, 8) removes the one of [4, 6), and keeps the one of [8, 16).
    """
    own = _parsed_name(folder)
    if own is None:
        return
    for found in folder.parent.glob(f"{glob.escape(own[0])}-*"):
        other = _parsed_name(found)
        if other is None or other[0] != own[0] or other[1] == own[1]:
            continue
        if other[1].start < own[1].end and own[1].start < other[1].end:
            remove_unheld(found)


def replica_name(operator_id: str, groups: KeyGroupRange) -> str:
    """Return the name of a replica's folder, which lies beside those of the job's other operators and key groups."""
    return f"{operator_id}-{groups.start}-{groups.end}"


def _parsed_name(folder: Path) -> tuple[str, KeyGroupRange] | None:
    found = _NAME.fullmatch(folder.name.partition(_TEMPORARY)[0])
    return None if found is None else (found[1], KeyGroupRange(int(found[2]), int(found[3])))


def remove_unheld(folder: Path) -> None:
    """Remove a replica, unless a process holds it."""
    with suppress(OSError), (folder / LOCK).open("a") as lock:
        if try_lock(lock):
            shutil.rmtree(folder, ignore_errors=True)


def _read_note(folder: Path) -> dict[str, Any]:
    try:
        note: dict[str, Any] = json.loads((folder / _NOTE).read_text())
    except (FileNotFoundError, ValueError):
        note = {}
    return note if note.keys() == _NOTHING.keys() else _NOTHING


def _ingested(folder: Path) -> list[str]:
    return [str(run) for run in _read_note(folder)["runs"]]


def _is_doubtful(folder: Path) -> bool:
    """Return whether the database may differ from the note. The compactions of a process that was killed may follow."""
    note = _read_note(folder)
    noted = note["manifest"]
    return bool(note["pending"]) or _manifest(folder, None if noted is None else noted[1]) != noted


def _manifest(folder: Path, bytes_max: int | None = None) -> list[str | int] | None:
    """Return name, size and checksum of RocksDB's list of its files, up to a size; None if there is none."""
    try:
        name = (folder / "db" / "CURRENT").read_text().strip()
        data = (folder / "db" / name).read_bytes()[:bytes_max]
    except (OSError, ValueError):  # of a name that is none
        return None
    return [name, len(data), checksum_of([data])]


def _note(folder: Path, runs: Sequence[str], *, is_pending: bool) -> None:
    draft = folder / f"{_NOTE}.tmp"
    draft.write_text(json.dumps({"runs": list(runs), "pending": is_pending, "manifest": _manifest(folder)}))
    draft.replace(folder / _NOTE)


def _note_compactions(folder: Path) -> None:
    """Note the MANIFEST with all compactions, unless the database is to be rebuilt. Without it, it is checked less."""
    note = _read_note(folder)
    if note["manifest"] not in (None, _manifest(folder)):
        with suppress(OSError):
            _note(folder, note["runs"], is_pending=note["pending"])


def _clear(folder: Path) -> None:
    shutil.rmtree(folder / "db", ignore_errors=True)
    (folder / _NOTE).unlink(missing_ok=True)
