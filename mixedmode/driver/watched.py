"""Watches the tasks of an epoch while the driver waits for them, and tells observers their progress.

A daemon thread reads the figures once a second: Spark's of its jobs, and the notes of tasks on this machine. An epoch
that ends sooner has no progress. If the figures cannot be read, the epoch goes on without progress. The thread has the
machine's clock and not the clock of the run, which a test may set.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Protocol, Self, TypeVar

from pyspark.sql import SparkSession
from typing_extensions import override

from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.clock import Clock, SystemClock
from mixedmode.connectors.files.parquet_files import file_bytes, path_of_url, records_about
from mixedmode.driver.events import Observer
from mixedmode.driver.pace import COMBINING, PYTHON, ROW_BY_ROW, WINDOWS, PartFigures, StepFigures, Work
from mixedmode.driver.progress import EpochEstimate, Moment
from mixedmode.executor.protocol import EpochResult, EpochTask, Executor, rows_action
from mixedmode.operators.async_map import AsyncMapOperator
from mixedmode.operators.co_group import CoGroupBase
from mixedmode.operators.interface import KeyedOperator
from mixedmode.operators.process import ProcessOperator
from mixedmode.spark.jobs import MAP_SIDE, SparkJob, SparkStage, jobs_with_tag, tagged
from mixedmode.tasks.notes import NoteKind, Notes, TaskNote, notes_in

__all__ = ["EpochWatch", "Figures", "FiguresOfSpark", "WatchedExecutor", "steps_of"]

_logger = logging.getLogger(__name__)
INTERVAL_SECONDS = 1.0
_JOIN_SECONDS = 5.0  # the thread may wait for a Spark that does not answer any more
_FILE = "file:/"
InputT = TypeVar("InputT")

#: returns the figures of an epoch's steps at this moment (Moment.steps)
ReadSteps = Callable[[], Mapping[str, StepFigures]]


class Figures(Protocol):
    """The source of the figures of an epoch's tasks."""

    def of(self, task: EpochTask) -> AbstractContextManager[tuple[EpochTask, ReadSteps]]:
        """Run a block with the task to run, and a function that reads the figures so far."""


@dataclass(frozen=True, slots=True)
class FiguresOfSpark:
    """The figures that Spark has of its jobs, and the notes of the tasks of an embedded Spark."""

    session: SparkSession

    @contextmanager
    def of(self, task: EpochTask) -> Iterator[tuple[EpochTask, ReadSteps]]:
        """Tag the epoch's jobs. In a backlog, give tasks on this machine a folder for their notes."""
        tag = f"mixedmode-progress-{uuid.uuid4().hex}"  # a session may run the same epoch of the same job again
        with ExitStack() as stack:
            folder = None
            if task.timing.is_backlog and str(self.session.sparkContext.master).startswith("local"):
                scratch = temporary_folder("notes-")
                folder = stack.enter_context(scratch)
            stack.enter_context(tagged(self.session, tag))

            def read() -> Mapping[str, StepFigures]:
                notes = () if folder is None else tuple(notes_in(folder, task.epoch))
                return steps_of(task.description(""), jobs_with_tag(self.session, tag), notes)

            yield replace(task, notes=Notes(folder, task.epoch)), read


def steps_of(
    prefix: str, jobs: list[SparkJob], notes: tuple[tuple[NoteKind, str, TaskNote], ...]
) -> dict[str, StepFigures]:
    """Return the figures by step.  prefix: of the descriptions of the epoch's jobs, which end with the step. Pure.

    The map side of a step may be a job by itself. If the stages of an epoch were repeated, the figures are those of the
    last time.
    """
    found: dict[str, StepFigures] = {}
    map_sides: dict[str, PartFigures] = {}
    for job in jobs:
        if not job.description.startswith(prefix):
            continue  # such as a job that lists files
        part = job.description.removeprefix(prefix)
        step = part.removesuffix(MAP_SIDE)
        map_side = [note for kind, of_step, note in notes if (kind, of_step) == ("map", step)]
        subtasks = [note for kind, of_step, note in notes if (kind, of_step) == ("subtask", step)]
        *before, last = job.stages
        if part != step:
            map_sides[step] = _part(last, map_side)
            found[step] = (map_sides[step], PartFigures())
        elif step in map_sides:
            found[step] = (map_sides.pop(step), _part(last, subtasks))
        elif before:
            found[step] = (_part(before[-1], map_side), _part(last, subtasks))
        elif subtasks and any(note.rows or note.is_sorted for note in subtasks):  # a small epoch, in one stage
            first = replace(_part(last, map_side), tasks_done=last.tasks, is_complete=True)
            found[step] = (first, _part(last, subtasks))
        else:  # its map side, or a job without a keyed step
            whole = _part(last, map_side)
            found[step] = (whole, PartFigures(is_complete=whole.is_complete))
    return found


def _part(stage: SparkStage, notes: list[TaskNote]) -> PartFigures:
    bytes_read = sum(note.bytes_read for note in notes)
    return PartFigures(
        tasks=stage.tasks,
        tasks_done=min(stage.done, stage.tasks),
        is_complete=stage.is_complete,
        records=max(stage.input_records, int(sum(note.records for note in notes))),
        rows=int(sum(note.rows for note in notes)),
        bytes_read=bytes_read or stage.input_bytes,
        bytes_total=sum(note.bytes_total for note in notes),
        records_noted=sum(note.records for note in notes),
        records_folded=sum(note.records_folded for note in notes),
        records_sent=sum(note.records_sent for note in notes),
        sorted=sum(note.is_sorted for note in notes),
        processed=sum(note.processed for note in notes),
        bytes_spilled=sum(note.bytes_spilled for note in notes),
        stored=sum(note.is_stored for note in notes),
    )


@dataclass
class _Watched:
    """An epoch under way. `estimate` is None until the first look."""

    task: EpochTask
    read: ReadSteps
    began: float
    estimate: EpochEstimate | None = None
    is_told: bool = field(default=False)


class EpochWatch:
    """Tells the progress of one epoch after the other. As a context manager, it ends its thread."""

    def __init__(self, figures: Figures, tell: Observer, clock: Clock | None = None) -> None:
        """`clock`: of the machine by default; it is read by several threads."""
        self._figures = figures
        self._tell = tell
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._watched: _Watched | None = None
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="epoch-watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    @contextmanager
    def epoch(self, task: EpochTask) -> Iterator[EpochTask]:
        """Watch an epoch during the block. It gets the task to run, whose tasks keep notes."""
        with self._figures.of(task) as (noted, read):
            watched = _Watched(noted, read, self._clock.seconds())
            with self._lock:
                self._watched = watched
            try:
                yield noted
            finally:
                with self._lock:
                    self._watched = None
        if watched.is_told and watched.estimate is not None:
            self._tell(watched.estimate.done(self._clock.seconds() - watched.began))

    def look(self) -> None:
        """Read the figures of the epoch under way, and tell its progress."""
        with self._lock:
            watched = self._watched
        if watched is None:
            return
        try:
            if watched.estimate is None:
                watched.estimate = _estimate(watched.task)
            seconds = self._clock.seconds() - watched.began
            event = watched.estimate.at(Moment(seconds, watched.read()))
        except Exception:  # progress never ends a run: Spark may have ended, a file may be gone
            _logger.debug("the progress of an epoch cannot be read", exc_info=True)
            return
        with self._lock:
            if self._watched is watched:  # else the epoch has ended since
                watched.is_told = True
                self._tell(event)

    def _run(self) -> None:
        while not self._is_over.wait(INTERVAL_SECONDS):
            self.look()


def _estimate(task: EpochTask) -> EpochEstimate:
    plan = task.plan
    steps = {stage.operator_id: PYTHON for stage in plan.maps}
    steps |= {stage.operator_id: _work(stage.operator) for stage in plan.stages}
    steps |= {rows_action(name): ROW_BY_ROW for name in plan.rows_results}
    files = _files(task.files)
    size = sum(length for _, length in files) or None
    return EpochEstimate(task.epoch, task.timing.is_backlog, steps, size, records_about(files))


def _work(operator: KeyedOperator) -> Work:
    if isinstance(operator, ProcessOperator | CoGroupBase | AsyncMapOperator):
        return PYTHON
    if operator.combine is None:
        return ROW_BY_ROW
    return WINDOWS if operator.traits.emits_windows else COMBINING


def _files(by_source: Mapping[str, tuple[str, ...]] | None) -> list[tuple[str, int]]:
    """Return (path, bytes) of the input files; nothing if they are unknown, or on another machine."""
    urls = [url for of_source in (by_source or {}).values() for url in of_source]
    if not all(url.startswith(_FILE) for url in urls):
        return []
    return [(path, file_bytes(path)) for path in map(path_of_url, urls)]


@dataclass(frozen=True, slots=True)
class WatchedExecutor(Executor[InputT]):
    """Runs epochs as another executor does, and has each of them watched."""

    executor: Executor[InputT]
    watch: EpochWatch

    @override
    def run_epoch(self, task: EpochTask, rows: InputT | None) -> EpochResult:
        with self.watch.epoch(task) as noted:
            return self.executor.run_epoch(noted, rows)
