"""Writes the new state of one epoch and subtask: one SST file per state, in key order, at bulk-load speed.

A run is written to a local folder, and then belongs to whoever asked for it. Until a manifest names it, it does not exist.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from rocksdict import SstFileWriter

from mixedmode.errors import InternalError
from mixedmode.state.rocksdb.options import run_options


@dataclass(frozen=True, slots=True)
class LocalRun:
    """A finished SST file: `entries` counts puts and deletes."""

    path: Path
    state_id: int
    entries: int


class RunWriter:
    """Context manager over the SST files of one (epoch, operator, subtask) attempt; leaving it early removes them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[int, SstFileWriter] = {}  #: {state id: writer}; a file exists only for states with entries
        self._entries: dict[int, int] = {}
        self.seconds = 0.0  # spent in `write`

    def __enter__(self) -> "RunWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for state_id in self._open:
            self._path(state_id).unlink(missing_ok=True)
        self._open.clear()

    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Appends entries; None is a tombstone. Raises InternalError unless keys are strictly increasing per state."""
        if not keys:
            return
        started = time.perf_counter()
        sst = self._writer(state_id)
        try:
            for key, value in zip(keys, values, strict=True):
                if value is None:
                    del sst[key]
                else:
                    sst[key] = value
        except Exception as error:  # rocksdict raises plain Exception
            msg = (
                "RocksDB refused an entry of a sorted run; keys must be strictly increasing, and the disk must have "
                f"room. state_id={state_id}, first_key={keys[0].hex()}, last_key={keys[-1].hex()}"
            )
            raise InternalError(msg) from error
        self._entries[state_id] += len(keys)
        self.seconds += time.perf_counter() - started

    def finish(self) -> list[LocalRun]:
        """Closes the files and hands them over, ordered by state id; no file for a state without entries."""
        runs = []
        for state_id in sorted(self._open):
            self._open[state_id].finish()
            runs.append(LocalRun(self._path(state_id), state_id, self._entries[state_id]))
        self._open.clear()
        return runs

    def _writer(self, state_id: int) -> SstFileWriter:
        if state_id not in self._open:
            self._folder.mkdir(parents=True, exist_ok=True)
            writer = SstFileWriter(run_options())
            writer.open(str(self._path(state_id)))
            self._open[state_id] = writer
            self._entries[state_id] = 0
        return self._open[state_id]

    def _path(self, state_id: int) -> Path:
        return self._folder / f"state-{state_id:03}.sst"
