"""How many subtasks a live job should have, from what its last epochs did. Pure: no clock, no state, nothing opened.

The one idea: what a job has to do grows with the time in which its input arrived, so an epoch is measured against that
time (its *period*, at least the interval), not against the interval alone: after a pause, a long epoch is no overload.
Work is taken to be shared out evenly, so `p` subtasks that are busy for the part `u` of the time are `p * u / target`
subtasks that are busy for `target` of it. Part of an epoch is not shared out (Spark's planning, the commit), so that
number is too low when it grows, which shows in the next look, and safe when it shrinks.

Between growing and shrinking lies a margin: a load that sways by a tenth never turns the number back and forth.

Source: the autoscaler of Flink's Kubernetes operator (FLIP-271): utilisation target with a boundary, stabilisation by
a window of observations.
Invariants (tests/driver/test_scaling.py):
  I1  a number that is chosen is within the bounds, and another one than now
  I2  nothing is chosen within a cool-down, or before _EPOCHS epochs ran since the last change
  I3  more load never gives fewer subtasks
  I4  under a steady load, also one that sways by a tenth, the number comes to rest, and turns at most never
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["EpochLoad", "Keep", "Load", "Scale", "ScaleDecision", "ScaleTargets", "decide_scale", "lag_seconds"]

_EPOCHS = 5  # looked at together, so that one slow epoch decides nothing; the first after a change fetches state
_MARGIN = 0.8  # shrinking aims at this part of each target


@dataclass(frozen=True, slots=True)
class ScaleTargets:
    """The autoscaler's settings, with bounds that are known: see AutoscalerSpec."""

    parallelism_min: int
    parallelism_max: int
    utilization: float
    lag_ms: int | None
    throughput: int | None
    cool_down_ms: int


@dataclass(frozen=True, slots=True)
class EpochLoad:
    """What one live epoch did.

    `seconds`: all that Spark and the job took for it. `period_seconds`: from the start of the epoch before it, at least
    the interval: its input arrived in this time. `lag_seconds`: see `lag_seconds`.
    """

    records: int
    seconds: float
    period_seconds: float
    lag_seconds: float


@dataclass(frozen=True, slots=True)
class Load:
    """What is known when it is decided. `epochs` ran at `parallelism`, oldest first; `since_change_ms`: None: never.

    `is_pinned`: a person has asked for a parallelism.
    """

    parallelism: int
    interval_seconds: float
    epochs: Sequence[EpochLoad]
    since_change_ms: int | None
    is_pinned: bool = False


@dataclass(frozen=True, slots=True)
class Keep:
    """Go on as it is, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Have `to` subtasks from the next epoch on, and why."""

    to: int
    reason: str


ScaleDecision = Keep | Scale


def lag_seconds(seconds: float, seconds_before: float, interval_seconds: float) -> float:
    """How long the epoch's oldest record waited for its result, beyond the interval that it may wait in any case.

    It came when the epoch before began, which took `seconds_before`; it waits on for an interval if that one was short.
    """
    return seconds + max(0.0, seconds_before - interval_seconds)


def decide_scale(load: Load, targets: ScaleTargets) -> ScaleDecision:
    """Whether to change the number of subtasks."""
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
    """What one target asks for: `growing` subtasks at least; none is taken away while `shrinking` are not more."""

    growing: float
    shrinking: float
    why: str


def _wants(load: Load, targets: ScaleTargets) -> list[_Want]:
    """What each target there is asks for. All of it grows with the load."""
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
    """What the lag asks for.  work: subtasks that would be busy all the time.

    A job that keeps up is behind by the length of an epoch, which more subtasks shorten. One that does not keep up is
    further behind. That measures its past and not its work, of which the utilisation tells; so it does not grow for
    it, and does not shrink either.
    """
    lag = min(epoch.lag_seconds for epoch in load.epochs[-_EPOCHS:])  # one that goes away by itself is none
    why = f"{lag:.1f} s behind, target {target_seconds:g} s"
    keeping_up = _want(work * load.interval_seconds / target_seconds, why)
    if lag <= target_seconds:
        return keeping_up
    return _Want(keeping_up.growing, max(keeping_up.shrinking, load.parallelism), why)
