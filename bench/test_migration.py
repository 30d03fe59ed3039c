"""The migration: how fast the pairs of key and state that a backlog ends with become sorted runs in the checkpoint."""

from collections.abc import Callable

from bench.conftest import Course, Say
from bench.report import Figure, Report
from bench.scale import PARALLELISM, Scale
from bench.workloads import MIGRATION
from mixedmode_bench.contestant import Contestant
from mixedmode_bench.workload import Size, Workload

STAGES = ("write state", "store state")  # of Outcome.profile, added up over the subtasks


def test_migration(
    contestant: Callable[[str], Contestant],
    course: Callable[[Workload, Size], Course],
    scale: Scale,
    report: Report,
    say: Say,
) -> None:
    section = f"Migration, {scale.live_keys:,} pairs in {PARALLELISM} subtasks"
    over, mixed = course(MIGRATION, Size(scale.live_keys, scale.live_keys)), contestant("mixed")
    runs = [over.run(mixed) for _ in range(1 + scale.rounds)]
    over.check_run(mixed, runs[-1][0])
    outcomes = [outcome for _, outcome in runs[1:]]
    seconds = [sum(outcome.profile[stage] for stage in STAGES) for outcome in outcomes]
    rates = [scale.live_keys / spent for spent in seconds]
    say(f"migration  {', '.join(f'{rate:,.0f}' for rate in rates)} pairs/s per subtask")
    report.add(
        Figure.median(section, "writing and storing the runs, all subtasks together", "s", seconds),
        Figure.median(section, "pairs a second and subtask", "/s", rates, at_least=3_000_000.0),
    )
