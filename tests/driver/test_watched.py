"""Progress of an epoch while it runs: told until the end of the epoch, and never at the cost of the run."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mixedmode.checkpoint.types import Epoch
from mixedmode.driver.events import EpochProgress, Event
from mixedmode.driver.observers import Observers
from mixedmode.driver.pace import PartFigures, StepFigures
from mixedmode.driver.watched import EpochWatch, ReadSteps, steps_of
from mixedmode.executor.protocol import EpochTask
from mixedmode.operators.interface import OperatorTraits
from mixedmode.spark.jobs import MAP_SIDE, SparkJob, SparkStage
from mixedmode.tasks.notes import NoteKind, TaskNote
from tests.harness import HandClock


@dataclass
class HandFigures:
    """Figures that a test sets; None: they cannot be read."""

    steps: dict[str, StepFigures] | None = field(default_factory=dict)

    @contextmanager
    def of(self, task: EpochTask) -> Iterator[tuple[EpochTask, ReadSteps]]:
        def read() -> Mapping[str, StepFigures]:
            assert self.steps is not None, "Spark has ended"
            return self.steps

        yield task, read


def epoch_task() -> EpochTask:
    """As much of a task as a watch reads."""
    stage = SimpleNamespace(operator_id="by_key", operator=SimpleNamespace(combine=object(), traits=OperatorTraits()))
    plan = SimpleNamespace(maps=(), stages=(stage,), rows_results={})
    task: Any = SimpleNamespace(epoch=Epoch(0), plan=plan, files=None, timing=SimpleNamespace(is_backlog=True))
    return cast("EpochTask", task)


def map_side(done: int) -> StepFigures:
    return PartFigures(tasks=4, tasks_done=done, is_complete=done == 4, records=100 * done), PartFigures()


def test_progress_moves_from_nothing_to_everything_and_ends_with_the_epoch() -> None:
    clock, figures, told = HandClock(), HandFigures(), list[Event]()
    watch = EpochWatch(figures, told.append, clock)
    watch.look()
    assert not told, "there is no epoch"
    with watch.epoch(epoch_task()):
        for done in range(5):
            figures.steps = {"by_key": map_side(done)} if done else {}
            watch.look()
            clock.at += 10
    watch.look()
    progress = [event for event in told if isinstance(event, EpochProgress)]
    assert len(progress) == len(told) == 6, "one per look, and the last one when the epoch has ended"
    assert [event.seconds for event in progress] == [0, 10, 20, 30, 40, 50]
    assert [event.records for event in progress] == [0, 100, 200, 300, 400, 400]
    assert (progress[0].share, progress[-1].share, progress[-1].phase) == (0.0, 1.0, "done")


def test_an_epoch_that_ends_before_the_first_look_has_no_progress() -> None:
    told = list[Event]()
    watch = EpochWatch(HandFigures(), told.append, HandClock())
    with watch.epoch(epoch_task()):
        pass
    assert not told


def test_figures_that_cannot_be_read_leave_the_epoch_alone_and_come_back_later() -> None:
    figures, told = HandFigures(None), list[Event]()
    watch = EpochWatch(figures, told.append, HandClock())
    with watch.epoch(epoch_task()):
        watch.look()
        assert not told
        figures.steps = {"by_key": map_side(1)}
        watch.look()
        assert len(told) == 1


def test_an_epoch_that_fails_is_watched_no_more_and_tells_no_end() -> None:
    told = list[Event]()
    watch = EpochWatch(HandFigures(), told.append, HandClock())

    def fail() -> None:
        with watch.epoch(epoch_task()):
            watch.look()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    watch.look()
    assert len(told) == 1


def test_an_observer_that_raises_ends_neither_the_thread_nor_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixedmode.driver.watched.INTERVAL_SECONDS", 0.001)
    asked = threading.Semaphore(0)

    def broken(_event: Event) -> None:
        asked.release()
        raise ValueError

    with EpochWatch(HandFigures(), Observers([broken])) as watch, watch.epoch(epoch_task()):
        for _ in range(3):
            assert asked.acquire(timeout=30), "the thread goes on"


def test_figures_of_spark_and_of_tasks_are_added_up_by_step() -> None:
    stages = (SparkStage(), SparkStage(tasks=4, done=4, is_complete=True, input_bytes=7), SparkStage(tasks=2))
    jobs = [
        SparkJob("lists the files", (SparkStage(tasks=9),)),
        SparkJob("orders, epoch 3, backlog: by_key", stages),
        SparkJob("orders, epoch 3, backlog: write rows", (SparkStage(tasks=5, input_records=8),)),
    ]
    first = TaskNote(bytes_total=10, bytes_read=8, records=100, records_folded=50, records_sent=20, rows=40)
    notes: tuple[tuple[NoteKind, str, TaskNote], ...] = (
        ("map", "by_key", first),
        ("map", "by_key", first),
        ("subtask", "by_key", TaskNote(rows=30, is_sorted=1.0, processed=0.5, bytes_spilled=9)),
        ("subtask", "by_key", TaskNote(rows=50, is_sorted=1.0, processed=1.0, is_stored=1.0)),
        ("map", "another", first),
    )
    assert steps_of("orders, epoch 3, backlog: ", jobs, notes) == {
        "by_key": (
            PartFigures(4, 4, True, 200, 80, 16, 20, records_noted=200, records_folded=100, records_sent=40),
            PartFigures(2, 0, False, rows=80, sorted=2.0, processed=1.5, bytes_spilled=9, stored=1.0),
        ),
        "write rows": (PartFigures(5, records=8), PartFigures()),
    }


def test_of_a_small_epoch_in_one_stage_the_subtasks_begin_when_they_have_rows() -> None:
    jobs = [SparkJob("orders: by_key", (SparkStage(tasks=2),))]
    read: tuple[NoteKind, str, TaskNote] = (
        "map",
        "by_key",
        TaskNote(bytes_total=10, bytes_read=10, records=9, records_folded=9, rows=5),
    )
    sorts = TaskNote(rows=5, is_sorted=1.0)
    assert steps_of("orders: ", jobs, (read, ("subtask", "by_key", TaskNote())))["by_key"] == (
        PartFigures(2, 0, False, 9, 5, 10, 10, records_noted=9, records_folded=9),
        PartFigures(),
    )
    assert steps_of("orders: ", jobs, (read, ("subtask", "by_key", sorts)))["by_key"] == (
        PartFigures(2, 2, True, 9, 5, 10, 10, records_noted=9, records_folded=9),
        PartFigures(2, rows=5, sorted=1.0),
    )


def test_a_map_side_may_be_a_job_of_its_own() -> None:
    note = TaskNote(bytes_total=10, bytes_read=10, records=9, records_folded=9, rows=5)
    notes: tuple[tuple[NoteKind, str, TaskNote], ...] = (
        ("map", "by_key", note),
        ("subtask", "by_key", TaskNote(rows=5)),
    )
    whole = SparkStage(tasks=2, done=2, is_complete=True)
    first = SparkJob(f"orders: by_key{MAP_SIDE}", (whole,))
    read = PartFigures(2, 2, True, 9, 5, 10, 10, records_noted=9, records_folded=9)
    assert steps_of("orders: ", [first], notes[:1]) == {"by_key": (read, PartFigures())}
    jobs = [first, SparkJob("orders: by_key", (SparkStage(tasks=3),))]
    assert steps_of("orders: ", jobs, notes) == {"by_key": (read, PartFigures(3, rows=5))}
    begun_again = SparkJob(f"orders: by_key{MAP_SIDE}", (SparkStage(tasks=2),))
    found, subtasks = steps_of("orders: ", [*jobs, begun_again], ())["by_key"]
    assert (found, subtasks) == (PartFigures(2), PartFigures())
