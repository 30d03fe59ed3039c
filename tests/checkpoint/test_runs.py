"""Runs as views: what a subtask sees, and what merges leave of a list of runs. Against a model without any names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.checkpoint.runs import Replacement, file_range, put_in_place, runs_seen, state_bytes
from mixedmode.checkpoint.types import RunFile
from mixedmode.keys import KeyGroupRange, group_range
from tests.random_cases import random_cases


def a_run(path: str, start: int = 0, end: int = 8, *, entries: int = 80, state_id: int = 0) -> RunFile:
    return RunFile(path, state_id, 5, entries, start, end, "0" * 16)


def views(runs: Sequence[RunFile]) -> list[str]:
    return [f"{run.path}[{run.key_group_start},{run.key_group_end})x{run.entries}" for run in runs]


def names(runs: Sequence[RunFile], start: int, end: int) -> list[str]:
    return [seen.name for seen in runs_seen(runs, KeyGroupRange(start, end))]


def merge(runs: Sequence[RunFile], path: str, start: int, end: int, names: Sequence[str]) -> Replacement:
    merged = replace(a_run(path, start, end), merged_from=tuple(names))
    return Replacement(KeyGroupRange(start, end), tuple(names), merged)


def test_what_is_left_of_a_run_stays_at_its_place_and_the_merged_run_comes_behind_the_newest() -> None:
    runs = [a_run("a"), a_run("b"), a_run("c", 0, 4), a_run("d", 4, 8)]
    after = put_in_place(runs, [merge(runs, "m", 2, 4, ["b", "c"])])
    assert views(after) == ["a[0,8)x80", "b[0,2)x20", "b[4,8)x40", "c[0,2)x40", "m[2,4)x80", "d[4,8)x80"]
    assert [run.clipped_from for run in after] == [None, (0, 8), (0, 8), (0, 4), None, None]
    assert state_bytes(after) == 5 * 5, "one file that is two runs is counted once"


def test_several_subtasks_merge_in_one_epoch() -> None:
    runs = [a_run("a"), a_run("b")]
    both = [merge(runs, "m", 0, 4, ["a", "b"]), merge(runs, "n", 4, 8, ["b"])]
    for merges in (both, both[::-1]):
        after = put_in_place(runs, merges)
        assert sorted(views(after)) == ["a[4,8)x40", "m[0,4)x80", "n[4,8)x80"]
        assert after[0].path == "a"


def test_runs_that_are_replaced_altogether_are_gone() -> None:
    runs = [a_run("a"), a_run("b")]
    assert views(put_in_place(runs, [merge(runs, "m", 0, 8, ["a", "b"])])) == ["m[0,8)x80"]
    nothing = Replacement(KeyGroupRange(0, 8), ("a", "b"), None)
    assert put_in_place(runs, [nothing]) == []
    assert put_in_place(runs, []) == runs


def test_a_file_that_holds_more_than_counts_is_cut_for_those_who_would_read_it_only() -> None:
    runs = put_in_place(before := [a_run("a")], [merge(before, "m", 2, 4, ["a"])])
    assert names(runs, 0, 2) == ["a"], "the rest of the file is of other subtasks"
    assert names(runs, 4, 8) == ["a"]
    assert names(runs, 2, 4) == ["m"]
    assert names(runs, 0, 8) == ["a[0,2)", "a[4,8)", "m"]
    assert names(runs, 1, 3) == ["a[1,2)", "m"]
    assert [seen.is_cut for seen in runs_seen(runs, KeyGroupRange(1, 6))] == [True, True, False]


def test_only_the_range_that_merged_a_run_may_count_it_as_held() -> None:
    runs = put_in_place(before := [a_run("a"), a_run("b")], [merge(before, "m", 0, 4, ["a", "b"])])
    assert [seen.merged_from for seen in runs_seen(runs, KeyGroupRange(0, 4))] == [("a", "b")]
    for other in (KeyGroupRange(0, 8), KeyGroupRange(0, 2), KeyGroupRange(2, 6)):
        assert all(seen.merged_from == () for seen in runs_seen(runs, other))


def test_a_replacement_of_runs_that_are_not_there_is_a_defect() -> None:
    runs = [a_run("a")]
    with pytest.raises(AssertionError):
        put_in_place(runs, [merge(runs, "m", 0, 8, ["a", "b"])])


# --- random merges ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Epoch:
    """At a parallelism: each subtask may merge so many of its newest runs, and may write a new one."""

    parallelism: int
    merged: tuple[int, ...]
    writes: tuple[bool, ...]


def epochs(max_parallelism: int) -> st.SearchStrategy[Epoch]:
    def of(parallelism: int) -> st.SearchStrategy[Epoch]:
        merged = st.lists(st.sampled_from([0, 0, 1, 2, 3, 99]), min_size=parallelism, max_size=parallelism)
        writes = st.lists(st.booleans(), min_size=parallelism, max_size=parallelism)
        return st.builds(Epoch, st.just(parallelism), merged.map(tuple), writes.map(tuple))

    return st.integers(1, min(5, max_parallelism)).flatmap(of)


@settings(max_examples=random_cases(150), deadline=None)
@given(data=st.data(), max_parallelism=st.sampled_from([1, 5, 13, 128]))
def test_in_each_key_group_runs_change_by_its_own_merges_only(data: st.DataObject, max_parallelism: int) -> None:
    runs: list[RunFile] = []
    model: list[list[str]] = [[] for _ in range(max_parallelism)]  # by key group: files, oldest to newest
    numbers = iter(range(10**6))
    contents: dict[tuple[KeyGroupRange, str], tuple[int, ...]] = {}
    for epoch in data.draw(st.lists(epochs(max_parallelism), max_size=8)):
        merges, new = [], []
        for subtask in range(epoch.parallelism):
            groups = group_range(subtask, parallelism=epoch.parallelism, max_parallelism=max_parallelism)
            seen = runs_seen(runs, groups)
            assert len({run.name for run in seen}) == len(seen)
            for run in seen:  # what a name stands for never changes
                held = run.groups if run.is_cut else file_range(run.run)
                inside = tuple(g for g in range(groups.start, groups.end) if held.start <= g < held.end)
                assert inside == tuple(range(run.groups.start, run.groups.end)), "no more than what counts is read"
                assert contents.setdefault((groups, run.name), inside) == inside
            chosen = seen[len(seen) - min(len(seen), epoch.merged[subtask]) :]
            if chosen:
                path = f"m{next(numbers)}" if data.draw(st.booleans()) else None
                merged = None if path is None else a_run(path, groups.start, groups.end)
                merges.append(Replacement(groups, tuple(run.name for run in chosen), merged))
                for group in range(groups.start, groups.end):
                    gone = [run for run in chosen if run.groups.start <= group < run.groups.end]
                    kept = model[group][: len(model[group]) - len(gone)]
                    assert model[group][len(kept) :] == [run.run.path for run in gone]
                    model[group] = [*kept, *([] if path is None else [path])]
            if epoch.writes[subtask]:
                new.append(a_run(f"s{next(numbers)}", groups.start, groups.end))
                for group in range(groups.start, groups.end):
                    model[group].append(new[-1].path)
        runs = [*put_in_place(runs, merges), *new]
        for group, files in enumerate(model):
            assert [one.path for one in runs if one.key_group_start <= group < one.key_group_end] == files
        for after in runs:
            whole = file_range(after)
            assert whole.start <= after.key_group_start < after.key_group_end <= whole.end
            assert after.entries >= 1
