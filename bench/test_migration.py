"""The migration: how fast the pairs of key and state that a backlog ends with become sorted runs in the checkpoint."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from bench.conftest import Say
from bench.ours import BacklogRun, aggregate_job, run_backlog
from bench.report import Figure, Report
from bench.workload import PARALLELISM, Scale


def test_migration(
    session: SparkSession, each_key_once: Path, work: Callable[[], Path], scale: Scale, report: Report, say: Say
) -> None:
    section = f"Migration, {scale.live_keys:,} pairs in {PARALLELISM} subtasks"
    runs = [run_backlog(session, aggregate_job(each_key_once, work())) for _ in range(1 + scale.rounds)][1:]
    assert all(run.epoch.pairs == scale.live_keys for run in runs), [run.epoch for run in runs]
    rates = [_pairs_per_second(run) for run in runs]
    say(f"migration  {', '.join(f'{rate:,.0f}' for rate in rates)} pairs/s per subtask")
    seconds = [run.epoch.migration_seconds for run in runs]
    report.add(
        Figure.median(section, "writing and storing the runs, the slower subtask", "s", seconds),
        Figure.median(section, "pairs a second and subtask", "/s", rates, at_least=3_000_000.0),
    )


def _pairs_per_second(run: BacklogRun) -> float:
    """Of one subtask: each writes its share of the pairs, and `migration_seconds` is the time of the slowest."""
    return run.epoch.pairs / PARALLELISM / run.epoch.migration_seconds
