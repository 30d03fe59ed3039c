"""The protocol of an executor, which runs one epoch of a plan, and its values.

`executor/spark.py` runs the epochs of jobs. `executor/local.py` runs the same code of the tasks in one process, without
Spark. The driver has an executor as an object, and depends on this module only.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeVar

from mixedmode.checkpoint.types import (
    Epoch,
    ExecutionStrategy,
    Generation,
    JoinFigures,
    ListState,
    Manifest,
    OperatorState,
    RunFile,
    StagedFile,
    epoch_kind,
)
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.stages import KeyedStage
from mixedmode.sinks.files import SinkTask
from mixedmode.state import merging
from mixedmode.tasks.notes import SILENT, Notes
from mixedmode.tasks.progress import Progress
from mixedmode.tasks.timing import Timing

__all__ = ["EpochResult", "EpochTask", "Executor", "StageSettings", "rows_action"]


def rows_action(result: str) -> str:
    """Return the action that writes the rows of a result which no keyed stage writes."""
    return f"write rows {result}".rstrip()


@dataclass(frozen=True, slots=True)
class StageSettings:
    """The settings of an epoch that do not depend on its input.

    `checkpoint_url` is None in batch mode. `sinks`: by output name. `job`: its name, for people.
    `step_parallelism`: {operator id: number of subtasks}, only of steps with their own number. `fan_in`: of
    decide_merge (state/merging.py).
    """

    parallelism: int
    max_parallelism: int
    sort_memory_bytes: int
    checkpoint_url: str | None
    generation: Generation
    sinks: Mapping[str, SinkTask]
    job: str = ""
    emits_running_results: bool = False  # in backlog
    step_parallelism: Mapping[str, int] = field(default_factory=dict)
    fan_in: int = merging.FAN_IN

    def parallelism_of(self, operator_id: str) -> int:
        """Return the number of subtasks of a step."""
        return self.step_parallelism.get(operator_id, self.parallelism)


@dataclass(frozen=True, slots=True)
class EpochTask:
    """One epoch to run: the plan, its settings, number, strategy and timing, and the state after the previous epoch.

    `strategy`: 'sorted' if a source is in backlog. `with_full_snapshot`: steps that emit their whole stored table,
    because a downstream step or output is new.
    `lists`: of map stages. `files`: {source: URIs of its input files}; None if unknown.
    `seen`: the progress of the sources, once it is measured; the driver knows none. `notes`: where tasks note how far
    they are. `blocks_folder`: where map tasks store large blocks for the subtasks; None: Spark moves all of them.
    """

    plan: JobPlan
    settings: StageSettings
    epoch: Epoch
    strategy: ExecutionStrategy
    timing: Timing
    state: Sequence[OperatorState] = ()
    with_full_snapshot: frozenset[str] = frozenset()
    lists: Sequence[ListState] = ()
    files: Mapping[str, tuple[str, ...]] | None = None
    seen: Progress = Progress()  # noqa: RUF009 - frozen
    notes: Notes = SILENT
    blocks_folder: str | None = None

    @classmethod
    def after(
        cls,
        latest: Manifest | None,
        plan: JobPlan,
        settings: StageSettings,
        epoch: Epoch,
        strategy: ExecutionStrategy,
        timing: Timing,
        files: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Self:
        """Return the task of the epoch after the manifest `latest`; None for the first epoch of a job."""
        state = () if latest is None else latest.operators
        outputs = () if latest is None else latest.output_names
        return cls(
            plan=plan,
            settings=settings,
            epoch=epoch,
            strategy=strategy,
            timing=timing,
            state=state,
            with_full_snapshot=plan.with_full_snapshot([operator.operator_id for operator in state], outputs),
            lists=() if latest is None else latest.list_states,
            files=files,
        )

    def timing_of(self, stage: KeyedStage) -> Timing:
        """Return the timing of a stage, whose watermark only the sources upstream move."""
        return self.timing.of(stage.operator_id, self.plan.step_times[stage.operator_id])

    def strategy_of(self, stage: KeyedStage) -> ExecutionStrategy:
        """Return the execution strategy of a stage: sorted if a source upstream is in backlog."""
        return self.strategy if stage.reads.upstream & self.timing.backlog else "streaming"

    def description(self, action: str) -> str:
        """Return the description of a Spark job of this epoch, such as "orders, epoch 12, backlog: aggregate-1"."""
        kind = epoch_kind(is_backlog=self.timing.is_backlog)
        return f"{self.settings.job}, epoch {self.epoch}, {kind}: {action}"

    def runs_of(self, operator_id: str) -> tuple[RunFile, ...]:
        """Return the committed runs of a step, oldest to newest."""
        return next((operator.runs for operator in self.state if operator.operator_id == operator_id), ())


@dataclass(frozen=True, slots=True)
class EpochResult:
    """The results of the tasks of one epoch, ready for a manifest.

    `migration_seconds` is the time of the slowest subtask. `profile`: {stage: seconds of work, added up over tasks}.
    `joins`: {operator id of a join that ran: its figures}.
    `dimensions`: {dimension: the name of the version that the epoch has read}.
    """

    progress: Progress
    rows_out: int
    skipped: int
    pairs: int
    spilled_runs: int
    migration_seconds: float
    operators: tuple[OperatorState, ...]
    outputs: tuple[StagedFile, ...]
    list_states: tuple[ListState, ...] = ()
    profile: Mapping[str, float] = field(default_factory=dict)
    joins: Mapping[str, JoinFigures] = field(default_factory=dict)
    dimensions: Mapping[str, str] = field(default_factory=dict)


InputT_contra = TypeVar("InputT_contra", contravariant=True)


class Executor(Protocol[InputT_contra]):
    """Runs the epochs of a job, one at a time. `InputT_contra` is the form in which the executor takes the input."""

    __slots__ = ()

    @abstractmethod
    def run_epoch(self, task: EpochTask, rows: InputT_contra | None) -> EpochResult:
        """Run the stages of one epoch, and return their results. Raise the error of a task.

        rows: the input of the epoch; None for an epoch without input. The tasks write runs and staged outputs, which
        count only when the manifest of the epoch names them. So an epoch may run again after a failure.
        """
