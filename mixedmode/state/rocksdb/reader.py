"""A reader of committed runs for programs outside of the job: a private database that ingests links to the runs.

It shares no folder and no lock with the replicas of the job. The runs are whole files: the caller asks only for keys of
key groups in which all entries of all these files are valid (checkpoint/runs.py).

Invariant (tests/queryable/test_reader.py): the newest value of a key counts, and a deleted key does not exist.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rocksdict import IngestExternalFileOptions, Rdict, ReadOptions

from mixedmode.errors import MixedmodeError, RetryableError
from mixedmode.state.backend import StateRange
from mixedmode.state.rocksdb.backend import KEYS_PER_CALL
from mixedmode.state.rocksdb.options import replica_options
from mixedmode.state.rocksdb.writer import TOMBSTONE
from mixedmode.system_errors import too_many_files

__all__ = ["RunsReader"]

Fetch = Callable[[Path], None]


class RunsReader:
    """An open database of runs, oldest first. Reads are thread-safe. The caller deletes `folder` after `close`."""

    def __init__(self, folder: Path, runs: Sequence[Fetch], *, cache_bytes: int) -> None:
        """runs: functions that create a private link or copy of a run. Raise RetryableError if the disk fails."""
        self._folder = folder
        with _local(folder):
            folder.mkdir(parents=True, exist_ok=True)
            options = replica_options(cache_bytes)
            options.set_disable_auto_compactions(True)
            self._database = Rdict(str(folder / "db"), options=options, column_families={"default": options})
            try:
                self._ingest(runs)
            except BaseException:
                self._database.close()
                raise

    def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each stored key; None if it has none."""
        values: list[bytes | None] = []
        with _local(self._folder):
            for start in range(0, len(keys), KEYS_PER_CALL):
                values += self._database.get(list(keys[start : start + KEYS_PER_CALL]))  # type: ignore[arg-type]
        return [value or None for value in values]  # an empty value is a tombstone

    def scan(self, start: bytes, end: bytes, *, limit: int | None = None) -> StateRange:
        """Return the entries with start <= key < end, at most the first `limit` of them."""
        found = StateRange([], [])
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(end)
        with _local(self._folder):
            entries = self._database.iter(bounds)
            try:
                entries.seek(start)
                while len(found.keys) != limit and entries.valid():
                    value = entries.value()
                    if value != TOMBSTONE:
                        found.keys.append(entries.key())
                        found.values.append(value)
                    entries.next()
                entries.status()  # raises if damage ended the loop
            finally:
                del entries  # it keeps the database open, and a traceback would keep the iterator
        return found

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _ingest(self, runs: Sequence[Fetch]) -> None:
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        for fetch in runs:
            copy = self._folder / "incoming.sst"
            fetch(copy)
            self._database.ingest_external_file([str(copy)], options)
            copy.unlink(missing_ok=True)


@contextmanager
def _local(folder: Path) -> Iterator[None]:
    try:
        yield
    except MixedmodeError:
        raise
    except Exception as error:  # rocksdict raises plain Exception
        msg = (
            "the local copy of the state that this reader made cannot be used: a file of it is damaged, or the disk "
            "failed. The job is not affected. `mixedmode checkpoints DIR --verify` says whether the checkpoint itself "
            f"is whole; then read again. folder={folder}, cause={error}"
        )
        raise too_many_files(error, f"folder={folder}") or RetryableError(msg) from error
