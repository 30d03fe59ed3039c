"""A step's state over the life of a job, without Spark: epochs, merges and rescales in random order, real files.

The model is a dictionary. After every epoch every subtask is asked for all it has, so a deleted key that comes back, or
one that a merge has lost, is seen at once, at whichever parallelism it happens.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.growth import SimulatedJob
from mixedmode.checkpoint.runs import Replacement, file_range, runs_seen
from mixedmode.checkpoint.types import RunFile
from mixedmode.errors import CorruptStateError
from mixedmode.keys import KeyGroupRange
from mixedmode.state import KeyedStateBackend, StateDescriptor
from mixedmode.state.keys import range_of_group
from mixedmode.state.rocksdb import RocksDBBackend
from mixedmode.state.rocksdb.merge import merge_columns, merge_runs
from mixedmode.tasks import task_state
from mixedmode.tasks.reports import SubtaskReport, decode_report
from tests.random_cases import random_cases
from tests.state.runs import entries_of

STATES = (0, 3)
DESCRIPTORS = (StateDescriptor(0, "read by key", ()), StateDescriptor(3, "scanned", (), is_read_by_key=False))
MEMORY = Path("/dev/shm")
Key = tuple[int, bytes]  # key group, key
Changes = Mapping[int, Mapping[Key, bytes | None]]  # by state; None deletes


@dataclass(frozen=True)
class Epoch:
    """The changes of an epoch and its parallelism. `twice`: a first attempt of the epoch died before its commit."""

    parallelism: int
    changes: Changes
    twice: bool = False


@dataclass(frozen=True)
class GoBack:
    """The newest checkpoint is given up."""


@dataclass(frozen=True)
class LoseReplicas:
    """The machine is another one."""


class Model:
    """A simulated job beside the dictionaries that its state should equal, one after each epoch."""

    def __init__(self, folder: Path, max_parallelism: int, *, fan_in: int = 3) -> None:
        self.job = SimulatedJob(folder, max_parallelism=max_parallelism, states=DESCRIPTORS, fan_in=fan_in)
        self.states: list[dict[int, dict[Key, bytes]]] = [{state: {} for state in STATES}]
        self._files: dict[str, dict[bytes, bytes]] = {}

    def take(self, step: "Step") -> None:
        match step:
            case Epoch():
                if step.twice:
                    with pytest.raises(InterruptedError):
                        self.job.run_epoch(interrupted, parallelism=step.parallelism)
                self._run(step)
            case GoBack():
                if len(self.job.manifests) > 1:
                    self.job.go_back()
                    self.states.pop()
            case LoseReplicas():
                shutil.rmtree(self.job.folder / "local", ignore_errors=True)

    def _run(self, step: Epoch) -> None:
        before = self.states[-1]

        def work(backend: KeyedStateBackend, groups: KeyGroupRange) -> None:
            check(backend, groups, before)
            for state, changes in step.changes.items():
                own = {key: value for key, value in changes.items() if groups.start <= key[0] < groups.end}
                keys = sorted(own)
                backend.write(state, [stored(key, state) for key in keys], [own[key] for key in keys])

        self.job.run_epoch(work, parallelism=step.parallelism)
        self.states.append(self._after(step))
        self.check_runs()

    def check_runs(self) -> None:
        """The runs of the manifest, laid over each other, are the state, whatever the replicas may hold."""
        found: dict[bytes, bytes] = {}
        for run in self.job.runs:
            if run.path not in self._files:
                file = self.job.folder / "checkpoint" / run.path
                self._files[run.path] = entries_of(file)
                assert (b"fullfilter" in file.read_bytes()) == (run.state_id == 0), "merged runs, too"
            groups = range(run.key_group_start, run.key_group_end)
            held = self._files[run.path].items()
            found |= {key: value for key, value in held if int.from_bytes(key[:2], "big") in groups}
        expected = {stored(key, state): value for state in STATES for key, value in self.states[-1][state].items()}
        assert {key: value for key, value in found.items() if value} == expected

    def _after(self, step: Epoch) -> dict[int, dict[Key, bytes]]:
        after = {state: dict(entries) for state, entries in self.states[-1].items()}
        for state, changes in step.changes.items():
            for key, value in changes.items():
                after[state].pop(key, None)
                if value is not None:
                    after[state][key] = value
        return after


def check(backend: KeyedStateBackend, groups: KeyGroupRange, expected: Mapping[int, Mapping[Key, bytes]]) -> None:
    """A subtask has what was last written of its key groups, in each way of reading."""
    for state in STATES:
        own = {stored(k, state): v for k, v in expected[state].items() if groups.start <= k[0] < groups.end}
        found: dict[bytes, bytes] = {}
        for group in range(groups.start, groups.end):
            rows = backend.scan(state, *range_of_group(group, state))
            found.update(zip(rows.keys, rows.values, strict=True))
        assert found == own, (state, groups)
        for keys in (KEYS, KEYS[:2], KEYS[2:]):  # of several lengths, and of one, which may be read from columns
            some = [stored((group, key), state) for group in range(groups.start, groups.end) for key in keys]
            assert list(backend.read(state, some)) == [own.get(key) for key in some], (state, groups)


def stored(key: Key, state: int) -> bytes:
    return key[0].to_bytes(2, "big") + bytes([state]) + key[1]


def interrupted(backend: KeyedStateBackend, groups: KeyGroupRange) -> None:
    raise InterruptedError


KEYS = [b"\x00", b"a", b"a\xff"]


Step = Epoch | GoBack | LoseReplicas


@st.composite
def walks(draw: st.DrawFn) -> tuple[int, list[Step]]:
    """Some epochs at a parallelism, then some at another one. Few keys, so that each is written, deleted and moved."""
    max_parallelism = draw(st.sampled_from([4, 13, 128]))
    groups = sorted({0, max_parallelism // 4, max_parallelism // 2, max_parallelism - 1})
    keys = st.tuples(st.sampled_from(groups), st.sampled_from(KEYS[:2]))
    entries = st.dictionaries(keys, st.sampled_from([None, b"1", b"2"]), max_size=4)
    changes = st.tuples(entries, entries.filter(bool) | st.just({})).map(
        lambda each: dict(zip(STATES, each, strict=True))
    )
    steps: list[Step] = []
    for parallelism in draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=5)):
        twice = st.sampled_from([False, False, False, False, True])
        steps += draw(st.lists(st.builds(Epoch, st.just(parallelism), changes, twice), min_size=1, max_size=5))
        steps += draw(st.sampled_from([[], [], [], [GoBack()], [GoBack(), GoBack()], [LoseReplicas()]]))
    return max_parallelism, steps


@settings(max_examples=random_cases(10), deadline=None)
@given(walk=walks())
def test_state_is_what_was_last_written_at_every_parallelism(
    walk: tuple[int, list[Step]],
) -> None:
    max_parallelism, steps = walk
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        model = Model(Path(folder), max_parallelism, fan_in=2)
        for step in [*steps, *(Epoch(parallelism, {}) for parallelism in (1, 2, 4, 1))]:
            model.take(step)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory, where there is such a place: thousands of small files are synced to it."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as name:
        yield Path(name)


@pytest.mark.parametrize("max_parallelism", [13, 128])
def test_a_walk_over_parallelisms_keeps_runs_few_and_state_right(folder: Path, max_parallelism: int) -> None:
    model = Model(folder, max_parallelism)
    number = 0
    for parallelism in (1, 2, 4, 3, 1):
        for _ in range(4):
            number += 1
            changes: dict[Key, bytes | None] = {
                (group, key): None if (group + number) % 3 == 0 else b"%d" % number
                for group in range(max_parallelism)
                for key in KEYS[: 1 + number % 3]
            }
            model.take(Epoch(parallelism, {0: changes, 3: dict(list(changes.items())[:: 1 + number % 4])}))
            for run in model.job.runs:
                assert file_range(run).start <= run.key_group_start < run.key_group_end <= file_range(run).end
        assert len(model.job.runs) <= parallelism * 2 * 6, [run.path for run in model.job.runs]
    names = sorted(place.name for place in (folder / "local").glob("mixedmode-*/replicas/*/*/"))
    assert names == [f"step-1-0-{max_parallelism}"], "replicas of former ranges are gone"
    named = {run.path for manifest in model.job.manifests for run in manifest.operators[0].runs}
    assert {path for path, _ in model.job.log.store.list("runs")} == named, "runs that nothing names are gone"


def test_what_other_runs_have_replaced_does_not_come_back_after_a_rescale(tmp_path: Path) -> None:
    model = Model(tmp_path, 4)
    model.take(Epoch(1, {0: {(group, b"a"): b"old" for group in range(4)}}))
    model.take(Epoch(4, {0: {(1, b"a"): None}}))
    for _ in range(3):  # subtask 1 of 4 merges all that it sees, and forgets the key and that it was deleted
        model.take(Epoch(4, {0: {(1, b"\x00"): b"1"}}))
    assert any(run.clipped_from for run in model.job.runs)
    for parallelism in (1, 2, 1):
        model.take(Epoch(parallelism, {}))
    assert model.states[-1][0] == {(0, b"a"): b"old", (1, b"\x00"): b"1", (2, b"a"): b"old", (3, b"a"): b"old"}


def test_a_merge_over_older_runs_keeps_in_mind_what_is_deleted(folder: Path) -> None:
    model = Model(folder, 4, fan_in=2)
    groups = range(4)
    model.take(Epoch(1, {0: {(group, key): b"old" for group in groups for key in KEYS}}))
    for key in KEYS[:2]:
        model.take(Epoch(1, {0: {(group, key): None for group in groups[:2]}}))
    model.take(LoseReplicas())
    model.take(Epoch(1, {}))
    assert [run.entries for run in model.job.runs] == [12, 4], "the two newer ones are one"
    for parallelism in (4, 1):
        model.take(Epoch(parallelism, {}))


def test_a_damaged_file_is_found_also_where_only_a_part_of_it_counts(tmp_path: Path) -> None:
    model = Model(tmp_path, 4)
    model.take(Epoch(1, {0: {(group, b"a"): b"old" for group in range(4)}}))
    for _ in range(4):
        model.take(Epoch(4, {0: {(1, b"a"): b"new"}}))
    clipped = next(run for run in model.job.runs if run.clipped_from)
    file = tmp_path / "checkpoint" / clipped.path
    file.write_bytes(file.read_bytes()[:-1] + b"\x00")
    with pytest.raises(CorruptStateError, match=r"^a committed run of the state is missing or damaged"):
        model.take(Epoch(1, {}))


def test_runs_without_an_entry_in_the_key_groups_that_merge_them_go_without_a_successor(tmp_path: Path) -> None:
    model = Model(tmp_path, 4)
    for _ in range(3):
        model.take(Epoch(1, {0: {(3, b"a"): b"1"}}))
    model.take(Epoch(2, {}))
    low, high = KeyGroupRange(0, 2), KeyGroupRange(2, 4)
    assert not runs_seen(model.job.runs, low)
    assert [seen.run.merged_from for seen in runs_seen(model.job.runs, high)] == [tuple(written(model, 3))]
    for parallelism in (2, 1, 2):
        model.take(Epoch(parallelism, {}))


def written(model: Model, epochs: int) -> list[str]:
    """Paths of the runs that epochs of one subtask have written, oldest first."""
    unique = [f"g0000000001_t1e{epoch}s0s0" for epoch in range(epochs)]
    return [f"runs/step-1/{epoch:010}-0000000000-{name}.sst" for epoch, name in enumerate(unique)]


def test_a_kill_after_a_merge_leaves_a_run_that_nothing_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(tmp_path, 4)
    for number in range(3):
        model.take(Epoch(1, {0: {(number, b"a"): b"1"}}))

    def reach(name: str, epoch: int) -> None:
        assert (name, epoch) == ("merge", 3)
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(task_state, "reach", reach)
        with pytest.raises(InterruptedError):
            model.job.run_epoch(interrupted, parallelism=1)
    assert len(model.job.log.store.list("runs")) == 4
    model.job.start()
    model.take(Epoch(1, {}))
    model.job.start()
    assert [path for path, _ in model.job.log.store.list("runs")] == [
        *written(model, 3),
        model.job.runs[0].path,
    ], "that of the killed attempt is gone; those that were merged are of older checkpoints"


def test_an_epoch_reads_the_columns_that_those_before_it_have_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    read_rest = RocksDBBackend._read_rest

    def seen(backend: RocksDBBackend, state_id: int, rest: Sequence[bytes]) -> list[bytes | None]:
        asked.append(len(rest))
        return read_rest(backend, state_id, rest)

    monkeypatch.setattr(RocksDBBackend, "_read_rest", seen)
    model = Model(folder, 4)
    every: dict[Key, bytes | None] = {(group, b"a"): b"1" for group in range(4)}

    def read(backend: KeyedStateBackend, groups: KeyGroupRange) -> None:
        for state in STATES:
            keys = [stored(key, state) for key in every if groups.start <= key[0] < groups.end]
            assert list(backend.read(state, keys)) == [b"1"] * len(keys)

    def left_to_rocksdb(parallelism: int) -> list[int]:
        asked.clear()
        model.job.run_epoch(read, parallelism=parallelism)
        return asked

    for _ in range(7):
        model.take(Epoch(2, dict.fromkeys(STATES, every)))
    assert any(run.merged_from for run in model.job.runs)
    assert left_to_rocksdb(2) == [], "the backlog's run, those of live epochs and the merged ones all have columns"
    assert left_to_rocksdb(1) == [4, 4], "runs of other key groups have none here"
    model.take(Epoch(1, dict.fromkeys(STATES, every)))
    assert left_to_rocksdb(1) == [], "what was written since is enough"
    model.take(LoseReplicas())
    assert left_to_rocksdb(1) == [4, 4], "nor has another machine any"


def test_runs_with_columns_are_merged_from_those(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    merged: list[str] = []
    for way in (merge_columns, merge_runs):

        def seen(*runs: object, way: Callable[..., object] = way, **given: object) -> object:
            merged.append(way.__name__)
            return way(*runs, **given)

        monkeypatch.setattr(task_state, way.__name__, seen)
    model = Model(folder, 4, fan_in=2)

    def ways(*steps: Step) -> list[str]:
        merged.clear()
        for step in steps:
            model.take(step)
        return merged

    some = Epoch(1, {0: {(group, b"a"): b"1" for group in range(4)}})
    assert ways(some, some, some) == ["merge_columns"], "of the first two"
    assert ways(some, LoseReplicas(), some) == ["merge_columns", "merge_runs"], "another machine has no columns"
    lengths = Epoch(1, {0: {(group, b"a" * (1 + group)): b"1" for group in range(4)}})
    assert ways(lengths, lengths)[-1] == "merge_runs", "keys are of several lengths"


def test_a_report_carries_what_was_merged() -> None:
    groups = KeyGroupRange(2, 4)
    run = RunFile("runs/a", 1, 5, 2, 2, 4, "0" * 16, ("runs/b[2,4)", "runs/c"))
    merged = (Replacement(groups, run.merged_from, run), Replacement(groups, ("runs/d",), None))
    report = SubtaskReport(3, runs=(replace(run, merged_from=()),), merged=merged)
    assert decode_report(report.encode()) == report
