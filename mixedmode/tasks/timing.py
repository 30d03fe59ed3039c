"""The timing of an epoch: facts known before its records are read, and the watermark after they are read.

The driver sends the facts with the tasks, the records add the progress, and one pure function of both decides what
fires. Subtasks call the function for their watermark. The driver calls it again, to write the same watermark into the
manifest.
"""

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from mixedmode.checkpoint.types import Manifest, SourceProgress
from mixedmode.plan.reads import StepTime
from mixedmode.tasks.progress import Progress
from mixedmode.time import (
    MAX_TIME_US,
    MIN_TIME_US,
    EpochTime,
    SplitProgress,
    Strategy,
    WatermarkState,
    advance,
    shifted_us,
    source_watermarks,
)


@dataclass(frozen=True, slots=True)
class Timing:
    """The timing of an epoch at its start, for all steps or for one (`of`). `strategies` are by source.

    `before`: of all sources together. `steps`: the watermarks of steps that differ from it, by operator id. A missing
    step has that of `before` if all of `timed` can reach it, else none yet. `timed`: the sources that had event time in
    the previous epoch; a start of the job may change which ones have.
    `downstream`: of a step: the timings of the steps by event time that its rows can reach.
    `by_clock`: the timing of a step that goes by processing time: the clock is its watermark, and never goes back.
    `clock_before_ms`: the clock of the previous epoch. `backlog`, `backlog_before`: the sources that are in backlog in
    this epoch and in the previous one; None for the first epoch. `is_backlog`: the epoch, or the step, is in backlog.
    `fires_all`: all event-time timers and windows fire, whatever the watermark. It is set in batch, after the end of
    the input, and in a backlog with `end-of-key-watermark: max`. `is_final`: no epoch follows; set in the first two.
    """

    before: WatermarkState
    strategies: Mapping[str, Strategy]
    clock_ms: int
    clock_before_ms: int | None
    backlog: AbstractSet[str]
    backlog_before: AbstractSet[str] | None
    is_backlog: bool
    was_backlog: bool | None
    fires_all: bool
    is_final: bool = False
    steps: Mapping[str, int] = field(default_factory=dict)
    timed: AbstractSet[str] = frozenset()
    by_clock: bool = False
    downstream: tuple["Timing", ...] = ()

    def of(self, operator_id: str, step: StepTime) -> "Timing":
        """Return the timing of a step. Its sources hold back its watermark, and it is in backlog while all of them are.

        Its watermark is never behind those of the steps downstream, so that none of its windows is late there. As the
        sources of these include its own, they move it only while all of its own sources are idle.

            Example: trades are in backlog again, quotes are live. A step that reads trades is in backlog. A join of
            trades and quotes is not, and a step that reads quotes is not.
        """
        sources = step.sources
        is_backlog = sources <= self.backlog
        timing = replace(
            self,
            is_backlog=is_backlog,
            was_backlog=None if self.backlog_before is None else sources <= self.backlog_before,
            fires_all=self.fires_all and (is_backlog or self.is_final),
        )
        if step.by_clock:
            own = WatermarkState({}, self.steps.get(operator_id, MIN_TIME_US))
            return replace(timing, before=own, strategies={}, by_clock=True)
        before_us = self.before.watermark_us if sources >= self.timed else MIN_TIME_US
        splits = {split: progress for split, progress in self.before.splits.items() if split[0] in sources}
        return replace(
            timing,
            before=WatermarkState(splits, self.steps.get(operator_id, before_us)),
            strategies={name: strategy for name, strategy in self.strategies.items() if name in sources},
            downstream=tuple(self.of(name, StepTime(own)) for name, own in step.downstream.items()),
        )

    def steps_after(self, progress: Progress, steps: Mapping[str, StepTime]) -> dict[str, int]:
        """Return the watermarks after the epoch of the steps that have their own (`steps`), by operator id.

        steps: all steps of the job. A step without a time has no watermark.
        """
        of_job = self.after(progress).watermark_us
        found = dict[str, int]()
        for name, step in steps.items():
            timing = self.of(name, step)
            own = timing.clock_us if timing.by_clock else timing.after(progress).watermark_us
            is_of_job = not timing.by_clock and step.sources >= self.strategies.keys() and own == of_job
            if own != MIN_TIME_US and not is_of_job:
                found[name] = own
        return found

    def after(self, progress: Progress) -> WatermarkState:
        """Return the watermarks after the epoch's own records."""
        seen = {split: one for split, one in progress.splits.items() if split[0] in self.strategies}
        found = advance(self.before, seen, self.strategies, self.clock_ms)
        reached = (step.after(progress).watermark_us for step in self.downstream)
        return replace(found, watermark_us=max([found.watermark_us, *reached]))

    @property
    def clock_us(self) -> int:
        """Return the time of every record of the epoch, in microseconds, for a step that goes by processing time."""
        return max(self.before.watermark_us, 1000 * self.clock_ms)

    def late_us(self, delay_us: int = 0) -> int:
        """Return the watermark at the start of the epoch, in microseconds, for a stage with this delay."""
        return shifted_us(self.before.watermark_us, -delay_us)

    def epoch_time(self, progress: Progress, *, delay_us: int = 0) -> EpochTime:
        """Return the times that operators see.  delay_us: how far the watermark of the stage is behind."""
        if self.by_clock:
            firing_us = MAX_TIME_US if self.is_final else self.clock_us
        else:
            firing_us = MAX_TIME_US if self.fires_all else self.after(progress).watermark_us
        return EpochTime(
            late_us=self.late_us(delay_us),
            firing_us=shifted_us(firing_us, -delay_us),
            clock_ms=self.clock_ms,
            clock_before_ms=None if self.was_backlog else self.clock_before_ms,
            is_backlog=self.is_backlog,
            was_backlog=self.was_backlog,
            is_final=self.is_final,
        )

    def at_the_end(self) -> "Timing":
        """Return the timing of the same epoch as the last epoch of the job."""
        return replace(self, fires_all=True, is_final=True)


def timing_at(
    strategies: Mapping[str, Strategy],
    latest: Manifest | None,
    clock_ms: int,
    *,
    started_ms: int,
    partitioned: Collection[str],
    backlog: AbstractSet[str],
    fires_all: bool,
) -> Timing:
    """Return the timing of the epoch after `latest`. If a source is in backlog, the epoch is.

    started_ms: the clock at this start of the job. partitioned: the sources with a watermark per partition.
    backlog: the sources that are in backlog.
    """
    return Timing(
        before=_watermarks(strategies, latest, started_ms, partitioned),
        strategies=strategies,
        clock_ms=clock_ms,
        clock_before_ms=None if latest is None else latest.clock_ms,
        backlog=backlog,
        backlog_before=None if latest is None else frozenset(latest.backlog_sources),
        is_backlog=bool(backlog),
        was_backlog=None if latest is None else latest.is_backlog,
        fires_all=fires_all,
        steps={} if latest is None else latest.step_watermarks,
        timed=frozenset() if latest is None else {name for name, source in latest.sources.items() if source.splits},
    )


def source_progress(
    sources: Sequence[str], timing: Timing, progress: Progress, latest: Manifest | None
) -> dict[str, SourceProgress]:
    """Return the progress of each of `sources` after an epoch, for its manifest, also of sources without records."""
    after = timing.after(progress)
    own = source_watermarks(after, timing.strategies, timing.clock_ms)
    before = {} if latest is None else latest.sources
    found = {}
    for name in sources:
        splits = {partition: split for (source, partition), split in after.splits.items() if source == name}
        times = [split.max_time_us for split in splits.values() if split.max_time_us is not None]
        watermark_us = own.get(name)
        found[name] = SourceProgress(
            records=progress.records_of(name) + (before[name].records if name in before else 0),
            max_event_time_us=max(times, default=None),
            watermark_us=None if watermark_us == MIN_TIME_US else watermark_us,
            splits=splits,
        )
    return found


def _watermarks(
    strategies: Mapping[str, Strategy], latest: Manifest | None, started_ms: int, partitioned: Collection[str]
) -> WatermarkState:
    """Return the watermarks after the previous epoch.

    The idle timeout of each split begins at this start at the earliest, so time in which the job did not run does not
    count.
    """
    state = WatermarkState.initial(strategies, started_ms)
    if latest is None:
        return state
    splits = dict(state.splits)
    for name, source in latest.sources.items():
        known = _still_told_apart(source.splits, is_partitioned=name in partitioned)
        if name in strategies and known:
            del splits[name, ""]
            for partition, split in known.items():
                splits[name, partition] = SplitProgress(split.max_time_us, max(split.active_ms, started_ms))
    known_us = MIN_TIME_US if latest.watermark_us is None else latest.watermark_us
    return WatermarkState(splits, known_us if strategies else MIN_TIME_US)


def _still_told_apart(splits: Mapping[str, SplitProgress], *, is_partitioned: bool) -> Mapping[str, SplitProgress]:
    """Return the splits that may get records. If `partition-column` was set or removed, drop the splits from before.

    Such a split would never get a record again, and would hold the watermark back for ever.
    """
    if is_partitioned:
        return {partition: split for partition, split in splits.items() if partition}
    return {"": splits[""]} if "" in splits else {}
