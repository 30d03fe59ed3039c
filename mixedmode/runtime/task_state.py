"""The state of one keyed stage in one subtask and epoch: what it reads from, and how its new runs are stored.

A run is stored under a name of the attempt that wrote it; until the driver's manifest names it, it does not exist.
"""

import os
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.checksum import file_checksum
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, PathTaken, RunFile
from mixedmode.errors import CorruptStateError
from mixedmode.keys import KeyGroupRange
from mixedmode.state import KeyedStateBackend, SingleKeyBackend, StateDescriptor
from mixedmode.state.merging import decide_merge
from mixedmode.state.rocksdb import LocalRun, RocksDBBackend, RunWriter, open_replica
from mixedmode.state.rocksdb.merge import merge_runs
from mixedmode.state.rocksdb.replica import WantedRun


@dataclass(frozen=True, slots=True)
class StateTask:
    """Where a stage's state is, and the committed runs that hold it, oldest to newest."""

    checkpoint_url: str
    runs: tuple[RunFile, ...]


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which attempt at which part of the job this is; `unique` tells it from all others."""

    operator_id: str
    epoch: Epoch
    generation: Generation
    subtask: int
    groups: KeyGroupRange
    unique: str


class TaskState:
    """Opens the backend, then stores what was written to it. `task` is None in batch mode, which keeps no state."""

    def __init__(
        self, task: StateTask | None, states: tuple[StateDescriptor, ...], attempt: Attempt, folder: Path
    ) -> None:
        self._task = task
        self._states = states
        self._attempt = attempt
        self._folder = folder
        self._stack = ExitStack()
        self._runs = self._stack.enter_context(RunWriter(folder / "runs"))
        self.merged: tuple[RunFile, ...] = ()  # of older runs, each in the place of several
        self.migration_seconds = 0.0  # spent in writing and storing new runs

    def close(self) -> None:
        """Give back the replica, and forget runs that were not stored."""
        self._stack.close()

    def open(self, path: PathTaken, *, cache_bytes: int) -> KeyedStateBackend:
        """The single-key backend where no state precedes sorted input, RocksDB everywhere else."""
        task = self._task
        if task is None or not self._states:
            return SingleKeyBackend(None)
        if path == "sorted" and not task.runs:
            return SingleKeyBackend(self._runs)
        runs = [run for run in task.runs if _overlaps(run, self._attempt.groups)]
        store = ObjectStore(task.checkpoint_url)
        self.merged = tuple(
            merged
            for descriptor in self._states
            for merged in self._merge([run for run in runs if run.state_id == descriptor.state_id], store)
        )
        wanted = [WantedRun(run.path, _Fetch(store, run), run.merged_from, run.state_id) for run in runs]
        replica = open_replica(
            self._replica_folder(task), wanted, attempt=self._attempt.unique, cache_bytes=cache_bytes
        )
        self._stack.callback(replica.close)
        groups = self._attempt.groups.end - self._attempt.groups.start
        per_group = {
            descriptor.state_id: sum(run.entries for run in runs if run.state_id == descriptor.state_id) / groups
            for descriptor in self._states
        }
        return RocksDBBackend(replica.database, self._runs, per_group)

    def store(self) -> tuple[RunFile, ...]:
        """The runs that were written, stored."""
        if self._task is None:
            return ()
        started = time.perf_counter()
        store = ObjectStore(self._task.checkpoint_url)
        runs = tuple(self._store_run(run, store) for run in self._runs.finish())
        self.migration_seconds = self._runs.seconds + time.perf_counter() - started
        return runs

    def _replica_folder(self, task: StateTask) -> Path:
        job = uuid.uuid5(uuid.NAMESPACE_URL, task.checkpoint_url).hex[:16]
        groups = self._attempt.groups
        name = f"{self._attempt.operator_id}-{groups.start}-{groups.end}"
        return Path(tempfile.gettempdir()) / f"mixedmode-{os.getuid()}" / "replicas" / job / name

    def _store_run(self, run: LocalRun, store: ObjectStore, *, merged_from: Sequence[str] = ()) -> RunFile:
        attempt = self._attempt
        kind = "m" if merged_from else "s"
        unique = paths.attempt(attempt.generation, f"{attempt.unique}{kind}{run.state_id}")
        path = paths.run_path(attempt.operator_id, attempt.epoch, attempt.subtask, unique)
        store.put_file(run.path, path)
        return RunFile(
            path=path,
            state_id=run.state_id,
            bytes=run.path.stat().st_size,
            entries=run.entries,
            key_group_start=attempt.groups.start,
            key_group_end=attempt.groups.end,
            checksum=file_checksum(run.path),
            merged_from=tuple(merged_from),
        )

    def _merge(self, runs: Sequence[RunFile], store: ObjectStore) -> Iterator[RunFile]:
        """The newest runs of one state and of just these key groups, merged if enough of them have gathered."""
        own = list(takewhile(lambda run: _range(run) == self._attempt.groups, reversed(runs)))[::-1]
        start = decide_merge([run.entries for run in own])
        if start is None:
            return
        chosen = own[start:]
        folder = self._folder / f"merge-{chosen[0].state_id}"
        with RunWriter(folder / "run") as writer:
            merged = merge_runs(
                folder,
                [WantedRun(run.path, _Fetch(store, run)) for run in chosen],
                state_id=chosen[0].state_id,
                keeps_tombstones=len(chosen) < len(runs),
                writer=writer,
            )
            yield self._store_run(merged, store, merged_from=[run.path for run in chosen])


@dataclass(frozen=True, slots=True)
class _Fetch:
    """Brings a committed run to a local path, verified."""

    store: ObjectStore
    run: RunFile

    def __call__(self, local_path: Path) -> None:
        found = self.store.fetch_file(self.run.path, local_path)
        if not found or local_path.stat().st_size != self.run.bytes or not self._matches(local_path):
            msg = (
                "a committed run of the state is missing or damaged, so the state cannot be read. Restore the "
                "checkpoint folder from a copy, or go back to an older checkpoint. "
                f"run={self.store.url}/{self.run.path}, is_there={found}, bytes_committed={self.run.bytes}"
            )
            raise CorruptStateError(msg)

    def _matches(self, local_path: Path) -> bool:
        return file_checksum(local_path) == self.run.checksum


def _range(run: RunFile) -> KeyGroupRange:
    return KeyGroupRange(run.key_group_start, run.key_group_end)


def _overlaps(run: RunFile, groups: KeyGroupRange) -> bool:
    return run.key_group_start < groups.end and groups.start < run.key_group_end
