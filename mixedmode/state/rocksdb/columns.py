"""Runs as columns, beside the database: one vectorised search finds a batch of keys, where RocksDB looks up each key.

A run never changes, so a second copy of it needs no maintenance. The writer of a run also writes its
columns. The next epoch reads the newest runs from their columns, as far back as columns exist, and merges runs from
columns if all of them have columns. All other keys are read from RocksDB, which holds all entries.

So columns may be missing at any time: the run was written on another machine or for other key groups, its keys differ
in length, it exceeds the memory limit, or its columns are damaged. Then RocksDB answers, as it does for all scans.

A file has Arrow's IPC format, with (key: fixed_size_binary, value: large_binary, NULL for a deleted key, word: uint64)
in key order. It is read through a memory map. Its name holds a hash of the run's name, and the file's checksum. The
words are for searching (key_words.py); the metadata of each batch say of which bytes of the keys they are made.

Invariants (tests/state/test_columns.py):
  I1  reading keys through columns and RocksDB returns the same values as RocksDB alone
  I2  columns that are damaged, cut short or missing when a process first opens them are ignored
  I3  at most `bytes_max` of columns are in use, those of the newest runs
  I4  a file is deleted once its run is no longer wanted
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.checkpoint.checksum import file_checksum
from mixedmode.state.arrow_bytes import ArrowBytes, array_of, joined, large_binary, values_at
from mixedmode.state.fixed_bytes import FixedBytes
from mixedmode.state.rocksdb.key_words import KeyWords, SearchedKeys, find_keys, words_of

# Searching all batches of all runs costs about as much as this many point reads; bench/micro/test_state_reads.py.
KEYS_WORTH_A_SEARCH = 256
_BATCH_ENTRIES = 64 * 1024
_CHECKED_FILES = 4096  # remembered by a process: some hundreds are in use at a time
_FIRST_BYTE = b"first_byte"  # in the metadata of a batch whose words are of use

ReadRest = Callable[[Sequence[bytes]], Sequence[bytes | None]]


class ColumnsWriter:
    """Writes one run's columns to `path`, unless they are unusable: too large, or with keys of several lengths."""

    def __init__(self, path: Path, *, bytes_max: int) -> None:
        self._path = path
        self._bytes_left = bytes_max
        self._key_type: pa.DataType | None = None  #: that of the first key
        self._keys: list[Sequence[bytes]] = []  #: in pieces, as they came
        self._values: list[Sequence[bytes | None]] = []
        self._entries = 0  #: in the pieces
        self._file: pa.ipc.RecordBatchFileWriter | None = None
        self._is_useful = bytes_max > 0

    def write(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write the next entries, in key order. Raises OSError if writing to the disk fails."""
        for start in range(0, len(keys), _BATCH_ENTRIES):  # piece by piece, so that memory is used again
            if not self._is_useful:
                return
            piece = keys[start : start + _BATCH_ENTRIES]
            self._keys.append(piece)
            self._values.append(values[start : start + _BATCH_ENTRIES])
            self._entries += len(piece)
            if self._entries >= _BATCH_ENTRIES:
                self._flush()

    def finish(self) -> Path | None:
        """Return the finished file, or None if this run has no columns."""
        if self._is_useful and self._keys:
            self._flush()
        if self._file is None:
            return None
        self._file.close()
        self._file = None
        return self._path

    def discard(self) -> None:
        """Drop all entries and remove the file."""
        self._is_useful = False
        self._forget()
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None
            self._path.unlink(missing_ok=True)

    def _flush(self) -> None:
        keys = _key_array(joined(self._keys), self._key_type)
        if keys is None:
            self.discard()
            return
        self._key_type = keys.type
        words = words_of(FixedBytes.of(keys).rows)
        columns = [keys, large_binary(joined(self._values)), pa.nulls(len(keys), pa.uint64())]
        metadata = {}
        if words is not None:
            columns[-1], metadata = pa.array(words.words), {_FIRST_BYTE: str(words.first_byte)}
        batch = pa.record_batch(columns, names=["key", "value", "word"])
        self._bytes_left -= batch.nbytes
        if self._bytes_left < 0:
            self.discard()
            return
        if self._file is None:
            self._file = pa.ipc.new_file(str(self._path), batch.schema)
        self._file.write_batch(batch, metadata)
        self._forget()

    def _forget(self) -> None:
        self._keys, self._values, self._entries = [], [], 0


@dataclass(frozen=True, slots=True)
class _Batch:
    """Entries of a run: (n,) keys, strictly increasing, and the value of each, NULL for a deleted key."""

    keys: npt.NDArray[np.bytes_]
    values: pa.LargeBinaryArray
    words: KeyWords | None


@dataclass(frozen=True, slots=True)
class RunColumns:
    """The columns of one run; `bytes` is the size of their file."""

    bytes: int
    key_bytes: int
    batches: tuple[_Batch, ...]

    @property
    def entries(self) -> int:
        """Return the number of entries, including deleted keys."""
        return sum(len(batch.keys) for batch in self.batches)


@dataclass(frozen=True, slots=True)
class NewestRuns:
    """The columns of a state's newest runs, newest first. `is_all`: the state has no other runs."""

    runs: tuple[RunColumns, ...]
    is_all: bool

    def read(self, keys: Sequence[bytes], read_rest: ReadRest) -> Sequence[bytes | None]:
        """Return the value of each key, None if it has none; `read_rest` reads the keys that no run here holds.

        `keys` are sorted and distinct. `read_rest` reads all of them if their lengths differ. It also reads all of them
        if they are few, unless the runs here are all runs of the state.
        """
        if not self.runs or (len(keys) < KEYS_WORTH_A_SEARCH and not self.is_all):
            return read_rest(keys)
        array = array_of(keys)
        if not isinstance(array, FixedBytes):
            return read_rest(keys)
        wanted, rest = SearchedKeys(array.rows), np.arange(len(keys))
        found = _Found(len(keys))
        for batches in (run.batches for run in self.runs if run.key_bytes == array.width):
            if not len(rest):
                break
            is_open = np.ones(len(rest), np.bool_)
            for batch in batches:
                positions, at = find_keys(wanted, batch.keys, batch.words)
                if len(positions):
                    found.add(rest[positions], batch.values.take(pa.array(at)))
                    is_open[positions] = False
            if not is_open.all():
                open_rows = np.flatnonzero(is_open)
                wanted, rest = wanted.at(open_rows), rest[open_rows]
        if len(rest) and not self.is_all:
            found.add(rest, large_binary(read_rest(values_at(keys, rest))))
        return found.values()


class _Found:
    """The values of n keys, in pieces as they are found."""

    def __init__(self, keys: int) -> None:
        self._numbers = np.full(keys, -1)  #: of each key: the number of its value in the pieces, -1 for none
        self._pieces: list[pa.LargeBinaryArray] = []
        self._count = 0

    def add(self, positions: npt.NDArray[np.intp], values: pa.LargeBinaryArray) -> None:
        """Add the values (m,) of the keys at some positions (m,)."""
        self._numbers[positions] = np.arange(self._count, self._count + len(positions))
        self._pieces.append(values)
        self._count += len(positions)

    def values(self) -> ArrowBytes[bytes | None]:
        """Return the value of each key, None for keys without one."""
        if not self._pieces:
            return ArrowBytes(pa.nulls(len(self._numbers), pa.large_binary()))
        is_none = self._numbers < 0
        numbers = pa.array(self._numbers, mask=is_none if is_none.any() else None)
        return ArrowBytes(pa.concat_arrays(self._pieces).take(numbers))


#: for a state without columns
NONE = NewestRuns((), is_all=False)


class ColumnsFolder:
    """The columns of a replica's runs, each under the name of its run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, run_name: str, columns: Path) -> None:
        """Move a finished file into this folder, on the same disk. It is used once its run is wanted."""
        self._folder.mkdir(parents=True, exist_ok=True)
        columns.replace(self._folder / f"{_hashed(run_name)}-{file_checksum(columns)}")

    def open(self, runs: Sequence[tuple[int, str]], *, bytes_max: int) -> tuple[dict[int, NewestRuns], int]:
        """Return the available columns of `runs` (state id, name), by state, and the number of bytes mapped.

        `runs` are ordered oldest first. Files of other runs are deleted.
        """
        files = dict(self._files())
        columns: dict[int, list[RunColumns]] = {state_id: [] for state_id, _ in runs}
        complete = set(columns)
        used_bytes = 0
        for state_id, name in reversed(runs):
            path = files.get(_hashed(name))
            run = _open(path) if state_id in complete and path is not None else None
            if run is None or used_bytes + run.bytes > bytes_max:
                complete.discard(state_id)
            else:
                columns[state_id].append(run)
                used_bytes += run.bytes
        for unwanted in files.keys() - {_hashed(name) for _, name in runs}:
            files[unwanted].unlink(missing_ok=True)
        found = {state_id: NewestRuns(tuple(of_state), state_id in complete) for state_id, of_state in columns.items()}
        return found, used_bytes

    def find(self, runs: Sequence[str], *, bytes_max: int) -> list[RunColumns] | None:
        """Return the columns of all these runs, in their order.

        Return None if a run has no columns, if the lengths of keys differ, or if the files exceed `bytes_max` together.
        """
        files, columns = dict(self._files()), list[RunColumns]()
        for name in runs:
            path = files.get(_hashed(name))
            run = None if path is None else _open(path)
            if run is None:
                return None
            columns.append(run)
        is_one_length = len({run.key_bytes for run in columns}) == 1
        return columns if is_one_length and sum(run.bytes for run in columns) <= bytes_max else None

    def _files(self) -> Iterator[tuple[str, Path]]:
        with suppress(FileNotFoundError):
            for path in self._folder.iterdir():
                yield path.name.rpartition("-")[0], path


def _key_array(keys: Sequence[bytes], key_type: pa.DataType | None) -> pa.FixedSizeBinaryArray | None:
    """Return the keys as an Arrow column; None if their lengths differ, or are not that of `key_type`."""
    fixed = array_of(keys)
    if not isinstance(fixed, FixedBytes):
        return None
    found = fixed.fixed_size_binary()
    return found if key_type in {None, found.type} else None


def _hashed(run_name: str) -> str:
    return hashlib.blake2b(run_name.encode(), digest_size=16).hexdigest()  # names may be longer than a file's


def _open(path: Path) -> RunColumns | None:
    """Return the columns in a file; None if the file is missing or damaged."""
    try:
        if not _is_whole(path):
            return None
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
            batches = [file.get_batch_with_custom_metadata(number) for number in range(file.num_record_batches)]
            key_bytes, file_bytes = file.schema.field("key").type.byte_width, mapped.size()
    except (OSError, pa.ArrowInvalid):
        return None
    return RunColumns(file_bytes, key_bytes, tuple(_batch(batch, metadata or {}) for batch, metadata in batches))


def _batch(batch: pa.RecordBatch, metadata: Mapping[bytes, bytes]) -> _Batch:
    keys, values, words = batch.columns
    first_byte = metadata.get(_FIRST_BYTE)
    found = None if first_byte is None else KeyWords(words.to_numpy(), int(first_byte))
    return _Batch(FixedBytes.of(keys).comparable(), values, found)


@lru_cache(_CHECKED_FILES)
def _is_whole(path: Path) -> bool:
    """Return whether the file has the checksum in its name. Each process reads a file once, as files never change."""
    return file_checksum(path) == path.name.rpartition("-")[2]
