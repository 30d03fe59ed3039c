"""A replica of several states, each with merges of its own, always holds what the manifest says, and rarely anew."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.checkpoint.runs import Replacement, put_in_place
from mixedmode.checkpoint.types import RunFile
from mixedmode.keys import KeyGroupRange
from mixedmode.state.rocksdb import open_replica
from mixedmode.state.rocksdb.replica import WantedRun, missing_runs
from tests.random_cases import random_cases
from tests.state.runs import Entries, contents, keys_of_groups, write_run

STATES = 3
GROUPS = KeyGroupRange(0, 4)


@dataclass(frozen=True)
class NewRuns:
    """An epoch's end: entries of the states that changed."""

    entries: dict[int, Entries]


@dataclass(frozen=True)
class Merge:
    """Neighbouring runs of one state become one: those from `start` on, `count` of them, as far as there are."""

    state_id: int
    start: int
    count: int


@dataclass(frozen=True)
class Open:
    """A subtask opens its replica for the newest list of runs, or for one that is `back` older."""

    back: int


ENTRIES = st.dictionaries(keys_of_groups(2), st.none() | st.binary(min_size=1, max_size=2), min_size=1, max_size=5)
STEPS = st.lists(
    st.builds(NewRuns, st.dictionaries(st.integers(0, STATES - 1), ENTRIES, min_size=1))
    | st.builds(Merge, st.integers(0, STATES - 1), st.integers(0, 4), st.integers(2, 5))
    | st.builds(Open, st.sampled_from([0, 0, 0, 1, 2])),
    max_size=14,
)


class History:
    """Lists of runs as manifests hold them, one after the other, and what every run holds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.lists: list[list[RunFile]] = [[]]
        self.entries: dict[str, Entries] = {}

    def add(self, state_id: int, entries: Entries, merged_from: Sequence[str] = ()) -> RunFile:
        name = f"run-{len(self.entries)}"
        own = {key[:2] + bytes([state_id]) + key[3:]: value for key, value in entries.items()}
        write_run(self._folder / name, own, state_id=state_id)
        self.entries[name] = own
        return RunFile(name, state_id, 1, len(own), 0, 4, "", tuple(merged_from))

    def end_epoch(self, step: NewRuns) -> None:
        new = [self.add(state_id, entries) for state_id, entries in sorted(step.entries.items())]
        self.lists.append([*self.lists[-1], *new])

    def merge(self, step: Merge) -> None:
        of_state = [run for run in self.lists[-1] if run.state_id == step.state_id]
        chosen = of_state[step.start : step.start + step.count]
        if len(chosen) < 2:
            return
        entries: dict[bytes, bytes | None] = {}
        for run in chosen:
            entries.update(self.entries[run.path])
        if chosen[0] is of_state[0]:  # nothing older lies below, so what is deleted may go
            entries = {key: value for key, value in entries.items() if value is not None} or dict([entries.popitem()])
        merged = self.add(step.state_id, entries, [run.path for run in chosen])
        self.lists.append(put_in_place(self.lists[-1], [Replacement(GROUPS, merged.merged_from, merged)]))

    def wanted(self, runs: Sequence[RunFile], fetched: list[str]) -> list[WantedRun]:
        def fetching(run: RunFile) -> Callable[[Path], None]:
            def fetch(target: Path) -> None:
                fetched.append(run.path)
                os.link(self._folder / run.path / f"state-{run.state_id:03}.sst", target)

            return fetch

        return [WantedRun(run.path, fetching(run), run.merged_from, run.state_id) for run in runs]

    def state(self, runs: Sequence[RunFile]) -> dict[bytes, bytes]:
        """Return the contents of the runs, the later over the earlier."""
        found: dict[bytes, bytes | None] = {}
        for run in runs:
            found.update(self.entries[run.path])
        return {key: value for key, value in sorted(found.items()) if value is not None}


@settings(max_examples=random_cases(30), deadline=None)
@given(steps=STEPS)
def test_a_replica_holds_the_wanted_state_however_the_runs_of_its_states_were_merged(
    tmp_path_factory: pytest.TempPathFactory, steps: list[NewRuns | Merge | Open]
) -> None:
    folder = tmp_path_factory.mktemp("merges")
    history = History(folder / "runs")
    opened = history.lists[0]  # the list that the replica was last opened for
    for step in [*steps, Open(0)]:
        match step:
            case NewRuns():
                history.end_epoch(step)
            case Merge():
                history.merge(step)
            case Open(back=back):
                at = max(0, len(history.lists) - 1 - back)
                fetched: list[str] = []
                with open_replica(folder / "r", history.wanted(history.lists[at], fetched), attempt="a") as replica:
                    assert contents(replica) == history.state(history.lists[at])
                if follows(opened, history.lists[at]):
                    held = {run.path for run in opened}
                    new = [run.path for run in history.lists[at] if run.path not in held and not run.merged_from]
                    assert fetched == new, "what it holds, by itself or in parts, is not fetched again"
                opened = history.lists[at]


def follows(before: Sequence[RunFile], after: Sequence[RunFile]) -> bool:
    """Return whether `after` is `before` with some runs merged, and with unmerged runs at its end."""
    held, covered = {run.path for run in before}, set[str]()
    for run in after:
        covered.update({run.path} if run.path in held or not run.merged_from else run.merged_from)
    return held <= covered and all(
        run.path in held or not run.merged_from or held.issuperset(run.merged_from) for run in after
    )


@settings(max_examples=random_cases(100), deadline=None)
@given(data=st.data(), names=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), unique=True, max_size=10))
def test_what_counts_as_held_gives_each_state_the_order_of_the_wanted_list(
    data: st.DataObject, names: list[tuple[int, int]]
) -> None:
    held = [f"{state}:{number}" for state, number in names]
    wanted: list[WantedRun] = []
    pool = data.draw(st.permutations([(s, n) for s in range(3) for n in range(6)]))
    while pool:
        state, number = pool.pop()
        parts = [f"{state}:{number}"]
        while pool and pool[-1][0] == state and data.draw(st.booleans()):
            parts.append(f"{state}:{pool.pop()[1]}")
        is_merged = len(parts) > 1
        wanted.append(
            WantedRun(f"m{parts}" if is_merged else parts[0], never, tuple(parts) if is_merged else (), state)
        )
    missing = missing_runs(held, wanted)
    if missing is None:
        return
    lacking = {run.name for run in missing}
    for state in range(3):
        of_state = [run for run in wanted if run.state_id == state]
        present = [part for run in of_state if run.name not in lacking for part in run.merged_from or (run.name,)]
        assert [name for name in held if name.startswith(f"{state}:")] == present, "in the order of the wanted list"
        flags = [run.name in lacking for run in of_state]
        assert flags == sorted(flags), "what is ingested on top comes last"


def never(_: Path) -> None:
    pytest.fail("nothing is fetched here")
