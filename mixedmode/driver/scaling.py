"""Decides the number of subtasks of a live job from its last epochs. Pure: no clock, no state, no files.

The work of an epoch grows with the time in which its input arrived. This time is the *period* of the
epoch; it is at least the interval. The duration of an epoch is compared with its period, not with the interval, so a
long epoch after a pause is no overload.

The calculation assumes that work is shared evenly: `p` subtasks with utilisation `u` have the same work as
`p * u / target` subtasks with utilisation `target`. Example: 4 subtasks that are busy 90 % of the time, with a target
of 60 %, become 4 * 0.9 / 0.6 = 6 subtasks. Part of an epoch is not shared (Spark's planning, the commit). So the number
may be too low when it grows, which the next decision corrects, and it is safe when it shrinks.

A margin lies between growing and shrinking, so a load with 10 % noise does not change the number back and forth.

Source: the autoscaler of Flink's Kubernetes operator (FLIP-271): utilisation target with a boundary, stabilisation by
a window of observations.
Invariants (tests/driver/test_scaling.py):
  I1  a chosen number is within the bounds, and differs from the present number
  I2  no number is chosen within a cool-down, or before _EPOCHS epochs ran since the last change
  I3  more load never results in fewer subtasks
  I4  under steady load, even with 10 % noise, the number of subtasks converges and does not oscillate
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["EpochLoad", "Keep", "Load", "Scale", "ScaleDecision", "ScaleTargets", "decide_scale"]

_EPOCHS = 5  # per decision, so that one slow epoch decides nothing; the first after a change loads state
_MARGIN = 0.8  # the number shrinks only if each target is still met at this part of it


@dataclass(frozen=True, slots=True)
class ScaleTargets:
    """The settings of the autoscaler, with both bounds filled in: see AutoscalerSpec."""

    parallelism_min: int
    parallelism_max: int
    utilization: float
    lag_ms: int | None
    throughput: int | None
    cool_down_ms: int


@dataclass(frozen=True, slots=True)
class EpochLoad:
    """Measurements of one live epoch.

    `seconds`: the whole time that Spark and the job took for it. `period_seconds`: the time in which its input arrived,
    from the start of the previous epoch; at least the interval. `lag_seconds`: of processing (events.py).
    """

    records: int
    seconds: float
    period_seconds: float
    lag_seconds: float


@dataclass(frozen=True, slots=True)
class Load:
    """The input of a decision. `epochs` ran at `parallelism`, oldest first.

    `since_change_ms`: None if the number was never changed. `is_pinned`: a person has requested a parallelism.
    """

    parallelism: int
    interval_seconds: float
    epochs: Sequence[EpochLoad]
    since_change_ms: int | None
    is_pinned: bool = False


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep the number of subtasks, with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Change to `to` subtasks from the next epoch on, with the reason."""

    to: int
    reason: str


ScaleDecision = Keep | Scale


def decide_scale(load: Load, targets: ScaleTargets) -> ScaleDecision:
    """Decide whether to change the number of subtasks, and to what."""
    if load.is_pinned:
        return Keep("a parallelism was asked for with `mixedmode rescale`")
    if load.since_change_ms is not None and load.since_change_ms < targets.cool_down_ms:
        return Keep("cooling down after the last change")
    low, high, now = targets.parallelism_min, targets.parallelism_max, load.parallelism
    if not low <= now <= high:
        return Scale(min(max(now, low), high), f"{now} is outside the bounds {low} to {high}")
    if len(load.epochs) < _EPOCHS:
        return Keep(f"{len(load.epochs)} of {_EPOCHS} epochs seen since the last change")
    wants = _wants(load, targets)
    most = max(wants, key=lambda want: want.growing)
    up, down = math.ceil(most.growing), max(math.ceil(want.shrinking) for want in wants)
    if up > now:
        return (
            Scale(min(up, high), most.why) if now < high else Keep(f"{most.why}, and {high} is the most it may choose")
        )
    why = "; ".join(want.why for want in wants)
    if down < now:
        return Scale(max(down, low), why) if now > low else Keep(f"{why}, and {low} is the fewest it may choose")
    return Keep(why)


@dataclass(frozen=True, slots=True)
class _Want:
    """The demand of one target: at least `growing` subtasks, and no shrinking below `shrinking` subtasks."""

    growing: float
    shrinking: float
    why: str


def _wants(load: Load, targets: ScaleTargets) -> list[_Want]:
    """Return the demand of each target that is set. Every demand grows with the load."""
    epochs, now = load.epochs[-_EPOCHS:], load.parallelism
    busy = median(epoch.seconds / epoch.period_seconds for epoch in epochs)
    found = f"busy {busy:.0%} of the time, target {targets.utilization:.0%}"
    wants = [_want(now * busy / targets.utilization, found)]
    if targets.throughput is not None:
        rate = median(epoch.records / epoch.period_seconds for epoch in epochs)
        found = f"{rate / now:,.0f} records/s per subtask, target {targets.throughput:,}"
        wants.append(_want(rate / targets.throughput, found))
    if targets.lag_ms is not None:
        wants.append(_late(load, targets.lag_ms / 1000, now * busy))
    return wants


def _want(subtasks: float, why: str) -> _Want:
    return _Want(subtasks, subtasks / _MARGIN, why)


def _late(load: Load, target_seconds: float, work: float) -> _Want:
    """Return the demand of the lag target.  work: the number of subtasks that would be busy all the time.

    A job that keeps up lags by the duration of an epoch, and more subtasks shorten it. A job that does not keep up lags
    more. Such a lag measures past load, not present work, which the utilisation measures. So the number of subtasks
    does not grow because of this lag, and does not shrink either.
    """
    lag = min(epoch.lag_seconds for epoch in load.epochs[-_EPOCHS:])  # a lag that goes away by itself does not count
    why = f"{lag:.1f} s behind, target {target_seconds:g} s"
    keeping_up = _want(work * load.interval_seconds / target_seconds, why)
    if lag <= target_seconds:
        return keeping_up
    return _Want(keeping_up.growing, max(keeping_up.shrinking, load.parallelism), why)
