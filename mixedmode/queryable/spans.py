"""The places of the entries of a question: ranges of stored keys, and the files that are valid in them. Pure.

A run is a view of a file, valid in some key groups (checkpoint/runs.py). Between two bounds of runs, the list of valid
runs is the same, and each of their files is valid completely. So one database per such range answers every question
without copying a part of a file.

    Example: the runs a [0, 8), b [0, 4) and c [4, 8) make the ranges [0, 4) with a and b, and [4, 8) with a and c.

Invariants (tests/queryable/test_spans.py):
  I1  the uncut ranges are disjoint, ascending, and cover all key groups that have a run
  I2  the spans of a question, cut at a position, contain exactly the stored keys of the question from there on
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mixedmode.checkpoint.types import RunFile
from mixedmode.keys import KeyGroupRange
from mixedmode.state.keys import after_prefix, range_of_group

__all__ = ["EVERYTHING", "Question", "Span", "UncutRange", "after_position", "key_spans", "spans_of", "uncut_ranges"]


@dataclass(frozen=True, slots=True)
class UncutRange:
    """Key groups, and the runs of one state that are valid in all of them, oldest first."""

    groups: KeyGroupRange
    runs: tuple[RunFile, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Stored keys of one key group: start <= key < end."""

    group: int
    start: bytes
    end: bytes


@dataclass(frozen=True, slots=True)
class Question:
    """The wanted keys: `keys` are (key group, encoded key), None: all; `prefix` are the bytes that they begin with."""

    keys: tuple[tuple[int, bytes], ...] | None = None
    prefix: bytes = b""


EVERYTHING = Question()


def uncut_ranges(runs: Sequence[RunFile], state_id: int) -> tuple[UncutRange, ...]:
    """Return the ranges of key groups in which the runs of a state are valid completely, in ascending order."""
    own = [run for run in runs if run.state_id == state_id]
    bounds = sorted({bound for run in own for bound in (run.key_group_start, run.key_group_end)})
    found = []
    for start, end in pairwise(bounds):
        valid = tuple(run for run in own if run.key_group_start <= start and end <= run.key_group_end)
        if valid:
            found.append(UncutRange(KeyGroupRange(start, end), valid))
    return tuple(found)


def spans_of(question: Question, state_id: int, groups: int, *, key_first: bool) -> tuple[Span, ...]:
    """Return the spans that contain the entries of a question, in the order of stored keys.

    groups: the number of key groups of the job. key_first: the key follows the state id directly. Otherwise a time is
    between them, so that all entries of a key group have to be read.
    """
    if question.keys is None:
        prefix = question.prefix if key_first else b""
        return tuple(_span(group, state_id, prefix) for group in range(groups))
    if key_first:
        return key_spans(question.keys, state_id)
    return tuple(_span(group, state_id, b"") for group in sorted({group for group, _ in question.keys}))


def key_spans(keys: Sequence[tuple[int, bytes]], state_id: int) -> tuple[Span, ...]:
    """Return the span of each distinct key, in the order of stored keys."""
    return tuple(_span(group, state_id, key) for group, key in sorted(set(keys)))


def after_position(spans: Sequence[Span], position: bytes) -> tuple[Span, ...]:
    """Return the parts of spans that are not before a stored key."""
    return tuple(Span(span.group, max(span.start, position), span.end) for span in spans if span.end > position)


def _span(group: int, state_id: int, prefix: bytes) -> Span:
    start, end = range_of_group(group, state_id)
    return Span(group, start + prefix, after_prefix(start + prefix) if prefix else end)
