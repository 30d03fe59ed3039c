"""A reader of committed runs for programs outside of the job: a private database of links to the runs.

It shares no folder and no lock with the replicas of the job. The runs are whole files: the caller asks only for keys of
key groups in which all entries of all these files are valid (checkpoint/runs.py).

Nothing is ever written to the database, so it is opened for reading, with a list of the runs as its MANIFEST
(manifest_file.py). RocksDB would sync each run that it ingests, and its own files, while it holds the interpreter's
lock: with a busy disk, all threads of the process waited for it at each new epoch.

Invariant (tests/queryable/test_reader.py): the newest value of a key counts, and a deleted key does not exist.
"""

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, compress, islice, pairwise
from pathlib import Path
from threading import Condition
from typing import Any

from rocksdict import AccessType, Rdict, ReadOptions

from mixedmode.errors import InvalidJobError, MixedmodeError, RetryableError
from mixedmode.state.arrow_bytes import joined
from mixedmode.state.backend import StateRange
from mixedmode.state.fixed_bytes import FixedBytes, fixed_rows
from mixedmode.state.rocksdb.backend import KEYS_PER_CALL
from mixedmode.state.rocksdb.manifest_file import run_name, run_path, write_manifest
from mixedmode.state.rocksdb.options import replica_options
from mixedmode.state.rocksdb.run_arrays import RunArrays, newest_of, piece_bounds
from mixedmode.state.rocksdb.writer import TOMBSTONE
from mixedmode.system_errors import too_many_files

__all__ = ["CLOSED", "RunsReader", "joined_ranges"]

CLOSED = "this snapshot of the state is closed, and its files are deleted. Call open_state again."

_BLOCKS_OF_PIECE = 64  # about 1 MB of entries. Those of twice as many do not fit into the cache of a core
_ROWS_OF_CHUNK = 2**14  # that RocksDB reads at a time
_UNREADABLE = (ValueError, IndexError, struct.error)  # of files that are damaged, or that another writer has written
_MISSES_MAX = 8  # pieces that could not be read as arrays; then no further one is tried
_ROWS_OF_ARRAY = 256  # fewer entries are lists, which take less time then

Fetch = Callable[[str], None]


class RunsReader:
    """An open database of runs, oldest first. Thread-safe. The caller deletes the folder after `close`."""

    def __init__(self, folder: Path, runs: Sequence[Fetch], *, cache_bytes: int) -> None:
        """runs: functions that create a private link or copy of a run. Raise RetryableError if the disk fails."""
        self._folder = folder
        self._changed = Condition()  # of the two attributes below
        self._reads, self._is_closed = 0, False
        self._runs, self._misses = len(runs), 0
        self._arrays: list[RunArrays] | None = None  # opened by the first scan in pieces
        with _local(folder):
            folder.mkdir(parents=True)
            sizes = []
            for number, fetch in enumerate(runs):
                path = f"{folder}/{run_name(number)}"  # to make a Path takes longer than a link
                fetch(path)
                sizes.append(os.stat(path).st_size)  # noqa: PTH116
            write_manifest(folder, sizes)
            options = replica_options(cache_bytes)
            self._database = Rdict(
                str(folder), options, column_families={"default": options}, access_type=AccessType.read_only()
            )

    def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each stored key; None if it has none."""
        values: list[bytes | None] = []
        self._begin()  # and no context managers, which take as long as a read of a few keys
        try:
            for start in range(0, len(keys), KEYS_PER_CALL):
                values += self._database.get(list(keys[start : start + KEYS_PER_CALL]))  # type: ignore[arg-type]
        except Exception as error:  # rocksdict raises plain Exception
            raise _unusable(self._folder, error) from error
        finally:
            self._end()
        return [value or None for value in values]  # an empty value is a tombstone

    def scan(self, start: bytes, end: bytes, *, limit: int | None = None) -> StateRange:
        """Return the entries with start <= key < end, at most the first `limit` of them."""
        parts, count = list[StateRange](), 0
        with self._reading():
            following: bytes | None = start
            while following is not None and count != limit:
                wanted = None if limit is None else limit - count
                entries = self._entries(following, end, wanted)
                is_over = wanted is None or len(entries) < 2 * wanted
                following = None if is_over else entries[-2] + b"\0"
                parts.append(_range(entries))
                count += len(parts[-1].keys)
        return joined_ranges(parts)

    def scan_in_pieces(self, start: bytes, end: bytes) -> Iterator[StateRange]:
        """Yield the entries with start <= key < end, in key order: at least one piece, perhaps an empty one."""
        for low, high in pairwise(self._bounds(start, end)):
            found = self._as_arrays(low, high)
            if found is None:
                yield from self._chunks(low, high)
            else:
                yield found

    def _bounds(self, start: bytes, end: bytes) -> list[bytes]:
        """Return the bounds of pieces of a range that are read as arrays; only its own bounds if none is."""
        with self._reading():
            if self._arrays is None:
                try:
                    self._arrays = [RunArrays(run_path(self._folder, number)) for number in range(self._runs)]
                except _UNREADABLE:
                    self._arrays, self._misses = [], _MISSES_MAX
            return piece_bounds(self._arrays, start, end, blocks=_BLOCKS_OF_PIECE)

    def _as_arrays(self, low: bytes, high: bytes) -> StateRange | None:
        """Return the entries of a piece; None if RocksDB has to read them, or to say how they are damaged."""
        if self._misses >= _MISSES_MAX:
            return None
        with self._reading():
            try:
                found = newest_of(self._arrays or (), low, high)
            except _UNREADABLE:
                found = None
        self._misses += found is None
        return found

    def _chunks(self, start: bytes, end: bytes) -> Iterator[StateRange]:
        following: bytes | None = start
        while following is not None:
            part = self.scan(following, end, limit=_ROWS_OF_CHUNK)
            following = part.keys[-1] + b"\x00" if len(part.keys) == _ROWS_OF_CHUNK else None
            yield part

    def _entries(self, start: bytes, end: bytes, limit: int | None) -> list[bytes]:
        """Return keys and values in turn, with tombstones. They need no Python for each of them."""
        database: Any = self._database  # in raw mode, keys and values are bytes
        items = islice(database.items(from_key=start, read_opt=_until(end)), limit)
        found: list[bytes] = list(chain.from_iterable(items))
        if limit is None or len(found) < 2 * limit:
            entries = self._database.iter(_until(end))
            try:
                entries.seek(found[-2] + b"\0" if found else start)
                entries.status()  # raises if not the end of the range, but damage has ended the list
                assert not entries.valid(), (start, end)
            finally:
                del entries  # it keeps the database open, and a traceback would keep the iterator
        return found

    def close(self) -> None:
        """Close the database after the reads under way. RocksDB does not close it beside a read."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: self._reads == 0)
        self._database.close()
        self._arrays = None

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self._begin()
        try:
            with _local(self._folder):
                yield
        finally:
            self._end()

    def _begin(self) -> None:
        with self._changed:
            if self._is_closed:
                raise InvalidJobError(CLOSED)
            self._reads += 1

    def _end(self) -> None:
        with self._changed:
            self._reads -= 1
            if self._is_closed:
                self._changed.notify_all()


def joined_ranges(parts: Sequence[StateRange]) -> StateRange:
    """Return the entries of all parts."""
    parts = [part for part in parts if len(part.keys)]
    return StateRange(joined([part.keys for part in parts]), joined([part.values for part in parts]))


def _range(entries: list[bytes]) -> StateRange:
    """Return keys and values that come in turn, without tombstones. Many of one length are an array."""
    keys, values = entries[::2], entries[1::2]
    value_widths = {*map(len, values)}
    if len(TOMBSTONE) in value_widths:
        lives = [value != TOMBSTONE for value in values]
        return StateRange(list(compress(keys, lives)), list(compress(values, lives)))
    return StateRange(_array(keys, {*map(len, keys)}), _array(values, value_widths))


def _array(values: list[bytes], widths: set[int]) -> Sequence[bytes]:
    if len(values) < _ROWS_OF_ARRAY or len(widths) > 1:
        return values
    return FixedBytes(fixed_rows(values).reshape(len(values), -1))


def _until(end: bytes) -> ReadOptions:
    options = ReadOptions()
    options.set_iterate_upper_bound(end)
    return options


@contextmanager
def _local(folder: Path) -> Iterator[None]:
    try:
        yield
    except MixedmodeError:
        raise
    except Exception as error:  # rocksdict raises plain Exception
        raise _unusable(folder, error) from error


def _unusable(folder: Path, error: Exception) -> MixedmodeError:
    msg = (
        "the local copy of the state that this reader made cannot be used: a file of it is damaged, or the disk "
        "failed. The job is not affected. `mixedmode checkpoints DIR --verify` says whether the checkpoint itself "
        f"is whole; then read again. folder={folder}, cause={error}"
    )
    return too_many_files(error, f"folder={folder}") or RetryableError(msg)
