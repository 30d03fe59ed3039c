"""A process function that counts and sums per key: mixed mode against Spark's transformWithState in Python.

Each takes the backlog at once, then live epochs. Spark's query runs only once, because it takes minutes. Mixed mode
gives a row for each record, Spark's query one for each key and micro-batch.
"""

import statistics
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from bench.conftest import Course, Say, live_seconds
from bench.report import Figure, Report
from bench.scale import Scale
from bench.workloads import processed
from mixedmode_bench.contestant import Contestant, Outcome
from mixedmode_bench.workload import Size, Workload

LIVE_EPOCHS = 5
PEER = "transform-with-state"
#: the counts of a key grow, so the greatest is the last
_LAST = "SELECT k, max(n) AS n, arg_max(total, n) AS total FROM read_parquet('{file}') GROUP BY k"


def test_process_function_against_spark(
    contestant: Callable[[str], Contestant],
    course: Callable[[Workload, Size], Course],
    scale: Scale,
    report: Report,
    say: Say,
    tmp_path: Path,
) -> None:
    workload = processed(1 + LIVE_EPOCHS, scale.process_epoch)
    few, over = course(workload, Size(1000, 1000)), course(workload, scale.process)
    found: dict[str, list[Outcome]] = {}
    for name, rounds in (("mixed", scale.rounds), (PEER, 1)):
        who = contestant(name)
        few.run(who)  # what it loads and compiles is not measured
        for _ in range(rounds):
            task, outcome = over.run(who)
            found.setdefault(name, []).append(outcome)
            say(f"{name:22} {outcome.parts['start to flip']:6.2f} s, live {_shown(outcome)} s")
        pq.write_table(who.answer(task), tmp_path / f"{name}.all")
        with duckdb.connect() as database:
            query = _LAST.format(file=tmp_path / f"{name}.all")
            database.execute(f"COPY ({query}) TO '{tmp_path / name}' (FORMAT parquet)")
        over.check(who, tmp_path / name)
    _report(report, scale, found["mixed"], found[PEER][0])


def _report(report: Report, scale: Scale, ours: list[Outcome], theirs: Outcome) -> None:
    """Spark's query has one run, so it stands in every round; of the live epochs, the medians are compared."""
    section = f"Process function, {scale.process.events:,} events, {scale.process.keys:,} keys"
    run = [outcome.parts["start to flip"] for outcome in ours]
    peer = [theirs.parts["start to flip"]] * len(run)
    report.add(
        Figure.median(section, "mixed: from the start to the flip", "s", run),
        Figure.median(section, f"Spark {PEER}", "s", peer[:1]),
        Figure.ratio(section, f"Spark {PEER} / mixed", peer, run, at_least=20.0),
    )
    section = f"Process function, live epochs of {scale.process_epoch:,} events"
    live, peer_live = live_seconds(ours[-1]), live_seconds(theirs)
    report.add(
        Figure.median(section, "mixed", "s", live),
        Figure.median(section, f"Spark {PEER}", "s", peer_live),
        Figure.ratio(section, f"Spark {PEER} / mixed", [statistics.median(peer_live)] * len(live), live, at_least=10.0),
    )


def _shown(outcome: Outcome) -> str:
    return ", ".join(f"{seconds:.2f}" for seconds in live_seconds(outcome))
