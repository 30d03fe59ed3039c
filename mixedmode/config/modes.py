"""The execution mode of a job, derived from its spec (docs/modes.md).

A mode is a policy for the length of an epoch: one length in backlog, and one after it. Streaming with no commits in
backlog is mixed mode, and mixed with commits in backlog behaves exactly as streaming. So the interval in backlog
decides between the two: 0 is mixed, 10s is streaming.

Invariants (tests/config/test_modes.py):
  I1  resolve_mode returns a policy for every valid spec
  I2  the mode is mixed exactly when the job is not batch and backlog_interval_ms is 0
"""

from dataclasses import dataclass
from typing import Literal

from mixedmode.config.execution import RuntimeMode
from mixedmode.config.spec import JobSpec


@dataclass(frozen=True, slots=True)
class ModePolicy:
    """The mode and intervals of a job. An interval of 0 means that this part of the job has no commits by time."""

    mode: Literal["batch", "streaming", "mixed"]
    backlog_interval_ms: int
    live_interval_ms: int


def resolve_mode(spec: JobSpec) -> ModePolicy:
    """Return the policy of a job.

    batch: one epoch, no commits by time. mixed: the backlog is one epoch, then one epoch per checkpointing interval.
    streaming: backlog epochs of interval-during-backlog, which is by default the checkpointing interval.
    """
    chosen = spec.chosen_mode
    if chosen is RuntimeMode.BATCH:
        return ModePolicy("batch", backlog_interval_ms=0, live_interval_ms=0)
    live_interval_ms = spec.execution.checkpointing.interval_ms
    backlog_interval_ms = spec.execution.interval_during_backlog_ms
    if backlog_interval_ms is None:
        backlog_interval_ms = 0 if chosen is RuntimeMode.MIXED else live_interval_ms
    mode: Literal["streaming", "mixed"] = "mixed" if backlog_interval_ms == 0 else "streaming"
    return ModePolicy(mode, backlog_interval_ms, live_interval_ms)
