"""The state of one keyed stage in one subtask and epoch: opens its backend, merges old runs, stores new runs.

The name of a stored run contains its attempt. A run counts only when the driver's manifest names it. An object store
gets parts of a large run while the subtask computes the rest (uploads.py).

A run is a view of a file (checkpoint/runs.py): a subtask uses the part of a run that is in its own key groups, whatever
range of key groups the run was written for. Invariants (tests/tasks/test_task_state.py):
  I1  at every parallelism, in every order of epochs, merges and rescales, the backend reads the last written values
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.checksum import file_checksum
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.runs import Replacement, SeenRun, runs_seen
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, ExecutionStrategy, Generation, OperatorState, RunFile
from mixedmode.checkpoint.uploads import Upload, Uploads
from mixedmode.crash_points import reach
from mixedmode.errors import CorruptStateError
from mixedmode.keys import KeyGroupRange
from mixedmode.state import KeyedStateBackend, SingleKeyBackend, StateDescriptor
from mixedmode.state.merging import FAN_IN, decide_merge
from mixedmode.state.rocksdb import LocalRun, RocksDBBackend, RunWriter, open_replica
from mixedmode.state.rocksdb.merge import count_live, merge_columns, merge_runs
from mixedmode.state.rocksdb.replica import WantedRun, building, columns_of, replica_name
from mixedmode.tasks.memory import MemoryShares
from mixedmode.tasks.replicas import replicas_of


@dataclass(frozen=True, slots=True)
class StateTask:
    """The location of a stage's state, and its committed runs, oldest to newest. `fan_in`: of decide_merge."""

    checkpoint_url: str
    runs: tuple[RunFile, ...]
    fan_in: int = FAN_IN


@dataclass(frozen=True, slots=True)
class Attempt:
    """The attempt, and the part of the job that it runs. `unique` differs from that of every other attempt."""

    operator_id: str
    epoch: Epoch
    generation: Generation
    subtask: int
    groups: KeyGroupRange
    unique: str


@dataclass(frozen=True, slots=True)
class _NamedUpload:
    """A run on its way to the store, under the name `path`."""

    path: str
    upload: Upload


@dataclass(frozen=True, slots=True)
class _Run:
    """A complete run on its way to the store, and the names of the runs of which it was merged."""

    local: LocalRun
    to: _NamedUpload
    merged_from: tuple[str, ...] = ()

    def stored(self, groups: KeyGroupRange) -> RunFile:
        """Wait until the run is stored, and return it."""
        stored = self.to.upload.stored()
        return RunFile(
            path=self.to.path,
            state_id=self.local.state_id,
            bytes=stored.bytes,
            entries=self.local.entries,
            key_group_start=groups.start,
            key_group_end=groups.end,
            checksum=stored.checksum,
            merged_from=self.merged_from,
            deletions=self.local.deletions,
        )


class TaskState:
    """Opens the backend, then stores the runs written to it. `task` is None in batch mode, which keeps no state."""

    def __init__(
        self,
        task: StateTask | None,
        states: tuple[StateDescriptor, ...],
        attempt: Attempt,
        memory: MemoryShares,
        folder: Path,
        uploads: Uploads,
    ) -> None:
        self._task = task
        self._states = states
        self._attempt = attempt
        self._memory = memory
        self._folder = folder
        self._uploads = uploads
        self._stack = ExitStack()
        self._runs = self._stack.enter_context(self._writer("runs", self._begin))
        self._begun: dict[int, _NamedUpload] = {}  #: of the runs that are being written, by state id
        self._written: list[_Run] = []
        self._merged: list[tuple[tuple[str, ...], _Run | None]] = []  #: names of older runs, and what replaces them
        self.merged: tuple[Replacement, ...] = ()  # of older runs; after `store`
        self.migration_seconds = 0.0  # spent in writing new runs, and in waiting until they are stored
        self.merge_seconds = 0.0  # spent in merging older ones

    def close(self) -> None:
        """Close the replica, and discard runs that were not stored."""
        self._stack.close()

    def open(self, strategy: ExecutionStrategy) -> KeyedStateBackend:
        """Return the single-key backend if the strategy is sorted and no state precedes it, else RocksDB."""
        task = self._task
        if task is None or not self._states:
            return SingleKeyBackend(None)
        if strategy == "sorted" and not task.runs:
            return SingleKeyBackend(self._runs)
        groups = self._attempt.groups
        seen = runs_seen(task.runs, groups)
        fetching = _Fetching(ObjectStore(task.checkpoint_url), self._folder)
        self._merge(task, seen, fetching)
        replica = open_replica(
            self._replica_folder(task),
            [fetching.wanted(run) for run in seen],
            attempt=self._attempt.unique,
            cache_bytes=self._memory.cache_bytes,
        )
        self._stack.callback(replica.close)
        entries = dict.fromkeys((descriptor.state_id for descriptor in self._states), 0.0)
        for run in seen:
            entries[run.run.state_id] += run.entries / (groups.end - groups.start)
        return RocksDBBackend(replica, self._runs, entries)

    def end(self) -> None:
        """Complete the files of the written runs, and begin to store those that are not being stored yet."""
        started = time.perf_counter()
        for run in self._runs.finish():
            self._begun[run.state_id].upload.end()
            self._written.append(_Run(run, self._begun[run.state_id]))
        self.migration_seconds = self._runs.seconds + time.perf_counter() - started

    def store(self) -> tuple[RunFile, ...]:
        """Wait until all runs are stored in the checkpoint folder, and return the new ones. Call `end` before."""
        if self._task is None:
            return ()
        started = time.perf_counter()
        self._keep_columns(self._replica_folder(self._task))  # while the disk gets the runs
        groups = self._attempt.groups
        runs = tuple(run.stored(groups) for run in self._written)
        self.merged = tuple(
            Replacement(groups, names, None if run is None else run.stored(groups)) for names, run in self._merged
        )
        self.migration_seconds += time.perf_counter() - started
        return runs

    def _writer(self, folder: str, opened: Callable[[int, Path], None] | None = None) -> RunWriter:
        return RunWriter(
            self._folder / folder,
            columns_bytes=self._memory.columns_bytes,
            scanned_columns_bytes=self._memory.scanned_columns_bytes,
            opened=opened,
            only_scanned={state.state_id for state in self._states if not state.is_read_by_key},
        )

    def _keep_columns(self, replica: Path) -> None:
        # Only after the replica of this epoch is open: opening removes the columns of runs that it does not want.
        merged = (run for _, run in self._merged if run is not None)
        with building(replica):
            for run in (*merged, *self._written):
                if run.local.columns is not None:
                    columns_of(replica).keep(run.to.path, run.local.columns)

    def _replica_folder(self, task: StateTask) -> Path:
        name = replica_name(self._attempt.operator_id, self._attempt.groups)
        return replicas_of(task.checkpoint_url) / name

    def _begin(self, state_id: int, path: Path) -> None:
        """Begin to store a run whose file has just been opened."""
        assert self._task is not None, "there is no place for state in batch mode"
        store, stored_path = self._place_of(self._task, state_id, kind="s")
        self._begun[state_id] = _NamedUpload(stored_path, self._uploads.begin(store, path, stored_path))

    def _place_of(self, task: StateTask, state_id: int, *, kind: str) -> tuple[ObjectStore, str]:
        """Return where a run is stored: the store, and the path in it."""
        attempt = self._attempt
        unique = paths.attempt(attempt.generation, f"{attempt.unique}{kind}{state_id}")
        path = paths.run_path(attempt.operator_id, attempt.epoch, attempt.subtask, unique)
        return ObjectStore(task.checkpoint_url), path

    def _merge(self, task: StateTask, seen: Sequence[SeenRun], fetching: "_Fetching") -> None:
        """Merge the newest runs of each state within these key groups, if enough runs have gathered."""
        started = time.perf_counter()
        for descriptor in self._states:
            runs = [run for run in seen if run.run.state_id == descriptor.state_id]
            start = decide_merge([run.entries for run in runs], fan_in=task.fan_in)
            if start is not None:
                names = tuple(run.name for run in runs[start:])
                merged = self._merge_into_one(task, runs[start:], names, fetching, is_over_others=start > 0)
                self._merged.append((names, merged))
        self.merge_seconds = time.perf_counter() - started

    def _merge_into_one(
        self,
        task: StateTask,
        runs: Sequence[SeenRun],
        names: tuple[str, ...],
        fetching: "_Fetching",
        *,
        is_over_others: bool,
    ) -> _Run | None:
        """Merge runs, and begin to store the new one; it is read in a later epoch. None if nothing is left of them."""
        state_id = runs[0].run.state_id
        # columns in this folder were written by a subtask with these key groups, so all their entries are valid here
        columns = columns_of(self._replica_folder(task)).find(names, bytes_max=self._memory.cache_bytes)
        folder = self._folder / f"merge-{state_id}"
        with self._writer(f"merged-{state_id}") as writer:
            if columns is None:
                wanted, groups = [fetching.wanted(run) for run in runs], self._attempt.groups
                merged = merge_runs(
                    folder, wanted, state_id=state_id, groups=groups, keeps_tombstones=is_over_others, writer=writer
                )
            else:
                merged = merge_columns(columns, state_id=state_id, keeps_tombstones=is_over_others, writer=writer)
        shutil.rmtree(folder, ignore_errors=True)
        if merged is None:
            return None
        store, path = self._place_of(task, state_id, kind="m")
        upload = self._uploads.put(store, merged.path, path)
        reach("merge", self._attempt.epoch)
        return _Run(merged, _NamedUpload(path, upload), names)


def live_entries(store: ObjectStore, operator: OperatorState, *, max_parallelism: int) -> int:
    """Return the number of live entries of a step's state: each key once, without deleted ones. All runs are read."""
    groups = KeyGroupRange(0, max_parallelism)
    with temporary_folder("count-") as scratch:
        fetching = _Fetching(store, scratch)
        return sum(
            count_live(
                scratch / f"state-{state_id}",
                [fetching.wanted(run) for run in runs_seen(operator.runs, groups) if run.run.state_id == state_id],
                groups=groups,
            )
            for state_id in sorted({run.state_id for run in operator.runs})
        )


@dataclass(frozen=True, slots=True)
class _Fetching:
    """The store of committed runs, and a folder for copies that have to be cut."""

    store: ObjectStore
    scratch: Path

    def wanted(self, seen: SeenRun) -> WantedRun:
        """Return a run in the form that a replica or a merge needs."""
        return WantedRun(seen.name, _Fetch(self.store, self.scratch, seen), seen.merged_from, seen.run.state_id)


@dataclass(frozen=True, slots=True)
class _Fetch:
    """Copies a committed run to a local path, and verifies it.

    If the run is cut, copy only the entries that are valid here; write no file if there are none.
    """

    store: ObjectStore
    scratch: Path
    seen: SeenRun

    def __call__(self, local_path: Path) -> None:
        if not self.seen.is_cut:
            self._fetch_whole(local_path)
            return
        folder = Path(tempfile.mkdtemp(prefix="cut-", dir=self.scratch))
        with RunWriter(folder / "run") as writer:
            cut = merge_runs(
                folder,
                [WantedRun(self.seen.name, self._fetch_whole)],
                state_id=self.seen.run.state_id,
                groups=self.seen.groups,
                keeps_tombstones=True,
                writer=writer,
            )
            if cut is not None:
                shutil.move(cut.path, local_path)
        shutil.rmtree(folder, ignore_errors=True)

    def _fetch_whole(self, local_path: Path) -> None:
        run = self.seen.run
        found = self.store.fetch_file(run.path, local_path)
        if not found or local_path.stat().st_size != run.bytes or file_checksum(local_path) != run.checksum:
            msg = (
                "a committed run of the state is missing or damaged, so the state cannot be read. Nothing of this "
                "epoch was committed. Start the job again with execution.checkpointing.verify: checksums (which is the "
                "default): it goes back to the newest checkpoint that is whole. "
                f"run={self.store.url}/{run.path}, is_there={found}, bytes_committed={run.bytes}"
            )
            raise CorruptStateError(msg)
