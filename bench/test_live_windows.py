"""Windows, live: mixed mode against Spark's own aggregate over windows, over the same files in the same session."""

from collections.abc import Callable

from bench.conftest import Course, Say
from bench.report import Figure, Report
from bench.scale import Scale
from bench.workloads import live_windows
from mixedmode_bench.contestant import Contestant
from mixedmode_bench.rounds import live_epochs
from mixedmode_bench.workload import Size, Workload

LARGE_EPOCHS, SMALL_EPOCHS = 3, 5


def test_live_windows(
    contestant: Callable[[str], Contestant],
    course: Callable[[Workload, Size], Course],
    scale: Scale,
    report: Report,
    say: Say,
) -> None:
    section = f"Tumbling windows of a minute, {scale.windows.keys:,} keys, live"
    sizes = [scale.large_epoch] * (1 + LARGE_EPOCHS) + [scale.small_epoch] * SMALL_EPOCHS
    over = course(live_windows(1, sizes), scale.windows)
    for name in ("mixed", "spark-streaming"):
        who = contestant(name)
        task, outcome = over.run(who)
        large, small = live_epochs(outcome, "large epochs"), live_epochs(outcome, "small epochs")
        say(f"{name:16} {', '.join(f'{span.seconds:.2f}' for span in (*large, *small))} s")
        over.check_run(who, task)
        rates, seconds = [s.events / s.seconds for s in large], [s.seconds for s in small]
        report.add(
            Figure.median(section, f"{name}: {scale.large_epoch:,} events an epoch", "/s", rates),
            Figure.median(section, f"{name}: {scale.small_epoch:,} events an epoch", "s", seconds),
        )
