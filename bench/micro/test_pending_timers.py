"""A million pending timers, and an epoch in which none of them is due: what they cost it.

The same epoch runs over the same state with and without the timers, by turns, so that the difference is
what the timers cost.
"""

import itertools
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench.function import DAY_US, CountAndRemind
from bench.micro.operators import Stored, backlog_until, folded, live_between, run_backlog_epoch
from bench.micro.stages import counting
from bench.report import Figure, Report
from bench.scale import Scale
from mixedmode.operators.interface import Batch
from mixedmode.operators.process.timers import EVENT_TIMERS
from mixedmode_bench.events import START_US

ROUNDS = 7
HOUR_US = 3_600_000_000

pytestmark = pytest.mark.usefixtures("one_core")


def test_pending_timers_cost_an_epoch(tmp_path: Path, scale: Scale, report: Report) -> None:
    operator = replace(counting(CountAndRemind), has_event_time=True)
    rng = np.random.default_rng(8)
    each_key = np.arange(scale.keys)
    backlog = run_backlog_epoch(
        operator, folded(operator, _batch(each_key, START_US)), backlog_until(START_US), tmp_path / "backlog"
    )
    assert sum(run.entries for run in backlog.runs if run.state_id == EVENT_TIMERS) == scale.keys
    states = {
        "without": Stored([run for run in backlog.runs if run.state_id != EVENT_TIMERS], tmp_path / "without"),
        "with": Stored(backlog.runs, tmp_path / "with"),
    }
    epoch = folded(operator, _batch(rng.integers(0, scale.keys, scale.small_epoch), START_US + HOUR_US))
    seconds: dict[str, list[float]] = {name: [] for name in states}
    for number, (name, state) in itertools.product(range(1 + ROUNDS), states.items()):
        started = time.perf_counter()
        ran = state.run_live_epoch(operator, epoch, live_between(START_US, START_US + HOUR_US))
        if number > 0:  # the first epoch makes the replica
            seconds[name].append(time.perf_counter() - started)
        assert ran.rows == scale.small_epoch, "no timer fires"
    _report(report, scale, seconds)


def _report(report: Report, scale: Scale, seconds: dict[str, list[float]]) -> None:
    section = f"{scale.keys:,} pending timers, an epoch of {scale.small_epoch:,} events"
    more = [with_timers - without for without, with_timers in zip(*seconds.values(), strict=True)]
    report.add(
        Figure.median(section, "the epoch in one subtask, without the timers", "s", seconds["without"]),
        Figure.median(section, "the same with the timers, none of them due", "s", seconds["with"]),
        Figure.median(section, "what they cost", "s", more, at_most=0.05),
    )


def _batch(keys: "np.ndarray[tuple[int], np.dtype[np.int64]]", time_us: int) -> Batch:
    """A record per key, at this time and shortly after it; its timer is due a day later."""
    column = pa.array(keys)
    return Batch([column], [column, pa.array(np.ones(len(keys)))], time_us + np.arange(len(keys)) % DAY_US, None)
