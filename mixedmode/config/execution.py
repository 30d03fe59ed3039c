"""The execution settings of a job: mode, checkpoints, backlog, parallelism, memory.

Source: docs/modes.md has the semantics of the modes.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mixedmode.config.document import Path
from mixedmode.config.fields import (
    Count,
    CountOrZero,
    DurationMs,
    Flag,
    PositiveBytes,
    PositiveDurationMs,
    Section,
    Share,
    Text,
    refusal,
)
from mixedmode.durations import format_duration_ms

#: most key groups, since the number of a key group is stored in 16 bits; the same limit as in keys/groups.py
MAX_PARALLELISM_LIMIT = 2**15


class RuntimeMode(StrEnum):
    """The treatment of a job's history and of the records that come after it."""

    BATCH = "batch"
    STREAMING = "streaming"
    MIXED = "mixed"
    AUTOMATIC = "automatic"


class CheckpointingSpec(Section):
    """The time and place of a live job's commits."""

    interval_ms: PositiveDurationMs = Field(
        default=1_000,
        description="time between two live epochs; each ends in one commit, so 1s is about 86,400 manifests a day, "
        "and a longer interval means later results but fewer, larger files",
    )
    dir: Text | None = Field(
        default=None, description="folder or URL for state and manifests; starting again with the same one resumes"
    )
    num_retained: Count = Field(
        default=10,
        description="how many checkpoints are kept; each keeps its own list of state files, so more of them reach "
        "further back, and hold on longer to files that were merged since",
    )
    verify: Literal["checksums", "sizes"] = Field(
        default="checksums",
        description="how a start looks at the newest checkpoint before using it; checksums: all its files are read, as "
        "fast as disk or network give them (100 GB at 500 MB/s: 200 s); sizes: one look per file, which does not see a "
        "changed byte, so that a subtask may meet it later and stop the job",
    )
    access: Literal["owner", "umask"] = Field(
        default="owner",
        description="who can enter the local folder of the checkpoints; owner: only the user who runs the job (mode "
        "0700); umask: whom the umask and an existing folder admit, for tasks that run as other users",
    )
    tolerable_failed_checkpoints: CountOrZero = Field(
        default=0,
        description="how often in a row an epoch that failed for a reason outside (store, network, disk) is run again, "
        "an interval later, before the job fails; each repeat costs an epoch's work, and its results come later",
    )
    timeout_ms: PositiveDurationMs | None = Field(
        default=None,
        description="how long a live epoch may take before it is given up, which counts as failed; not given: as long "
        "as it takes",
    )
    interval_during_backlog_ms: DurationMs | None = Field(
        default=None, description="another spelling of execution.interval-during-backlog, which takes its value"
    )


class ExecutionBacklogSpec(Section):
    """The execution of the backlog."""

    parallelism: Count | None = Field(default=None, description="subtasks in backlog; not given: as many as live")
    end_of_key_watermark: Literal["greatest", "max"] = Field(
        default="greatest",
        description="the watermark of a key after its last record in backlog; greatest: the greatest one of the "
        "backlog, so that windows and timers beyond it fire live; max: every window and timer fires in the backlog",
    )
    emit: Literal["final", "all"] = Field(
        default="final",
        description="final: one row per key or window of the backlog; all: every running value too",
    )


class AutoscalerSpec(Section):
    """The autoscaler, which chooses the parallelism of a live job. Each target may ask for more subtasks."""

    enabled: Flag = Field(default=False, description="whether a live job chooses its parallelism by itself")
    min_parallelism: Count = Field(default=1, description="the fewest subtasks it chooses")
    max_parallelism: Count | None = Field(
        default=None, description="the most subtasks it chooses; not given: as many as cores"
    )
    target_utilization: Share = Field(
        default=0.7,
        description="the part of the time in which an epoch is under way; a lower one leaves more room for peaks, "
        "and costs subtasks",
    )
    target_lag_ms: PositiveDurationMs | None = Field(
        default=None, description="how long a record may wait beyond the checkpointing interval; not given: any time"
    )
    target_throughput: Count | None = Field(
        default=None, description="the most records a second for one subtask; not given: any number"
    )
    cool_down_ms: PositiveDurationMs = Field(
        default=60_000,
        description="the least time between two changes; each costs a pause, as subtasks fetch their state",
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        if self.max_parallelism is not None and self.min_parallelism > self.max_parallelism:
            text = (
                " is more than the autoscaler's max-parallelism, so that no number is allowed. Lower it, or raise the "
                f"other. found={self.min_parallelism}, max-parallelism={self.max_parallelism}"
            )
            yield ("min-parallelism",), text


class ExecutionSpec(Section):
    """The execution of the job."""

    runtime_mode: RuntimeMode = Field(
        default=RuntimeMode.AUTOMATIC,
        description="batch, streaming, mixed, or automatic (batch if every source is bounded, else mixed)",
    )
    interval_during_backlog_ms: DurationMs | None = Field(
        default=None,
        description="time between two commits in backlog; 0: none, so the backlog is sorted as a whole and is the "
        "fastest, but a failure in it begins it again; not given: 0 if mixed, the checkpointing interval if streaming",
    )
    checkpointing: CheckpointingSpec = Field(default=CheckpointingSpec(), description="commits of the live job")
    backlog: ExecutionBacklogSpec = Field(default=ExecutionBacklogSpec(), description="how the backlog runs")
    autoscaler: AutoscalerSpec = Field(
        default=AutoscalerSpec(), description="whether the job chooses its parallelism by itself"
    )

    @model_validator(mode="after")
    def _one_interval_during_backlog(self) -> Self:
        """Move both spellings to one field, so that a reader of the spec cannot read the wrong field."""
        here_ms, there_ms = self.interval_during_backlog_ms, self.checkpointing.interval_during_backlog_ms
        if there_ms is None:
            return self
        if here_ms is not None and here_ms != there_ms:
            text = (
                " is given under execution.checkpointing too, with another value. Keep one of the two. "
                f"here={format_duration_ms(here_ms)}, there={format_duration_ms(there_ms)}"
            )
            raise refusal((("interval-during-backlog",), text))
        bare = self.checkpointing.model_copy(update={"interval_during_backlog_ms": None})
        object.__setattr__(self, "checkpointing", bare)  # still being built: nothing has read the other value
        object.__setattr__(self, "interval_during_backlog_ms", there_ms)
        return self


class PipelineBacklogSpec(Section):
    """The condition under which a live job is in backlog again."""

    watermark_lag_threshold_ms: PositiveDurationMs | None = Field(
        default=None,
        description="an epoch whose watermark lags more than this uses the sorted strategy; not given: none does",
    )


class PipelineSpec(Section):
    """Settings for every operator of the job."""

    max_parallelism: Annotated[Count, Field(le=MAX_PARALLELISM_LIMIT)] = Field(
        default=128,
        description="number of key groups, fixed for the life of the job's state: the most subtasks it can ever use",
    )
    backlog: PipelineBacklogSpec = Field(default=PipelineBacklogSpec(), description="when it is in backlog again")


class StateBacklogSpec(Section):
    """Settings of state in backlog."""

    sort_memory_bytes: PositiveBytes = Field(
        default=1024**3,
        description="memory of a task, beside its interpreter: a map task folds three tenths of it at a time; in "
        "backlog nearly all of a subtask's sorts, live half of it keeps what is read of the state; what exceeds it is "
        "sorted on disk, which costs a second pass",
    )


class StateSpec(Section):
    """Settings of state."""

    backlog: StateBacklogSpec = Field(default=StateBacklogSpec(), description="state while in backlog")
