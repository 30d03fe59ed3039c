"""The backlog: mixed mode against Spark's streaming and batch `groupBy`, interleaved in one session.

The first runs are shown apart: mixed mode's is the first query of the session, as it is for a user who starts a job.
After them come the rounds, in each of which the three take turns in another order.
"""

from collections.abc import Callable
from pathlib import Path

import duckdb
from pyspark.sql import SparkSession

from bench.conftest import Say
from bench.folders import emptied, first_file_of
from bench.ours import BacklogRun, aggregate_job, output_of, run_backlog
from bench.peers import GROUP_BY, Peer, run_batch, run_streaming
from bench.report import Figure, Report
from bench.workload import Scale
from mixedmode.sinks.table import current_table

FIRST, RATIOS = "Backlog, first runs in a fresh session", "Backlog, warm"

_NEWEST_OF_STREAM = "SELECT k, arg_max(n, epoch) AS n, arg_max(total, epoch) AS total FROM stream GROUP BY k"
# In any order of addition, sums of this size agree to many more digits than this.
_DIFFERENCES = """
    SELECT count(*) FROM {found} AS a FULL JOIN batch AS b USING (k)
    WHERE a.n IS DISTINCT FROM b.n OR a.total IS NULL OR abs(a.total - b.total) > 1e-9 * abs(b.total)
"""


def test_backlog_against_spark(
    session: SparkSession, history: Path, work: Callable[[], Path], scale: Scale, report: Report, say: Say
) -> None:
    ours, batch, streaming = list[BacklogRun](), list[float](), list[float]()
    folders = {"ours": work(), "batch": work(), "streaming": work()}

    def run_ours() -> None:
        ours.append(run_backlog(session, aggregate_job(history, emptied(folders["ours"]))))
        say(f"mixed      {ours[-1].run_seconds:6.2f} s, of which the epoch {ours[-1].epoch.seconds:.2f} s")

    def run_peer(name: str, run: Callable[[SparkSession, Peer, Path, Path], float], times: list[float]) -> None:
        times.append(run(session, GROUP_BY, history, emptied(folders[name])))
        say(f"{name:10} {times[-1]:6.2f} s")

    runs: list[Callable[[], None]] = [
        run_ours,
        lambda: run_peer("streaming", run_streaming, streaming),
        lambda: run_peer("batch", run_batch, batch),
    ]
    say("first runs")
    run_ours()
    run_peer("batch", run_batch, batch)
    # one micro-batch of the streaming query, so that none of its rounds loads and compiles what it needs
    run_streaming(session, GROUP_BY, first_file_of(history, work()), work())
    for number in range(scale.rounds):
        say(f"round {number + 1} of {scale.rounds}")
        turn = number % len(runs)
        for run in (*runs[turn:], *runs[:turn]):
            run()
    _check_answers(folders)
    report.add(
        Figure.median(FIRST, "mixed: the whole run", "s", [ours[0].run_seconds]),
        Figure.median(FIRST, "mixed: its backlog epoch", "s", [ours[0].epoch.seconds]),
        Figure.median(FIRST, "Spark batch groupBy, after it", "s", [batch[0]]),
        *_warm_figures(ours[1:], batch[1:], streaming),
    )


def _warm_figures(ours: list[BacklogRun], batch: list[float], streaming: list[float]) -> list[Figure]:
    run = [r.run_seconds for r in ours]
    epoch = [r.epoch.seconds for r in ours]
    return [
        Figure.median(RATIOS, "mixed: the whole run, and a look for more", "s", run),
        Figure.median(RATIOS, "mixed: from the start to the flip", "s", [r.flip_seconds for r in ours]),
        Figure.median(RATIOS, "mixed: its backlog epoch", "s", epoch),
        Figure.median(RATIOS, "Spark streaming groupBy, RocksDB with changelog", "s", streaming),
        Figure.median(RATIOS, "Spark batch groupBy", "s", batch),
        Figure.ratio(RATIOS, "Spark streaming / mixed, whole run", streaming, run, at_least=8.0),
        Figure.ratio(RATIOS, "Spark streaming / mixed, backlog epoch", streaming, epoch, at_least=8.0),
        Figure.ratio(RATIOS, "mixed, whole run / Spark batch", run, batch, at_most=1.0),
        Figure.ratio(RATIOS, "mixed, backlog epoch / Spark batch", epoch, batch, at_most=1.0),
    ]


def _check_answers(folders: dict[str, Path]) -> None:
    """The last results of all three are the same table."""
    with duckdb.connect() as database:
        found = current_table(str(output_of(folders["ours"])))
        assert found is not None, "mixed mode wrote no output"
        database.register("ours", found.rows)
        database.read_parquet(f"{folders['batch']}/out/*.parquet").create_view("batch")
        pattern = f"{folders['streaming']}/out/*/*.parquet"
        database.read_parquet(pattern, hive_partitioning=True).create_view("stream")
        for name, table in (("mixed mode", "ours"), ("streaming", f"({_NEWEST_OF_STREAM})")):
            row = database.execute(_DIFFERENCES.format(found=table)).fetchone()
            assert row == (0,), f"{name} and Spark's batch query disagree on some keys: {row}"
