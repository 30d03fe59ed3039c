"""The engine without Spark: a real start of a job, whose micro-batches, tasks and shuffle are local and deterministic.

Real are run_job with its checks, the phases, the epoch loop, the map side, the subtasks with their state and replicas,
the checkpoint folder and the sinks. Replaced are the analysis (analysis.py), the streaming query (spark_log.py), and
what Spark does between the map side and the subtasks.

A start runs in a thread of its own, in lock step with the walk: while one of them acts, the other waits.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from mixedmode.config import JobSpec
from mixedmode.driver import epochs, inputs, restoring, run
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.executor import spark as stages
from mixedmode.executor.spark import EpochResult, EpochTask, StageSettings
from mixedmode.job import Job
from mixedmode.operators.aggregate import argument_name
from mixedmode.operators.interface import TIME_COLUMN, WEIGHT_COLUMN
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.stages import JobPlan, KeyedStage
from mixedmode.tasks.exchange import KEY_PREFIX
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport, decode_report
from tests.harness import ManualClock, Recording
from tests.walk.analysis import local_analysis
from tests.walk.faults import Faults, Killed
from tests.walk.spark_log import SparkQuery

SECONDS_MAX = 60  # for one command: what takes longer hangs


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of a job; after a restore it may have others. The files of its input are only known to the walk."""

    root: Path
    checkpoints_number: int = 0
    out_number: int = 0

    @property
    def input(self) -> Path:
        """Where its source looks."""
        return self.root / "in"

    @property
    def checkpoints(self) -> Path:
        """Its checkpoint folder."""
        return self.root / f"checkpoints-{self.checkpoints_number}"

    @property
    def out(self) -> Path:
        """Its output."""
        return self.root / f"out-{self.out_number}"


@dataclass
class World:
    """Everything outside of the job: the files that exist, and what happens to its tasks.

    `faults` strike in it. `handed` remembers which files Spark handed over as which epoch. Of the
    subtasks in `lost`, the first attempt in the next epoch does all its work and is lost at its very end.
    """

    faults: Faults
    files: dict[str, pa.Table] = field(default_factory=dict)
    handed: dict[int, tuple[str, ...]] = field(default_factory=dict)
    lost: frozenset[int] = frozenset()


class Start:
    """One start of a job, from the moment it is called to its end."""

    def __init__(self, job: Job, world: World) -> None:
        self.observer = Recording()
        self.failure: BaseException | None = None
        self.is_over = self.is_paused = False
        self._faults = world.faults
        self._stop = threading.Event()
        self._own_turn, self._given_back = threading.Event(), threading.Event()
        self._command: Literal["epoch", "stop", "kill"] = "epoch"
        session = local_session(world, self._next_command)
        options = RunOptions(
            until=Until.STOPPED,
            observers=[self.observer],
            clock=ManualClock(),
            stop=self._stop,
            session=session,
        )
        self._thread = threading.Thread(target=self._run, args=(job.spec, job.where, options), daemon=True)
        self._faults.pauses[self._thread] = self._pause
        self._thread.start()
        self._wait()

    def epoch(self) -> None:
        """One trigger of the live query."""
        self._act("epoch")

    def stop(self) -> None:
        """As a signal would: the run ends after what it does."""
        self._stop.set()
        self._act("stop")

    def kill(self) -> None:
        """Between two epochs."""
        self._act("kill")

    def go_on(self) -> None:
        """After a pause."""
        assert self.is_paused
        self.is_paused = False
        self._own_turn.set()
        self._wait()

    def _act(self, command: Literal["epoch", "stop", "kill"]) -> None:
        assert not self.is_over, "the run has ended"
        self._command = command
        self._own_turn.set()
        self._wait()

    def _wait(self) -> None:
        """Until the run has nothing to do, or has ended."""
        assert self._given_back.wait(SECONDS_MAX), "the run hangs"
        self._given_back.clear()
        if self.is_over:
            self._thread.join()
            del self._faults.pauses[self._thread]

    def _run(self, spec: JobSpec, where: Where, options: RunOptions) -> None:
        try:
            run_job(spec, where, options)
        except BaseException as error:  # noqa: BLE001 - a kill is none
            self.failure = error
        self.is_over = True
        self._given_back.set()

    def _pause(self) -> None:
        """Called in the run's thread in the middle of what it does."""
        self.is_paused = True
        self._rest()

    def _rest(self) -> None:
        self._given_back.set()
        self._own_turn.wait()
        self._own_turn.clear()

    def _next_command(self) -> str:
        """Called in the run's thread when it has nothing to do."""
        self._rest()
        if self._command == "kill":
            raise Killed
        return self._command


@dataclass(frozen=True, slots=True)
class LocalSession:
    """In the place of a SparkSession."""

    world: World
    next_command: Callable[[], str]
    streams: Any = field(default_factory=lambda: SimpleNamespace(active=()))
    sparkContext: Any = field(default_factory=lambda: SimpleNamespace(defaultParallelism=2))  # noqa: N815


def local_session(world: World, next_command: Callable[[], str] | None = None) -> SparkSession:
    """A session as far as a run needs one."""
    session: Any = LocalSession(world, next_command or _no_command)
    return cast("SparkSession", session)


def _no_command() -> str:
    msg = "nothing is run in this session"
    raise AssertionError(msg)


@dataclass(frozen=True, slots=True)
class LocalFrame:
    """In the place of a DataFrame of the source: names of files, or None for the streaming one."""

    sparkSession: LocalSession  # noqa: N815 - as Spark calls it
    names: Sequence[str] | None = None

    @property
    def writeStream(self) -> "LocalWriter":  # noqa: N802 - as Spark calls it
        """A query over it."""
        return LocalWriter(self.sparkSession)


class LocalWriter:
    """In the place of a DataStreamWriter, and of the StreamingQuery that it starts."""

    def __init__(self, session: LocalSession) -> None:
        self.id = object()
        self.status = {"isTriggerActive": False}
        self._session = session
        self._is_stopped = False

    def foreachBatch(self, handler: Callable[[LocalFrame, int], None]) -> "LocalWriter":  # noqa: N802
        """See DataStreamWriter."""
        self._handler = handler
        return self

    def queryName(self, _name: str) -> "LocalWriter":  # noqa: N802
        """See DataStreamWriter."""
        return self

    def option(self, name: str, value: str) -> "LocalWriter":
        """See DataStreamWriter."""
        assert name == "checkpointLocation", name
        self._folder = Path(value.removeprefix("file://"))
        return self

    def trigger(self, **trigger: Any) -> "LocalWriter":
        """See DataStreamWriter."""
        self._is_live = "availableNow" not in trigger
        return self

    def start(self) -> "LocalWriter":
        """See DataStreamWriter."""
        self._query = SparkQuery(self._folder, partial(self._session.world.faults.step, can_fail=False))
        self._present = list(self._session.world.files)
        return self

    def awaitTermination(self, _seconds: float) -> bool:  # noqa: N802
        """See StreamingQuery. A live query has one trigger per call."""
        if self._is_stopped:
            return True
        if self._is_live:
            if self._session.next_command() == "epoch":
                self._query.run_batch(self._session.world.files, self._hand_over)
            return False
        while self._query.run_batch(self._present, self._hand_over):
            pass
        return True

    def stop(self) -> None:
        """See StreamingQuery."""
        self._is_stopped = True

    def _hand_over(self, epoch: int, names: Sequence[str]) -> None:
        self._session.world.handed[epoch] = tuple(names)
        self._handler(LocalFrame(self._session, names), epoch)


@contextmanager
def without_spark() -> Iterator[pytest.MonkeyPatch]:
    """While the block runs, starts of jobs in this process are local ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "analyse", local_analysis)
        patch.setattr(run, "check_workers", lambda _session: None)  # there is no other Python
        patch.setattr(restoring, "analyse", local_analysis)
        patch.setattr(inputs.Inputs, "_stream", lambda given, _admission: LocalFrame(given.session))
        patch.setattr(inputs, "line_sources", lambda _frame: (0,))
        patch.setattr(inputs, "missing_files", _missing_files)
        patch.setattr(epochs, "run_stages", run_stages)
        patch.setattr(pyspark, "TaskContext", _TaskContext)
        yield patch


def _missing_files(session: LocalSession, urls: Sequence[str], _options: Mapping[str, str]) -> list[str]:
    return [url for url in urls if url not in session.world.files]


class _TaskContext:
    """In the place of Spark's: which attempt at which subtask it is."""

    partition = attempt = 0

    @classmethod
    def get(cls) -> type["_TaskContext"]:
        return cls

    @classmethod
    def partitionId(cls) -> int:  # noqa: N802
        return cls.partition

    @classmethod
    def attemptNumber(cls) -> int:  # noqa: N802
        return cls.attempt

    @classmethod
    def taskAttemptId(cls) -> int:  # noqa: N802
        return cls.attempt


def run_stages(
    session: LocalSession, frame: LocalFrame | None, plan: JobPlan, settings: StageSettings, task: EpochTask
) -> EpochResult:
    """As run_stages in executor/spark.py, a task after the other. Each file is a map task."""
    files = [] if frame is None or frame.names is None else [session.world.files[name] for name in frame.names]
    tables = [_columns(table, plan.stages[0]) for table in files]
    runs_before = {operator.operator_id: operator.runs for operator in task.state}
    all_reports = []
    for stage, following in zip(plan.stages, [*plan.stages[1:], None], strict=True):
        blocks = _shuffled(stages._map_side(stage, plan, settings, task), tables)
        subtask = stages._subtask_task(stage, settings, task, runs_before, is_inner=following is not None)
        reports: list[SubtaskReport] = []
        tables = []
        for number in range(settings.parallelism_of(stage.operator_id)):
            for attempt in range(1 + (number in session.world.lost)):
                report, rows = _run_subtask(subtask, number, attempt, blocks.get(number, ()))
            reports.append(report)
            if following is not None:
                tables.append(_columns(rows, following))
        all_reports.append(reports)
    return stages._result(plan, all_reports, task.state)


def _shuffled(map_side: Any, tables: Sequence[pa.Table]) -> Mapping[int, list[pa.RecordBatch]]:
    """Blocks by subtask."""
    blocks: dict[int, list[pa.RecordBatch]] = {}
    for table in tables:
        for batch in map_side(iter(table.to_batches())):
            for row in range(batch.num_rows):
                block = batch.slice(row, 1)
                blocks.setdefault(block.column("subtask")[0].as_py(), []).append(block)
    return blocks


def _run_subtask(
    subtask: Any, number: int, attempt: int, blocks: Sequence[pa.RecordBatch]
) -> tuple[SubtaskReport, pa.Table]:
    _TaskContext.partition, _TaskContext.attempt = number, attempt
    batches = list(subtask(iter(blocks)))
    rows = pa.Table.from_batches(batches, subtask.output_schema)
    is_report = rows.column(REPORT_COLUMN).is_valid()
    (report,) = rows.filter(is_report).column(REPORT_COLUMN).to_pylist()
    return decode_report(report), rows.filter(pa.compute.invert(is_report)).drop_columns([REPORT_COLUMN])


def _columns(table: pa.Table, stage: KeyedStage) -> pa.Table:
    """As input_frames.stage_columns, of a step whose arguments are columns."""
    columns = {f"{KEY_PREFIX}{i}": table.column(field.name) for i, field in enumerate(stage.key_fields)}
    columns |= {argument_name(i): table.column(text) for i, text in enumerate(stage.arguments)}
    if stage.event_time is not None:
        columns[TIME_COLUMN] = table.column(stage.event_time).cast(pa.int64())
    if stage.is_changelog:
        columns[WEIGHT_COLUMN] = table.column(WEIGHT_COLUMN)
    return pa.table(columns)
