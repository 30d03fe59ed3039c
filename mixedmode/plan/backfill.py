"""Decides whether the windows of a range of time can be computed again on their own, and replaced. Pure.

A window of the range depends on the records of the range only, if all keyed steps after the windows keep the windows
apart. The windows must be closed: no record that still comes changes them, and no state is left of them.

Invariant (tests/plan/test_backfill.py): `around` a range is the smallest range that has it, and at whose start some
window begins, and at whose end some window ends.
"""

from dataclasses import dataclass

import numpy as np

from mixedmode.checkpoint.types import Manifest
from mixedmode.operators.window import TimeWindowAggregateOperator
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.stages import KeyedStage
from mixedmode.time import MAX_TIME_US, MIN_TIME_US, TimeWindows, shifted_us
from mixedmode.time.window_range import WindowRange

__all__ = ["BackfillStep", "around", "closed_until_us", "replaceable_step"]


@dataclass(frozen=True, slots=True)
class BackfillStep:
    """The step whose windows are computed again, and the column by which its input is limited to the range."""

    stage: KeyedStage
    operator: TimeWindowAggregateOperator
    event_time: str


def replaceable_step(plan: JobPlan) -> BackfillStep | str:
    """Return the step with the windows; or the reason, as a clause, why the rows of a range cannot be replaced.

    plan: of a job with one output of whole steps.
    """
    if any(stage.keeps_list for stage in plan.maps):
        return "a map function keeps a list, which depends on all records before"
    if not plan.stages:
        return (
            "it has no step with windows. So no watermark ever closes the range: the job may still read a record of "
            "it, also one that the backfill has read, and would write its rows a second time"
        )
    first, *others = plan.stages
    if not isinstance(first.operator, TimeWindowAggregateOperator) or first.operator.by_clock:
        return (
            "its first keyed step has no tumbling, sliding or cumulating window of event time. So its rows depend on "
            f"records outside of the range, too. step={first.operator_id}"
        )
    if len(first.reads.relations) > 1 or first.reads.stages or first.event_time is None:
        return "its windows read several inputs"
    for before, stage in zip(plan.stages, others, strict=False):
        if not stage.is_window_keyed or stage.reads.stages != (before.operator_id,):
            return f"step {stage.operator_id} has no key with window_start and window_end, so it mixes windows"
    (result,) = plan.results.values()
    if result.stage != plan.stages[-1].operator_id:
        return "sql after the windows makes the rows of the output, and may change the bounds of the windows"
    return BackfillStep(first, first.operator, first.event_time)


def around(windows: TimeWindows, wanted: WindowRange) -> WindowRange:
    """Return the range from the last start of a window up to that of `wanted` to the first end of one from its end on.

    Example: with windows of an hour, it is 10:00 to 12:00 around 10:00 to 11:30, and around itself.
    """
    _, ends = windows.windows_of_panes(windows.panes(np.array([wanted.start_us], np.int64)))
    _, last = windows.windows_of_panes(windows.panes(np.array([wanted.end_us - 1], np.int64)))
    return WindowRange(int(windows.starts(ends).max()), int(last.min()))


def closed_until_us(step: BackfillStep, manifest: Manifest) -> int | None:
    """Return the latest end of windows that no record can change after a checkpoint; None if there is none."""
    if manifest.is_final:
        return MAX_TIME_US
    watermark_us = manifest.step_watermarks.get(step.stage.operator_id, manifest.watermark_us)
    if watermark_us is None or watermark_us == MIN_TIME_US:
        return None
    return shifted_us(watermark_us, -step.operator.allowed_lateness_us)
