"""Rescaling a running job: how much longer the first epoch takes after the number of subtasks has changed.

The pause is that epoch less a usual one of the same size. In it the new subtasks fetch the state of their
key groups; nothing is restarted, so there is nothing else to wait for.
"""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pyarrow.parquet as pq
import pytest

from bench.conftest import Course, Say
from bench.report import Figure, Report
from bench.scale import PARALLELISM, Scale
from bench.workloads import rescaled
from mixedmode.job import Job
from mixedmode_bench import ours
from mixedmode_bench.contestant import Contestant
from mixedmode_bench.feed import Feed
from mixedmode_bench.workload import Size, Workload

USUAL = 5  # epochs before and after each change
CHAIN = (2 * PARALLELISM, PARALLELISM)
EPOCHS = 1 + USUAL + len(CHAIN) * (1 + USUAL)
PAUSE_MAX_SECONDS = 5.0


def test_rescaling_while_running(
    contestant: Callable[[str], Contestant],
    course: Callable[[Workload, Size], Course],
    scale: Scale,
    report: Report,
    say: Say,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs: list[Job] = []
    over = course(rescaled(EPOCHS, jobs.append), Size(scale.small_epoch, scale.live_keys))
    mixed = contestant("mixed")
    monkeypatch.setattr(_Rescaling, "jobs", jobs)
    monkeypatch.setattr(ours, "Feed", _Rescaling)
    task, outcome = over.run(mixed)
    epochs = [span.seconds for span in outcome.epochs if not span.is_backlog]
    say(f"epochs     {', '.join(f'{seconds:.2f}' for seconds in epochs)} s")
    pq.write_table(mixed.answer(task), tmp_path / "answer.parquet")
    over.check(mixed, tmp_path / "answer.parquet")
    section = f"Rescaling while running, {scale.live_keys:,} keys of state, epochs of {scale.small_epoch:,} events"
    usual, rest = epochs[1 : 1 + USUAL], epochs[1 + USUAL :]
    before = PARALLELISM
    for now in CHAIN:
        first, after, rest = rest[0], rest[1 : 1 + USUAL], rest[1 + USUAL :]
        pauses = [first - seconds for seconds in usual]
        report.add(
            Figure.median(section, f"{before} -> {now} subtasks: pause", "s", pauses, at_most=PAUSE_MAX_SECONDS),
            Figure.median(section, f"{before} -> {now} subtasks: the first epoch after it", "s", [first]),
            Figure.median(section, f"a usual epoch with {before} subtasks", "s", usual),
        )
        usual, before = after, now
    report.add(Figure.median(section, f"a usual epoch with {before} subtasks again", "s", usual))


class _Rescaling(Feed):
    """Asks for the next parallelism before it lets the first file after each USUAL epochs in."""

    jobs: ClassVar[list[Job]] = []  # the one that is fed, once it is made
    files = 0

    def let_in(self) -> bool:
        changes, rest = divmod(self.files - 1 - USUAL, 1 + USUAL)
        if rest == 0 and 0 <= changes < len(CHAIN):
            self.jobs[0].rescale(CHAIN[changes])
        self.files += 1
        return super().let_in()
