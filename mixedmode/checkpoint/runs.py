"""Runs are views of files: the valid key groups of a run's file, and how merges change the list of runs. Pure.

A run in a manifest is a file and the range of key groups that are valid in it. So a subtask of any range
may merge the runs that overlap its key groups, each cut to these key groups. Other subtasks keep the rest of the old
runs, and no file is rewritten for them. Decision: docs/design/0011-runs-are-views.md

    Example: the run a.sst is valid in the key groups [0, 8). The subtask of [0, 4) merges it into b.sst. Then the
    manifest lists a.sst with [4, 8), clipped from (0, 8), and b.sst with [0, 4).

A subtask's replica identifies a run by a name. The name is the file's path if all entries of the file in the subtask's
key groups are valid. Otherwise the subtask needs a copy that is cut to the valid key groups, and the name holds their
range. The rest must not be read: other runs have replaced it, and may have dropped the tombstones of deleted keys.

Invariants (tests/checkpoint/test_runs.py):
  I1  for each key group, the list of its valid runs changes only by merges of its own subtask, each of which merges
      the newest runs into one
  I2  runs of one file are disjoint, and lie within the file's range
  I3  no two runs that a subtask sees have the same name, and the content behind a name never changes
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mixedmode.checkpoint.types import RunFile
from mixedmode.keys import KeyGroupRange

__all__ = ["Replacement", "SeenRun", "file_range", "put_in_place", "runs_seen", "state_bytes"]


@dataclass(frozen=True, slots=True)
class SeenRun:
    """A run as the subtask of some key groups sees it.

    groups: the subtask's key groups in which the run is valid. is_cut: the file also holds invalid entries of the
    subtask's other key groups, so it has to be cut to `groups`. merged_from: the names, as this subtask sees them, of
    the runs that this run replaced; () if a subtask of another range merged them. entries: an estimate, in `groups`.
    """

    run: RunFile
    name: str
    groups: KeyGroupRange
    is_cut: bool
    merged_from: tuple[str, ...]
    entries: int


@dataclass(frozen=True, slots=True)
class Replacement:
    """The result of a merge: in `groups`, `run` replaces the runs that the subtask of `groups` sees as `replaced`.

    `replaced` is ordered oldest first. `run` is None if the replaced runs have no entry in `groups`.
    """

    groups: KeyGroupRange
    replaced: tuple[str, ...]
    run: RunFile | None


def file_range(run: RunFile) -> KeyGroupRange:
    """Return all key groups that the run's file covers, valid or not."""
    return _range(run) if run.clipped_from is None else KeyGroupRange(*run.clipped_from)


def runs_seen(runs: Iterable[RunFile], groups: KeyGroupRange) -> tuple[SeenRun, ...]:
    """Return the runs that overlap the key groups of a subtask, as this subtask sees them, in the order of `runs`."""
    seen = []
    for run in runs:
        counts = _common(_range(run), groups)
        if counts is None:
            continue
        whole = _common(file_range(run), groups)
        is_cut = counts != whole
        seen.append(
            SeenRun(
                run=run,
                name=f"{run.path}[{counts.start},{counts.end})" if is_cut else run.path,
                groups=counts,
                is_cut=is_cut,
                merged_from=() if is_cut or file_range(run) != groups else run.merged_from,
                entries=_share(run, counts),
            )
        )
    return tuple(seen)


def put_in_place(runs: Sequence[RunFile], replacements: Sequence[Replacement]) -> list[RunFile]:
    """Return the list of runs after merges by subtasks; all replacements refer to the list `runs`.

    The rest of a replaced run, which is no, one or several runs, keeps its position. The new run is inserted right
    after the newest of the runs that it was merged from.
    """
    taken: dict[int, list[KeyGroupRange]] = {}
    placed: dict[int, list[RunFile]] = {}
    for replacement in replacements:
        names, groups = set(replacement.replaced), replacement.groups
        positions = [at for at, run in enumerate(runs) if any(seen.name in names for seen in runs_seen([run], groups))]
        assert len(positions) == len(names), (replacement, [run.path for run in runs])
        for at in positions:
            taken.setdefault(at, []).append(groups)
        if replacement.run is not None:
            placed.setdefault(positions[-1], []).append(replacement.run)
    return [run for at, before in enumerate(runs) for run in (*_left(before, taken.get(at, [])), *placed.get(at, []))]


def state_bytes(runs: Iterable[RunFile]) -> int:
    """Return the bytes of the files of `runs`; a file that belongs to several runs is counted once."""
    return sum({run.path: run.bytes for run in runs}.values())


def _left(run: RunFile, taken: Sequence[KeyGroupRange]) -> list[RunFile]:
    """Return the parts of a run that the ranges `taken` leave, from the lowest key group to the highest.

    Example: a run of [0, 10) without [2, 4) and [6, 10) leaves [0, 2) and [4, 6).
    """
    if not taken:
        return [run]
    own, file, pieces, start = _range(run), file_range(run), [], run.key_group_start
    for gone in [*sorted(taken, key=lambda gone: gone.start), KeyGroupRange(own.end, own.end)]:
        if start < gone.start:
            pieces.append(KeyGroupRange(start, gone.start))
        start = max(start, gone.end)
    return [
        replace(
            run,
            entries=_share(run, piece),
            deletions=min(_share(run, piece), run.deletions * (piece.end - piece.start) // (own.end - own.start)),
            key_group_start=piece.start,
            key_group_end=piece.end,
            merged_from=(),  # only useful for a replica of the whole range
            clipped_from=(file.start, file.end),
        )
        for piece in pieces
    ]


def _share(run: RunFile, part: KeyGroupRange) -> int:
    """Return an estimate of a run's entries in the key groups `part`, assuming that keys are spread evenly."""
    own = run.key_group_end - run.key_group_start
    return max(1, run.entries * (part.end - part.start) // own)


def _range(run: RunFile) -> KeyGroupRange:
    return KeyGroupRange(run.key_group_start, run.key_group_end)


def _common(one: KeyGroupRange, other: KeyGroupRange) -> KeyGroupRange | None:
    start, end = max(one.start, other.start), min(one.end, other.end)
    return KeyGroupRange(start, end) if start < end else None
