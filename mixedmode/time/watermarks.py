"""Watermarks: how far a job's event time has come, from what each epoch saw of each split of its sources. Pure.

A watermark W says that no record with a time before W is expected any more: a record at t is late if t < W, a timer
at t is due if t <= W, a window [start, end) is done if end <= W.

The one idea: a split, which is a source or one of its partitions, stands at its greatest event time minus the bound on
out-of-order records. The job stands at the least of its splits, those aside that have been silent for too long, and
never goes back.

Invariants (tests/time/test_watermarks.py):
  I1  the watermark never regresses, whatever is seen, and whatever the clock does
  I2  it does not matter in how many parts, and in which order, the records of an epoch were looked at
  I3  a record behind the watermark moves nothing
  I4  a record too far ahead of the clock moves nothing but its split's idle timeout

Sources: Flink, BoundedOutOfOrdernessWatermarks.java and WatermarkOutputMultiplexer.java; there, W is one less and means
"no record at or before W".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from mixedmode.time.epoch import MAX_TIME_US, MIN_TIME_US, shifted_us

_US_PER_MS = 1000

#: (name of the source, value of its partition column, or "" for a source without one)
Split = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Strategy:
    """How the watermark of one source moves.

    `idle_timeout_ms`: a split that has had no record for so long holds nothing back; None: every split always does.
    `max_ahead_ms`: a record whose time is further ahead of the clock is not believed; None: every time is.
    """

    out_of_orderness_us: int
    idle_timeout_ms: int | None
    max_ahead_ms: int | None


@dataclass(frozen=True, slots=True)
class Seen:
    """What an epoch, or a part of it, saw of a split: its records, and the greatest event time within reach of them."""

    records: int
    max_time_us: int | None


@dataclass(frozen=True, slots=True)
class SplitProgress:
    """The greatest event time within reach, None before there is one; and the clock of the last epoch with a record,
    or, for a source that has given nothing yet, of the moment from which it was expected.
    """

    max_time_us: int | None
    active_ms: int


@dataclass(frozen=True, slots=True)
class WatermarkState:
    """All that the next watermark depends on; kept in the manifest. A source without a record is the split (name, "").

    `watermark_us` is the job's, MIN_TIME_US before it has begun.
    """

    splits: Mapping[Split, SplitProgress]
    watermark_us: int

    @classmethod
    def initial(cls, sources: Iterable[str], clock_ms: int) -> Self:
        """Nothing seen: each source holds the watermark back, until its first record or for its idle timeout."""
        return cls({(source, ""): SplitProgress(None, clock_ms) for source in sources}, MIN_TIME_US)


def within_reach(times_us: npt.NDArray[np.int64], clock_ms: int, max_ahead_ms: int | None) -> npt.NDArray[np.bool_]:
    """(n,) event times -> (n,) True where the time is at most `max_ahead_ms` ahead of the clock."""
    if max_ahead_ms is None:
        return np.ones(len(times_us), np.bool_)
    limit = min(MAX_TIME_US, (clock_ms + max_ahead_ms) * _US_PER_MS)
    return times_us <= limit


def merge_seen(a: Seen, b: Seen) -> Seen:
    """What two parts of an epoch saw of one split, together."""
    times = [seen.max_time_us for seen in (a, b) if seen.max_time_us is not None]
    return Seen(a.records + b.records, max(times, default=None))


def advance(
    state: WatermarkState, seen: Mapping[Split, Seen], strategies: Mapping[str, Strategy], clock_ms: int
) -> WatermarkState:
    """The state after an epoch at `clock_ms` that saw `seen`. `strategies` has every source of the job.

    The watermark stays where it is as long as a split that is not idle has given no time, and when all are idle.
    """
    splits = _updated(state.splits, seen, clock_ms)
    after = WatermarkState(splits, state.watermark_us)
    known = [time for time in source_watermarks(after, strategies, clock_ms).values() if time is not None]
    return WatermarkState(splits, max(state.watermark_us, min(known, default=MIN_TIME_US)))


def source_watermarks(
    state: WatermarkState, strategies: Mapping[str, Strategy], clock_ms: int
) -> dict[str, int | None]:
    """{source: its own watermark}: MIN_TIME_US while it has not begun, None while it is idle."""
    watermarks: dict[str, int | None] = {}
    for (source, _), progress in state.splits.items():
        found = watermarks.setdefault(source, None)
        if not _is_idle(progress, strategies[source], clock_ms):
            own = _watermark(progress, strategies[source])
            watermarks[source] = own if found is None else min(found, own)
    return watermarks


def _updated(
    splits: Mapping[Split, SplitProgress], seen: Mapping[Split, Seen], clock_ms: int
) -> Mapping[Split, SplitProgress]:
    updated = dict(splits)
    for split, part in seen.items():
        if part.records:
            updated[split] = _moved(updated.get(split), part, clock_ms)
    partitioned = {source for source, partition in updated if partition}
    return {  # a source's stand-in goes once its partitions are known
        (source, partition): progress
        for (source, partition), progress in updated.items()
        if partition or source not in partitioned or progress.max_time_us is not None
    }


def _moved(before: SplitProgress | None, seen: Seen, clock_ms: int) -> SplitProgress:
    if before is None:
        return SplitProgress(seen.max_time_us, clock_ms)
    times = [time for time in (before.max_time_us, seen.max_time_us) if time is not None]
    return SplitProgress(max(times, default=None), max(before.active_ms, clock_ms))


def _is_idle(progress: SplitProgress, strategy: Strategy, clock_ms: int) -> bool:
    timeout_ms = strategy.idle_timeout_ms
    return timeout_ms is not None and clock_ms - progress.active_ms >= timeout_ms


def _watermark(progress: SplitProgress, strategy: Strategy) -> int:
    if progress.max_time_us is None:
        return MIN_TIME_US
    return shifted_us(progress.max_time_us, -strategy.out_of_orderness_us)
