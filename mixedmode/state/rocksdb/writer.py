"""Write the new state of one epoch and subtask: one SST file per state, in key order, at bulk-load speed.

A run is written to a local folder; then its caller owns the file. A run counts only once a manifest names it. Its
columns (columns.py) are written beside it, for the next epoch on the same machine.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from mixedmode.errors import InternalError, MixedmodeError, RetryableError
from mixedmode.state.arrow_bytes import none_count, piece_of, strictly_increase
from mixedmode.state.rocksdb.columns import ColumnsWriter
from mixedmode.state.rocksdb.sst_file import SstFile
from mixedmode.system_errors import too_many_files

#: the value of a deleted key in a run; no state value is empty. RocksDB's own tombstones would not survive a merge
TOMBSTONE = b""


@dataclass(frozen=True, slots=True)
class LocalRun:
    """A finished SST file: `entries` counts values and tombstones, `deletions` the tombstones among them.

    `columns` is a file of the same entries, if there is one.
    """

    path: Path
    state_id: int
    entries: int
    deletions: int = 0
    columns: Path | None = None


class _Files:
    """The unfinished files of one state."""

    def __init__(self, path: Path, columns: ColumnsWriter, *, has_filter: bool) -> None:
        self.path = path
        self.columns = columns
        self.entries = 0
        self.deletions = 0
        self._sst = SstFile(path, has_filter=has_filter)

    def write(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        self._sst.write(keys, values)
        self.columns.write(keys, values)
        self.deletions += none_count(values)
        self.entries += len(keys)

    def finish(self, state_id: int) -> LocalRun:
        self._sst.finish()
        return LocalRun(self.path, state_id, self.entries, self.deletions, self.columns.finish())

    def discard(self) -> None:
        self._sst.discard()
        self.path.unlink(missing_ok=True)
        self.columns.discard()


class RunWriter:
    """Context manager for the files of one (epoch, operator, subtask) attempt; leaving it before `finish` removes them.

    Runs of at most `columns_bytes` are also written as columns. `opened` is called with the state and the path of each
    file when it is opened; bytes are only appended to the file. `only_scanned`: states whose files need no filter, and
    whose columns have at most `scanned_columns_bytes`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        columns_bytes: int = 0,
        scanned_columns_bytes: int = 0,
        opened: Callable[[int, Path], None] | None = None,
        only_scanned: Collection[int] = (),
    ) -> None:
        self._folder = folder
        self._columns_bytes = columns_bytes
        self._scanned_columns_bytes = scanned_columns_bytes
        self._opened = opened
        self._only_scanned = only_scanned
        self._open: dict[int, _Files] = {}  #: by state id; only for states with entries
        self._last_key: dict[int, bytes] = {}
        self.seconds = 0.0  # spent in `write`

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for files in self._open.values():
            files.discard()
        self._open.clear()

    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Append entries; the value None marks a deleted key.

        Raises InternalError unless keys are strictly increasing per state, and RetryableError if writing to the disk
        fails.
        """
        assert len(keys) == len(values), (len(keys), len(values))
        if not keys:
            return
        started = time.perf_counter()
        piece, last = piece_of(keys), self._last_key.get(state_id)
        if (last is not None and piece[0] <= last) or not strictly_increase(piece):
            raise _disorder(state_id, [*([] if last is None else [last]), *piece])
        try:
            self._files(state_id).write(piece, piece_of(values))
        except OSError as error:
            raise self._disk_failure(state_id, error) from error
        self._last_key[state_id] = piece[-1]
        self.seconds += time.perf_counter() - started

    def finish(self) -> list[LocalRun]:
        """Close the files and return them, ordered by state id; a state without entries has no file.

        Raises RetryableError if writing to the disk fails.
        """
        runs = []
        for state_id in sorted(self._open):
            try:
                runs.append(self._open[state_id].finish(state_id))
            except OSError as error:
                raise self._disk_failure(state_id, error) from error
        self._open.clear()
        return runs

    def _files(self, state_id: int) -> _Files:
        if state_id not in self._open:
            self._folder.mkdir(parents=True, exist_ok=True)
            is_scanned = state_id in self._only_scanned
            bytes_max = self._scanned_columns_bytes if is_scanned else self._columns_bytes
            columns = ColumnsWriter(self._path(state_id).with_suffix(".columns"), bytes_max=bytes_max)
            self._open[state_id] = _Files(self._path(state_id), columns, has_filter=not is_scanned)
            if self._opened is not None:
                self._opened(state_id, self._path(state_id))
        return self._open[state_id]

    def _disk_failure(self, state_id: int, error: OSError) -> MixedmodeError:
        files = self._open.get(state_id)
        return too_many_files(error, f"path={self._path(state_id)}") or RetryableError(
            "the local disk does not take the new state of this epoch; nothing of it is committed. Free some space "
            "there, or set TMPDIR to another disk; then start the job again: it resumes from its last checkpoint. "
            f"path={self._path(state_id)}, entries_written={0 if files is None else files.entries}"
        )

    def _path(self, state_id: int) -> Path:
        return self._folder / f"state-{state_id:03}.sst"


def _disorder(state_id: int, keys: Sequence[bytes]) -> InternalError:
    """Return the error for keys of which one does not sort after the one before."""
    before, key = next(pair for pair in pairwise(keys) if pair[1] <= pair[0])
    return InternalError(
        "keys of a sorted run must be strictly increasing, and these are not, so state would be lost. This "
        f"is a defect; report it. state_id={state_id}, key={key.hex()}, key_before={before.hex()}"
    )
