"""A contestant's run over a few rows of a workload, and whether it gave the answer."""

import itertools
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mixedmode_bench import events
from mixedmode_bench.answers import Answers
from mixedmode_bench.contestant import Contestant, Outcome, Task
from mixedmode_bench.data import Data
from mixedmode_bench.workload import Size, Workload

CORES = 2


def tiny_task(workload: Workload, size: Size, folder: Path, patch: pytest.MonkeyPatch) -> Task:
    """Data in two files, one per micro-batch; of a feed, the first two large epochs and one small one."""
    patch.setattr(events, "FILES", 2)
    data, feed, work = (folder / name for name in ("data", "feed", "work"))
    for path in (data, feed, work):
        path.mkdir(parents=True)
    workload.write(data, size)
    waiting = [] if workload.feed is None else workload.feed(feed, size)
    return Task(workload, size, data, work, (*waiting[:2], *waiting[-1:]))


def run_and_check(contestant: Contestant, task: Task, scratch: Path, *, may_lack: bool = False) -> Outcome:
    """One run, from start to close. Its answer is DuckDB's."""
    assert contestant.missing() is None
    assert contestant.takes(task.workload)
    before = {path: path.stat() for path in (*task.data.rglob("*"), *task.waiting)}
    contestant.start(scratch, CORES)
    try:
        contestant.prepare(task)
        outcome = contestant.run(task)
        pq.write_table(contestant.answer(task), scratch / "answer.parquet")
    finally:
        contestant.close()
    with Answers(task.workload, Data(task.data, task.waiting, 0, is_new=True), scratch) as answers:
        answers.check(contestant.name, scratch / "answer.parquet", may_lack=may_lack)
    assert {path: path.stat().st_mtime_ns for path in (*task.data.rglob("*"), *task.waiting)} == {
        path: stat.st_mtime_ns for path, stat in before.items()
    }, "a run changed its input"
    return outcome


def check_epochs(outcome: Outcome, *, backlog: int, live: list[int]) -> None:
    """Its epochs follow each other; before they are live, they have `backlog` events together, then these."""
    assert sum(span.events for span in outcome.epochs if span.is_backlog) == pytest.approx(backlog, abs=2)
    assert [span.events for span in outcome.epochs if not span.is_backlog] == live
    moments = [moment for span in outcome.epochs for moment in (span.start_s, span.end_s)]
    assert moments[0] >= 0
    assert all(b > a - 0.01 for a, b in itertools.pairwise(moments)), moments
