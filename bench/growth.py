"""A keyed step epoch by epoch, without Spark: what a job does to its state, its manifests and its disk over its life.

Everything that could grow is the real thing (runs, merging, replicas, manifests, retention, in real
files), and all that Spark does is left out, so that ten thousand epochs take minutes. Subtasks run one after the other.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from mixedmode.checkpoint import output_paths, paths
from mixedmode.checkpoint.decide import CommitPermit
from mixedmode.checkpoint.gc import collect_orphans, drop_checkpoint
from mixedmode.checkpoint.log import CheckpointLog, Committed
from mixedmode.checkpoint.runs import Replacement, put_in_place, state_bytes
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import (
    Epoch,
    ExecutionStrategy,
    Manifest,
    OperatorState,
    RunFile,
    SourceProgress,
    StagedFile,
)
from mixedmode.checkpoint.uploads import Uploads
from mixedmode.keys import KeyGroupRange, group_range
from mixedmode.state import KeyedStateBackend, StateDescriptor
from mixedmode.state.merging import FAN_IN
from mixedmode.tasks.memory import MemoryShares
from mixedmode.tasks.task_state import Attempt, StateTask, TaskState

#: reads and writes the state of the key groups; called once per subtask and epoch
Work = Callable[[KeyedStateBackend, KeyGroupRange], None]

OPERATOR = "step-1"
MEMORY = MemoryShares(
    sort_bytes=8 * 2**20,
    key_bytes=2**20,
    cache_bytes=8 * 2**20,
    columns_bytes=8 * 2**20,
    scanned_columns_bytes=8 * 2**20,
    records_bytes=2**20,
)
OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}\n{"logOffset":%d}'
#: as the state of a count and a sum: version, schema, validity, a small number, a double that does not compress
VALUES = [b"\x01\x00\x03" + bytes([n % 251]) + bytes(7) + np.random.default_rng(n).bytes(8) for n in range(4096)]
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class EpochCost:
    """The cost of one epoch. Seconds are those of all subtasks together; entries are values and tombstones."""

    seconds: float
    merge_seconds: float
    written: int
    rewritten: int
    manifest_bytes: int
    runs: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """Files and bytes of the checkpoint folder, bytes of the state's files, bytes of local replicas."""

    files: int
    bytes: int
    state_bytes: int
    replica_bytes: int


class SimulatedJob:
    """One keyed step with its checkpoint folder and its replicas, both below `folder`."""

    def __init__(
        self,
        folder: Path,
        *,
        max_parallelism: int,
        states: tuple[StateDescriptor, ...] = (StateDescriptor(0, "state-0", ()),),
        retained: int = 3,
        fan_in: int = FAN_IN,
    ) -> None:
        self.folder = folder
        self.max_parallelism = max_parallelism
        self.fan_in = fan_in
        self.log = CheckpointLog(ObjectStore(folder / "checkpoint"))
        self.manifests: list[Manifest] = []
        self._states = states
        self._retained = retained
        self.start()

    @property
    def runs(self) -> tuple[RunFile, ...]:
        """Those of the newest manifest."""
        return self.manifests[-1].operators[0].runs if self.manifests else ()

    def start(self) -> None:
        """Start the job, for the first time or again."""
        self._generation = self.log.claim_generation()
        collect_orphans(self.log, sinks=[])

    def go_back(self) -> None:
        """Forget the newest checkpoint, as when it is damaged; the one before it counts again."""
        self.log.store.delete([paths.manifest_path(self.manifests.pop().epoch)])
        self.start()

    def run_epoch(self, work: Work, *, parallelism: int, strategy: ExecutionStrategy = "streaming") -> EpochCost:
        """One epoch from its subtasks to the retention of checkpoints."""
        started = time.perf_counter()
        epoch = Epoch(self.manifests[-1].epoch + 1 if self.manifests else 0)
        new: list[RunFile] = []
        merged: list[Replacement] = []
        merge_seconds = 0.0
        with _temporary_files_in(self.folder / "local"):
            for subtask in range(parallelism):
                state = self._run_subtask(epoch, subtask, parallelism, work, strategy, new)
                merged += state.merged
                merge_seconds += state.merge_seconds
        runs = (*put_in_place(self.runs, merged), *new)
        manifest = self._manifest(epoch, parallelism, strategy, runs)
        permit = self.log.ask_permit(epoch, own=self._generation)
        assert isinstance(permit, CommitPermit), permit
        outcome = self.log.commit(manifest, permit)
        assert isinstance(outcome, Committed), outcome
        self.manifests.append(manifest)
        while len(self.manifests) > self._retained:
            drop_checkpoint(self.log, self.manifests.pop(0), self.manifests)
        return EpochCost(
            seconds=time.perf_counter() - started,
            merge_seconds=merge_seconds,
            written=sum(run.entries for run in new),
            rewritten=sum(one.run.entries for one in merged if one.run is not None),
            manifest_bytes=self.log.store.size(paths.manifest_path(epoch)) or 0,
            runs=len(runs),
        )

    def footprint(self) -> Footprint:
        """Measure the files on the disk."""
        listing = self.log.store.list()
        local = [file for file in (self.folder / "local").rglob("*") if file.is_file()]
        return Footprint(
            files=len(listing),
            bytes=sum(size for _, size in listing),
            state_bytes=state_bytes(self.runs),
            replica_bytes=sum(file.stat().st_size for file in local),
        )

    def open_subtask(self, subtask: int, parallelism: int, work: Work) -> None:
        """One subtask at the next epoch, of which nothing is kept."""
        epoch = Epoch(self.manifests[-1].epoch + 1)
        with _temporary_files_in(self.folder / "local"):
            self._run_subtask(epoch, subtask, parallelism, work, "streaming", None)

    def _run_subtask(
        self,
        epoch: Epoch,
        subtask: int,
        parallelism: int,
        work: Work,
        strategy: ExecutionStrategy,
        new: list[RunFile] | None,
    ) -> TaskState:
        groups = group_range(subtask, parallelism=parallelism, max_parallelism=self.max_parallelism)
        unique = f"t{self._generation}e{epoch}s{subtask}"
        attempt = Attempt(OPERATOR, epoch, self._generation, subtask, groups, unique)
        folder = Path(tempfile.mkdtemp(prefix="mixedmode-subtask-"))
        place = StateTask(self.log.store.url, self.runs, self.fan_in)
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, folder)
            uploads = stack.enter_context(Uploads())
            state = TaskState(place, self._states, attempt, MEMORY, folder, uploads)
            stack.callback(state.close)
            work(state.open(strategy), groups)
            if new is not None:
                state.end()
                new += state.store()
        return state

    def _manifest(
        self, epoch: Epoch, parallelism: int, strategy: ExecutionStrategy, runs: Sequence[RunFile]
    ) -> Manifest:
        outputs = [
            StagedFile(
                output_paths.staged_path(epoch, subtask, paths.attempt(self._generation, "0" * 16), "parquet"),
                output_paths.final_path(epoch, subtask, "parquet"),
                bytes=100_000,
                rows=1_000,
                checksum="0" * 16,
            )
            for subtask in range(parallelism)
        ]
        return Manifest(
            job="growth",
            epoch=epoch,
            generation=self._generation,
            previous=Epoch(epoch - 1) if epoch else None,
            created_ms=1_700_000_000_000 + epoch,
            is_backlog=strategy == "sorted",
            strategy=strategy,
            parallelism=parallelism,
            max_parallelism=self.max_parallelism,
            sources={"events": SourceProgress(10_000_000 + epoch, 1_700_000_000_000_000, 1_700_000_000_000_000)},
            offsets=OFFSETS % epoch,
            operators=(OperatorState(OPERATOR, {"registers": ["count", "sum"]}, tuple(runs), parallelism),),
            outputs=tuple(outputs),
            records_in=1_000,
            rows_out=1_000,
            pairs=1_000,
        )


class Keys:
    """Keys of a step, sorted as they are stored, spread evenly over the key groups; and the changes of an epoch."""

    def __init__(self, count: int, *, max_parallelism: int, state_id: int = 0) -> None:
        self._random = np.random.default_rng(1)
        groups = self._random.integers(0, max_parallelism, count).astype(">u2")
        numbers = self._random.permutation(count).astype(">u8")
        raw = np.zeros((count, 12), np.uint8)
        raw[:, :2], raw[:, 2], raw[:, 3] = groups.view(np.uint8).reshape(-1, 2), state_id, 1
        raw[:, 4:] = numbers.view(np.uint8).reshape(-1, 8)
        stored = np.sort(raw.view("S12").ravel())
        self._groups = stored.view(np.uint8).reshape(count, 12)[:, :2].astype(np.int64) @ [256, 1]
        self.keys: list[bytes] = stored.view("V12").tolist()

    def __len__(self) -> int:
        return len(self.keys)

    def of(self, groups: KeyGroupRange) -> slice:
        """Return the positions of the keys of some key groups."""
        first, after = np.searchsorted(self._groups, [groups.start, groups.end])
        return slice(int(first), int(after))

    def some_of(self, groups: KeyGroupRange, share: float) -> list[bytes]:
        """About this share of the keys of some key groups, drawn evenly."""
        own = self.of(groups)
        count = max(1, round((own.stop - own.start) * share))
        drawn = np.unique(self._random.integers(own.start, own.stop, count)).tolist()
        return [self.keys[number] for number in drawn]


def writes_of(keys: Keys) -> Work:
    """Writes all keys once."""

    def work(backend: KeyedStateBackend, groups: KeyGroupRange) -> None:
        own = keys.keys[keys.of(groups)]
        backend.write(0, own, list(islice(cycle(VALUES), len(own))))

    return work


def updates_of(keys: Keys, share: float, *, deleted: float = 0.0) -> Work:
    """Reads a share of the keys and writes them back, as an aggregate does; of some, that they are deleted."""
    random = np.random.default_rng(2)

    def work(backend: KeyedStateBackend, groups: KeyGroupRange) -> None:
        some = keys.some_of(groups, share)
        backend.read(0, some)
        first = int(random.integers(len(VALUES)))
        values: list[bytes | None] = list(islice(cycle(VALUES), first, first + len(some)))
        for number in np.flatnonzero(random.random(len(some)) < deleted).tolist():
            values[number] = None
        backend.write(0, some, values)

    return work


class PassingKeys:
    """So many new keys in each epoch, all of which are deleted `epochs` later, as windows and timers are."""

    def __init__(self, count: int, *, max_parallelism: int, epochs: int) -> None:
        self.count = count
        self._max_parallelism = max_parallelism
        self._epochs = epochs
        self._now: dict[KeyGroupRange, int] = {}

    def __call__(self, backend: KeyedStateBackend, groups: KeyGroupRange) -> None:
        """The work of one epoch in the subtask of `groups`."""
        now = self._now[groups] = self._now.get(groups, self._epochs) + 1
        changes: dict[bytes, bytes | None] = dict.fromkeys(self._came(now - self._epochs, groups))
        changes |= dict(zip(self._came(now, groups), cycle(VALUES), strict=False))
        ordered = sorted(changes)
        backend.write(0, ordered, [changes[key] for key in ordered])

    def _came(self, epoch: int, groups: KeyGroupRange) -> list[bytes]:
        found = []
        for number in range(self.count):
            group = (epoch + number) % self._max_parallelism
            if groups.start <= group < groups.end:
                found.append(group.to_bytes(2, "big") + b"\x00\x01" + (epoch * self.count + number).to_bytes(8, "big"))
        return found


class _temporary_files_in:  # noqa: N801 - used like a function
    """Subtasks keep replicas and scratch files in the folder for temporary files: here, below the simulated job."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._before, tempfile.tempdir = tempfile.tempdir, str(self._folder)

    def __exit__(self, *_: object) -> None:
        tempfile.tempdir = self._before


@dataclass(frozen=True, slots=True)
class Stretch:
    """The costs of a stretch of epochs, and the footprint at its end."""

    last_epoch: int
    costs: tuple[EpochCost, ...]
    footprint: Footprint

    @property
    def milliseconds(self) -> tuple[float, float]:
        """Of an epoch: median, and the 95th percentile."""
        seconds = sorted(cost.seconds for cost in self.costs)
        return statistics.median(seconds) * 1e3, seconds[len(seconds) * 95 // 100] * 1e3

    @property
    def amplification(self) -> float:
        """Entries that merging rewrote, per entry written."""
        return sum(cost.rewritten for cost in self.costs) / sum(cost.written for cost in self.costs)

    @property
    def merge_share(self) -> float:
        """Part of the time that merging took."""
        return sum(cost.merge_seconds for cost in self.costs) / sum(cost.seconds for cost in self.costs)

    @property
    def manifest_bytes(self) -> float:
        """Mean size of a manifest."""
        return statistics.mean(cost.manifest_bytes for cost in self.costs)

    @property
    def runs(self) -> float:
        """Mean number of runs in a manifest."""
        return statistics.mean(cost.runs for cost in self.costs)


def run_stretches(job: SimulatedJob, work: Work, *, epochs: int, stretch: int, parallelism: int) -> list[Stretch]:
    """Live epochs, `stretch` by `stretch`."""
    found = []
    for first in range(0, epochs, stretch):
        count = min(stretch, epochs - first)
        costs = tuple(job.run_epoch(work, parallelism=parallelism) for _ in range(count))
        found.append(Stretch(first + count, costs, job.footprint()))
    return found


def as_table(stretches: Sequence[Stretch]) -> str:
    """The curve: a line per stretch, and below it each column once more as a line of bars, which begin at 0."""
    headings = ("epochs", "runs", "files", "manifest", "state", "folder", "replicas", "ms", "p95 ms", "x", "merging")
    columns: list[list[float]] = [[] for _ in headings]
    lines = ["".join(f"{heading:>10}" for heading in headings)]
    for one in stretches:
        print_, mib = one.footprint, 2**20
        values = (
            one.last_epoch,
            one.runs,
            print_.files,
            one.manifest_bytes,
            print_.state_bytes / mib,
            print_.bytes / mib,
            print_.replica_bytes / mib,
            *one.milliseconds,
            one.amplification,
            one.merge_share,
        )
        for column, value in zip(columns, values, strict=True):
            column.append(value)
        texts = [f"{v:,.0f}" for v in values[:4]] + [f"{v:,.1f}" for v in values[4:9]]
        lines.append("".join(f"{text:>10}" for text in (*texts, f"{values[9]:.2f}", f"{values[10]:.1%}")))
    bars = [sparkline(column) for column in columns[1:]]
    lines += [f"{heading:>10}  {bar}" for heading, bar in zip(headings[1:], bars, strict=True)]
    return "\n".join(lines)


def sparkline(values: Sequence[float]) -> str:
    """A bar per value, from 0 to the largest, so that what is flat looks flat."""
    most = max(values) or 1.0
    return "".join(BARS[min(len(BARS) - 1, int(value / most * (len(BARS) - 1) + 0.5))] for value in values)
