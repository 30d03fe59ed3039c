"""An epoch whose files tasks cannot read runs on Spark's rows; after three such epochs in a row, all later ones do."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from mixedmode.checkpoint.types import Epoch
from mixedmode.errors import LeftToSparkError, RetryableError
from mixedmode.executor import spark as module
from mixedmode.executor.spark import SparkExecutor


@dataclass(frozen=True)
class Plan:
    direct: dict[str, str] = field(default_factory=lambda: {"entry": "columns"})
    is_all_listed: bool = True


@dataclass(frozen=True)
class Task:
    epoch: Epoch
    plan: Plan = field(default_factory=Plan)


@dataclass(frozen=True)
class Executor(SparkExecutor):
    """Tasks read the files of the epochs in `readable`; it notes who read each epoch."""

    readable: set[int] = field(default_factory=set)
    read_by: list[str] = field(default_factory=list)

    def _rows_of_files(self, *_: object) -> dict[str, Any]:
        return {}

    def _run(self, task: Any, rows: Any) -> Any:
        if task.plan.direct and task.epoch not in self.readable:
            msg = "a type that tasks do not read"
            raise LeftToSparkError(msg)
        if rows == "failing":
            msg = "the store is away"
            raise RetryableError(msg)
        self.read_by.append("tasks" if task.plan.direct else "Spark")


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> Executor:
    monkeypatch.setattr(module, "input_frame", lambda *_: "by spark")
    session: Any = None
    return Executor(session)


def run(executor: Executor, *epochs: int) -> list[str]:
    for epoch in epochs:
        task: Any = Task(Epoch(epoch))
        rows: Any = SimpleNamespace(sparkSession=None)
        executor.run_epoch(task, rows)
    return executor.read_by


def test_after_three_epochs_in_a_row_spark_reads_all_later_ones(executor: Executor) -> None:
    executor.readable.update({2, 6})
    assert run(executor, *range(8)) == ["Spark", "Spark", "tasks", *["Spark"] * 5]
    assert executor.left_to_spark == [3, 4, 5], "epoch 2 was read by tasks, so counting began again"


def test_the_attempts_of_one_epoch_count_once(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    executor.readable.add(5)
    with monkeypatch.context() as patched:
        patched.setattr(module, "input_frame", lambda *_: "failing")
        for _ in range(4):
            with pytest.raises(RetryableError):
                run(executor, 4)
    assert run(executor, 4, 5) == ["Spark", "tasks"]
