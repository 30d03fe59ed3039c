"""Runs as views: what of a run's file counts, for whom, and what merging makes of the list of runs. Pure.

The one idea: a run in a manifest is a file and the key groups in which it counts. So a subtask of any range may merge
the runs that it sees, each cut to its own key groups; the others go on with what is left of them, and no file is
rewritten for that. Decision: docs/design/0011-runs-are-views.md

A subtask sees a run under a name, by which its replica knows it. It is the file's path as long as all that the file
holds in the subtask's key groups counts. If a part of that does not (other runs have taken its place, and may have
forgotten deleted keys that it still holds), the subtask needs a copy that is cut, and its name says how.

Invariants (tests/checkpoint/test_runs.py):
  I1  for each key group, the runs in which it counts, oldest to newest, change by merges of its own subtask only: the
      newest of them become one
  I2  runs of one file are disjoint, and lie within the file's range
  I3  no two runs that a subtask sees have one name, and what a name stands for never changes
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mixedmode.checkpoint.types import RunFile
from mixedmode.keys import KeyGroupRange

__all__ = ["Replacement", "SeenRun", "file_range", "put_in_place", "runs_seen", "state_bytes"]


@dataclass(frozen=True, slots=True)
class SeenRun:
    """A run as the subtask of some key groups sees it.

    groups: those of the subtask's in which it counts. is_cut: the file holds entries of the subtask's other key groups,
    which do not count, so it has to be cut to `groups`. merged_from: names, as this subtask sees them, of the runs
    whose place it took; () if it was not this subtask's range that merged them. entries: in `groups`, an estimate.
    """

    run: RunFile
    name: str
    groups: KeyGroupRange
    is_cut: bool
    merged_from: tuple[str, ...]
    entries: int


@dataclass(frozen=True, slots=True)
class Replacement:
    """In `groups`, `run` takes the place of the runs that the subtask of `groups` sees as `replaced`, oldest first.

    `run` is None if none of them had an entry there.
    """

    groups: KeyGroupRange
    replaced: tuple[str, ...]
    run: RunFile | None


def file_range(run: RunFile) -> KeyGroupRange:
    """The key groups that the run's file covers, whether or not they count."""
    return _range(run) if run.clipped_from is None else KeyGroupRange(*run.clipped_from)


def runs_seen(runs: Iterable[RunFile], groups: KeyGroupRange) -> tuple[SeenRun, ...]:
    """What the subtask of `groups` sees of `runs`, in their order."""
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
    """The list of runs after subtasks have merged some of them; all replacements are of the list `runs`.

    A run that was replaced stays where it is, as what is left of it: no, one or more runs. The one that replaces it
    comes right behind the newest of those that it was merged from.
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
    """Bytes of the files of `runs`; one that is several runs is counted once."""
    return sum({run.path: run.bytes for run in runs}.values())


def _left(run: RunFile, taken: Sequence[KeyGroupRange]) -> list[RunFile]:
    """What is left of a run, from the lowest key group to the highest."""
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
            merged_from=(),  # of use only to a replica of the whole range
            clipped_from=(file.start, file.end),
        )
        for piece in pieces
    ]


def _share(run: RunFile, part: KeyGroupRange) -> int:
    """About how many of a run's entries are of the key groups `part`; keys are spread evenly."""
    own = run.key_group_end - run.key_group_start
    return max(1, run.entries * (part.end - part.start) // own)


def _range(run: RunFile) -> KeyGroupRange:
    return KeyGroupRange(run.key_group_start, run.key_group_end)


def _common(one: KeyGroupRange, other: KeyGroupRange) -> KeyGroupRange | None:
    start, end = max(one.start, other.start), min(one.end, other.end)
    return KeyGroupRange(start, end) if start < end else None
