"""Watermarks: the progress of a job's event time, from the records of each split of its sources in each epoch. Pure.

A watermark W says that no record with a time before W is expected any more: a record at t is late if t < W, a timer
at t is due if t <= W, a window [start, end) is done if end <= W.

A split is a source or one of its partitions. The watermark of a split is its greatest event time minus
the out-of-orderness. The watermark of the job is the least watermark of its splits that are not idle. It never
decreases.

    Example: an out-of-orderness of 2 and splits with the greatest event times 10 and 7: their watermarks are 8 and 5,
    so the job's is 5. Once the second split is idle, the job's is 8.

Invariants (tests/time/test_watermarks.py):
  I1  the watermark never decreases, for any records and any clock
  I2  the result does not depend on how the records of an epoch are divided into parts, or on their order
  I3  a record behind the watermark does not change the watermark
  I4  a record too far ahead of the clock changes nothing but its split's idle timeout
  I5  a split without records is idle after its timeout, whatever the clock said before: setting the clock back only
      begins the timeout anew

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

#: (name of the source, value of its partition column; "" for a source without one, another for NULL: tasks/watching.py)
Split = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Strategy:
    """The settings for the watermark of one source.

    `idle_timeout_ms`: a split without a record for this long is idle, and does not hold back the watermark; None: no
    split is ever idle. `max_ahead_ms`: the times of records further ahead of the clock are ignored; None: none are.
    """

    out_of_orderness_us: int
    idle_timeout_ms: int | None
    max_ahead_ms: int | None


@dataclass(frozen=True, slots=True)
class Seen:
    """The records of a split in an epoch or a part of it: their number, and the greatest event time within reach."""

    records: int
    max_time_us: int | None


@dataclass(frozen=True, slots=True)
class SplitProgress:
    """The progress of a split: its greatest event time within reach (None: none yet), and when it was last active.

    `active_ms` is the clock of the last epoch with a record of the split. For a source without any record so far, it is
    the clock at the start of the job. If the clock was set back since, it is the earlier time.
    """

    max_time_us: int | None
    active_ms: int


@dataclass(frozen=True, slots=True)
class WatermarkState:
    """All that the next watermark depends on; stored in the manifest. A source without records is the split (name, "").

    `watermark_us` is the job's watermark; MIN_TIME_US as long as there is none.
    """

    splits: Mapping[Split, SplitProgress]
    watermark_us: int

    @classmethod
    def initial(cls, sources: Iterable[str], clock_ms: int) -> Self:
        """Return the state before any record: each source holds back the watermark until its first record, or its idle
        timeout.
        """
        return cls({(source, ""): SplitProgress(None, clock_ms) for source in sources}, MIN_TIME_US)


def within_reach(times_us: npt.NDArray[np.int64], clock_ms: int, max_ahead_ms: int | None) -> npt.NDArray[np.bool_]:
    """Return for (n,) event times (n,) booleans: True where the time is at most `max_ahead_ms` ahead of the clock."""
    if max_ahead_ms is None:
        return np.ones(len(times_us), np.bool_)
    limit = min(MAX_TIME_US, (clock_ms + max_ahead_ms) * _US_PER_MS)
    return times_us <= limit


def merge_seen(a: Seen, b: Seen) -> Seen:
    """Merge the records of one split in two parts of an epoch."""
    times = [seen.max_time_us for seen in (a, b) if seen.max_time_us is not None]
    return Seen(a.records + b.records, max(times, default=None))


def advance(
    state: WatermarkState, seen: Mapping[Split, Seen], strategies: Mapping[str, Strategy], clock_ms: int
) -> WatermarkState:
    """Return the state after an epoch at `clock_ms` with the records `seen`. `strategies` has every source of the job.

    The watermark does not change while a split that is not idle has no event time yet, and while all splits are idle.
    """
    splits = _updated(state.splits, seen, clock_ms)
    after = WatermarkState(splits, state.watermark_us)
    known = [time for time in source_watermarks(after, strategies, clock_ms).values() if time is not None]
    return WatermarkState(splits, max(state.watermark_us, min(known, default=MIN_TIME_US)))


def source_watermarks(
    state: WatermarkState, strategies: Mapping[str, Strategy], clock_ms: int
) -> dict[str, int | None]:
    """Return {source: its own watermark}: MIN_TIME_US as long as it has no event time, None while it is idle."""
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
    updated = {
        split: SplitProgress(progress.max_time_us, min(progress.active_ms, clock_ms))
        for split, progress in splits.items()
    }
    for split, part in seen.items():
        if part.records:
            updated[split] = _moved(updated.get(split), part, clock_ms)
    partitioned = {source for source, partition in updated if partition}
    return {  # drop the placeholder (source, "") once the source has partitions
        (source, partition): progress
        for (source, partition), progress in updated.items()
        if partition or source not in partitioned or progress.max_time_us is not None
    }


def _moved(before: SplitProgress | None, seen: Seen, clock_ms: int) -> SplitProgress:
    if before is None:
        return SplitProgress(seen.max_time_us, clock_ms)
    times = [time for time in (before.max_time_us, seen.max_time_us) if time is not None]
    return SplitProgress(max(times, default=None), clock_ms)


def _is_idle(progress: SplitProgress, strategy: Strategy, clock_ms: int) -> bool:
    timeout_ms = strategy.idle_timeout_ms
    return timeout_ms is not None and clock_ms - progress.active_ms >= timeout_ms


def _watermark(progress: SplitProgress, strategy: Strategy) -> int:
    if progress.max_time_us is None:
        return MIN_TIME_US
    # no record, not even one at the greatest time, ends the job: only the end of its input does
    return shifted_us(min(progress.max_time_us, MAX_TIME_US - 1), -strategy.out_of_orderness_us)
