"""Writes the new state of one epoch and subtask: one SST file per state, in key order, at bulk-load speed.

A run is written to a local folder, and then belongs to whoever asked for it. Until a manifest names it, it does not
exist.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from rocksdict import SstFileWriter

from mixedmode.errors import InternalError, MixedmodeError, RetryableError
from mixedmode.state.rocksdb.options import run_options

#: what a run holds for a deleted key; no state value is empty. RocksDB's own tombstones would not survive a merge
TOMBSTONE = b""


@dataclass(frozen=True, slots=True)
class LocalRun:
    """A finished SST file: `entries` counts values and tombstones."""

    path: Path
    state_id: int
    entries: int


class RunWriter:
    """Context manager over the SST files of one (epoch, operator, subtask) attempt; leaving it early removes them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[int, SstFileWriter] = {}  #: {state id: writer}; a file exists only for states with entries
        self._entries: dict[int, int] = {}
        self._last_key: dict[int, bytes] = {}
        self.seconds = 0.0  # spent in `write`

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for state_id in self._open:
            self._path(state_id).unlink(missing_ok=True)
        self._open.clear()

    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Appends entries; None stands for a deleted key.

        Raises InternalError unless keys are strictly increasing per state, and RetryableError when the disk does not
        take them.
        """
        assert len(keys) == len(values), (len(keys), len(values))
        if not keys:
            return
        started = time.perf_counter()
        try:
            sst = self._writer(state_id)
            for key, value in zip(keys, values, strict=True):
                sst[key] = TOMBSTONE if value is None else value
        except Exception as error:  # rocksdict raises plain Exception
            raise self._refusal(state_id, keys) from error
        self._entries[state_id] += len(keys)
        self._last_key[state_id] = keys[-1]
        self.seconds += time.perf_counter() - started

    def finish(self) -> list[LocalRun]:
        """Closes the files and hands them over, ordered by state id; no file for a state without entries.

        Raises RetryableError when the disk does not take them.
        """
        runs = []
        for state_id in sorted(self._open):
            try:
                self._open[state_id].finish()
            except Exception as error:  # rocksdict raises plain Exception
                raise self._refusal(state_id, []) from error
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

    def _refusal(self, state_id: int, keys: Sequence[bytes]) -> MixedmodeError:
        """Why RocksDB did not take `keys`: they are not in order, or else the disk."""
        last = self._last_key.get(state_id)
        in_order = [*([] if last is None else [last]), *keys]
        for before, key in pairwise(in_order):
            if key <= before:
                return InternalError(
                    "keys of a sorted run must be strictly increasing, and these are not, so state would be lost. This "
                    f"is a defect; report it. state_id={state_id}, key={key.hex()}, key_before={before.hex()}"
                )
        return RetryableError(
            "the local disk does not take the new state of this epoch; nothing of it is committed. Free some space "
            "there, or set TMPDIR to another disk; then start the job again: it resumes from its last checkpoint. "
            f"path={self._path(state_id)}, entries_written={self._entries.get(state_id, 0)}"
        )

    def _path(self, state_id: int) -> Path:
        return self._folder / f"state-{state_id:03}.sst"
