"""Records on a time line, out of order within a bound, and the ways in which a job may meet them.

A case says in which order records arrive, where the flip is, where epochs end, and after which of them the step is
stopped and goes on elsewhere. Keys are old (only in backlog), new (only live), or both. `play` runs a case one way.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import strategies as st

from mixedmode.testing import Harness
from mixedmode.testing.outputs import Row

Mode = Literal["mixed", "streaming", "batch"]
MODES: tuple[Mode, ...] = ("mixed", "streaming", "batch")
#: of a test on Spark. By default Spark has a backlog with live epochs (mixed), and a job without checkpoints (batch);
#: the epochs of streaming mode have the plans of mixed mode's live epochs
MODES_ON_SPARK = ["mixed", "batch", pytest.param("streaming", marks=pytest.mark.soak)]
#: the same for steps that see nothing of the mode
MIXED_ON_SPARK = ["mixed", *(pytest.param(mode, marks=pytest.mark.soak) for mode in ("batch", "streaming"))]

SCHEMA = "k string, v bigint, t timestamp"
MS = 1000
MAX_PARALLELISM = 8  # few key groups, so that keys share them


@dataclass(frozen=True, slots=True)
class Event:
    """A record; `v` may be NULL."""

    key: str
    time_us: int
    v: int | None

    @property
    def row(self) -> dict[str, Any]:
        return {"k": self.key, "v": self.v, "t": self.time_us}


@dataclass(frozen=True, slots=True)
class Case:
    """`events` are in order of arrival. Positions among them: the flip, and where live epochs end, with and without it.

    `restores`: {number of a live epoch: parallelism from then on}.
    """

    events: tuple[Event, ...]
    bound_ms: int
    flip: int
    cuts: tuple[int, ...]
    parallelism: int
    slices: int
    sort_memory: str
    restores: Mapping[int, int]

    def epochs(self, mode: Mode) -> list[tuple[Event, ...]]:
        """The records of the live epochs."""
        first = {"mixed": self.flip, "streaming": 0, "batch": len(self.events)}[mode]
        inner = [cut for cut in self.cuts if first < cut < len(self.events)]
        borders = [first, *inner, len(self.events)]
        return [self.events[start:end] for start, end in pairwise(borders)] if mode != "batch" else []


@dataclass
class Outcome:
    """The output of one way of running a case. `at_flip`: the table as the backlog left it."""

    rows: list[Row] = field(default_factory=list)
    sides: dict[str, list[Row]] = field(default_factory=dict)
    table: list[Row] = field(default_factory=list)
    at_flip: list[Row] | None = None
    kept_at_flip: int = 0
    kept: int = 0
    late: int = 0


Make = Callable[..., Harness]


def play(case: Case, mode: Mode, make: Make, sides: Sequence[str] = ()) -> Outcome:
    """Run the case in a mode, on a harness that `make` makes with the arguments that every harness takes."""
    outcome = Outcome(sides={tag: [] for tag in sides})
    harness = make(
        parallelism=case.parallelism,
        max_parallelism=MAX_PARALLELISM,
        slices=case.slices,
        out_of_orderness=f"{case.bound_ms}ms",
        backlog=mode != "streaming",
        sort_memory=case.sort_memory,
    )

    def look() -> None:
        outcome.rows += harness.take()
        for tag in sides:
            outcome.sides[tag] += harness.side(tag)

    if mode != "streaming":
        harness.feed([event.row for event in (case.events if mode == "batch" else case.events[: case.flip])])
    if mode == "mixed":
        harness.flip()
        look()
        outcome.at_flip, outcome.kept_at_flip = harness.table(), harness.state_entries
    for number, events in enumerate(case.epochs(mode)):
        harness.feed([event.row for event in events], after="3ms")
        look()
        if number in case.restores:
            harness = harness.restore(harness.snapshot(), parallelism=case.restores[number])
    harness.end()
    look()
    outcome.table, outcome.kept, outcome.late = harness.table(), harness.state_entries, harness.records_late
    return outcome


@st.composite
def cases(draw: st.DrawFn, *, values: st.SearchStrategy[int | None] | None = None, in_order: bool = False) -> Case:
    """Cases of up to 24 records, none of them late: each is at most the bound behind what arrived before it."""
    bound_ms = 0 if in_order else draw(st.integers(0, 30))
    times = st.builds(lambda ms, us: ms * MS + us, st.integers(-20, 80), st.sampled_from([0, 0, 1, 999]))
    delays = st.integers(0, bound_ms * MS)
    count = draw(st.integers(0, 24))
    unique_by = (lambda arrival: arrival[0]) if in_order else None
    arrivals = draw(st.lists(st.tuples(times, delays), min_size=count, max_size=count, unique_by=unique_by))
    arrivals.sort(key=sum)
    flip = draw(st.integers(0, len(arrivals)))
    values = st.none() | st.integers(-100, 100) if values is None else values
    events = tuple(
        Event(draw(st.sampled_from(["both", "b\0th", "old" if number < flip else "new"])), time_us, draw(values))
        for number, (time_us, _) in enumerate(arrivals)
    )
    subtasks = st.sampled_from([1, 2, 4])
    return Case(
        events=events,
        bound_ms=bound_ms,
        flip=flip,
        cuts=tuple(sorted(draw(st.sets(st.integers(0, len(events)), max_size=3)))),
        parallelism=draw(subtasks),
        slices=draw(st.integers(1, 2)),
        sort_memory=draw(st.sampled_from(["64MB", "64MB", "2KB"])),
        restores=draw(st.dictionaries(st.integers(0, 3), subtasks, max_size=2)),
    )


def microseconds(time: datetime) -> int:
    """Since 1970."""
    return (time - datetime(1970, 1, 1, tzinfo=time.tzinfo)) // timedelta(microseconds=1)


def flat(rows: Sequence[Row]) -> Iterator[tuple[Any, ...]]:
    """The values of each row, times as microseconds, lists as tuples."""
    for row in rows:
        yield tuple(
            microseconds(value) if isinstance(value, datetime) else tuple(value) if isinstance(value, list) else value
            for value in row.values()
        )
