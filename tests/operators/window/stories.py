"""Stories: what arrives in which epoch, and how the watermark and the clock move meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from mixedmode.time import MAX_TIME_US, MIN_TIME_US, EpochTime
from tests.operators.window.runs import Event, epoch_time

events = st.builds(
    Event,
    key=st.integers(0, 3),
    time_us=st.integers(-20, 60),
    number=st.none() | st.integers(-(2**57), 2**57),
    text=st.none() | st.sampled_from(["", "a", "bb", "ÿ"]),
)


@dataclass(frozen=True, slots=True)
class Epoch:
    """The records that arrive in an epoch, and its times."""

    events: tuple[Event, ...]
    time: EpochTime


Story = Sequence[Epoch]


@st.composite
def stories(draw: st.DrawFn, *, max_epochs: int = 5, is_ended: bool | None = None) -> Story:
    """Records in any order; the watermark follows their greatest time at some distance, so some of them are late."""
    parts = draw(st.lists(st.lists(events, max_size=8), min_size=1, max_size=max_epochs))
    bound_us = draw(st.integers(0, 30))
    has_backlog = draw(st.booleans())
    ends = draw(st.booleans()) if is_ended is None else is_ended
    return _told(parts, bound_us, draw(clocks(len(parts))), has_backlog=has_backlog, is_ended=ends)


@st.composite
def stories_within_the_bound(draw: st.DrawFn) -> Story:
    """As `stories`, but no record is further out of order than the bound: none of them is late."""
    bound_us = draw(st.integers(0, 30))
    arriving = draw(st.lists(st.tuples(events, st.integers(0, bound_us)), max_size=25))
    ordered = [event for event, delay_us in sorted(arriving, key=lambda pair: pair[0].time_us + pair[1])]
    cuts = sorted(draw(st.lists(st.integers(0, len(ordered)), max_size=4)))
    parts = [ordered[start:end] for start, end in zip([0, *cuts], [*cuts, len(ordered)], strict=True)]
    return _told(parts, bound_us, draw(clocks(len(parts))), has_backlog=draw(st.booleans()), is_ended=True)


def in_one_backlog(story: Story) -> Story:
    """All of it at once, at the end of time."""
    everything = [event for epoch in story for event in epoch.events]
    return _told([everything], 0, [0], has_backlog=True, is_ended=True)


def clocks(count: int) -> st.SearchStrategy[list[int]]:
    """A clock per epoch, in milliseconds."""
    return st.lists(st.integers(0, 30), min_size=count, max_size=count).map(sorted)


def _told(
    parts: Sequence[Sequence[Event]], bound_us: int, clock_ms: Sequence[int], *, has_backlog: bool, is_ended: bool
) -> Story:
    told = list[Epoch]()
    watermark_us = MIN_TIME_US
    before_ms: int | None = None
    for number, (part, now_ms) in enumerate(zip(parts, clock_ms, strict=True)):
        late_us = watermark_us
        watermark_us = max([watermark_us, *(event.time_us - bound_us for event in part)])
        if is_ended and number == len(parts) - 1:
            watermark_us = MAX_TIME_US
        is_backlog = has_backlog and number == 0
        time = epoch_time(
            late_us,
            watermark_us,
            clock_ms=now_ms,
            clock_before_ms=before_ms,
            is_backlog=is_backlog,
            was_backlog=None if number == 0 else has_backlog and number == 1,
        )
        before_ms = None if is_backlog else now_ms
        told.append(Epoch(tuple(part), time))
    return told
