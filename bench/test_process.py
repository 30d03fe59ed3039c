"""A process function that counts and sums per key: mixed mode against Spark's transformWithState in Python.

Each takes the backlog at once. Spark's query does it only once, because it takes minutes; its live epochs go on from
there. Mixed mode gives a row for each record, Spark's query one for each key and micro-batch.
"""

import statistics
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.conftest import Say
from bench.feed import Feed, LiveEpoch
from bench.folders import emptied, linked
from bench.ours import BacklogRun, output_of, process_job, run_backlog, run_live
from bench.peers import PROCESS, run_streaming, run_streaming_live
from bench.report import Figure, Report
from bench.workload import Scale, write_feed, write_history
from mixedmode.sinks.table import current_table

LIVE_EPOCHS, PEER_LIVE_EPOCHS = 5, 2

# The counts of a key grow, so the greatest is the last. In any order of addition, sums of this size agree to many more
# digits than this.
_DIFFERENCES = """
    WITH expected AS (SELECT k, count(*) AS n, sum(v) AS total FROM events GROUP BY k),
         found AS (SELECT k, max(n) AS n, arg_max(total, n) AS total FROM rows GROUP BY k)
    SELECT count(*) FROM found AS a FULL JOIN expected AS b USING (k)
    WHERE a.n IS DISTINCT FROM b.n OR a.total IS NULL OR abs(a.total - b.total) > 1e-9 * abs(b.total)
"""


def test_process_function_against_spark(
    session: SparkSession, process_history: Path, work: Callable[[], Path], scale: Scale, report: Report, say: Say
) -> None:
    few = write_history(work(), events=1000, keys=1000)
    run_backlog(session, process_job(few, work()))
    run_streaming(session, PROCESS, few, work())

    folder, runs = work(), list[BacklogRun]()
    for number in range(scale.rounds):
        say(f"round {number + 1} of {scale.rounds}")
        runs.append(run_backlog(session, process_job(process_history, emptied(folder))))
        say(f"mixed      {runs[-1].run_seconds:6.2f} s, of which the epoch {runs[-1].epoch.seconds:.2f} s")
    source, folder = _copy_of(process_history, work()), work()
    _, *live = run_live(session, process_job(source, folder), _feed(scale, 1 + LIVE_EPOCHS, work(), source))
    say(f"mixed, live  {_shown(live)} s")
    found = current_table(str(output_of(folder)))
    assert found is not None, "mixed mode wrote no output"
    _check_answers("mixed mode", source, found.rows)

    source, folder = _copy_of(process_history, work()), work()
    peer_seconds = run_streaming(session, PROCESS, source, folder)
    say(f"{PROCESS.name}  {peer_seconds:.2f} s")
    _, *peer_live = run_streaming_live(
        session, PROCESS, source, folder, _feed(scale, 1 + PEER_LIVE_EPOCHS, work(), source)
    )
    say(f"{PROCESS.name}, live  {_shown(peer_live)} s")
    _check_answers(PROCESS.name, source, pq.read_table(folder / "out"))
    _report(report, scale, (runs, peer_seconds), (live, peer_live))


def _report(
    report: Report,
    scale: Scale,
    backlog: tuple[list[BacklogRun], float],
    live: tuple[list[LiveEpoch], list[LiveEpoch]],
) -> None:
    """Spark's backlog has one value, so it stands in every round; of the live epochs, the medians are compared."""
    section = f"Process function, {scale.process_events:,} events, {scale.process_keys:,} keys"
    runs, peer_seconds = backlog
    run, epoch = [r.run_seconds for r in runs], [r.epoch.seconds for r in runs]
    peer = [peer_seconds] * len(runs)
    report.add(
        Figure.median(section, "mixed: the whole run, and a look for more", "s", run),
        Figure.median(section, "mixed: its backlog epoch", "s", epoch),
        Figure.median(section, f"Spark streaming {PROCESS.name}", "s", [peer_seconds]),
        Figure.ratio(section, "Spark streaming / mixed, whole run", peer, run, at_least=20.0),
        Figure.ratio(section, "Spark streaming / mixed, backlog epoch", peer, epoch, at_least=20.0),
    )
    ours, theirs = ([epoch.seconds for epoch in epochs] for epochs in live)
    section = f"Process function, live epochs of {scale.process_epoch:,} events"
    report.add(
        Figure.median(section, "mixed", "s", ours),
        Figure.median(section, f"Spark streaming {PROCESS.name}", "s", theirs),
        Figure.ratio(section, "Spark streaming / mixed", [statistics.median(theirs)] * len(ours), ours, at_least=10.0),
    )


def _feed(scale: Scale, epochs: int, waiting: Path, source: Path) -> Feed:
    return Feed(write_feed(waiting, [scale.process_epoch] * epochs, keys=scale.process_keys), source)


def _copy_of(history: Path, folder: Path) -> Path:
    """A source that can be fed."""
    return linked(list(history.iterdir()), folder)


def _check_answers(name: str, source: Path, rows: pa.Table) -> None:
    """The last values of each key are those of all that the source holds in the end."""
    with duckdb.connect() as database:
        database.read_parquet(f"{source}/*.parquet").create_view("events")
        database.register("rows", rows)
        found = database.execute(_DIFFERENCES).fetchone()
    assert found == (0,), f"{name} gave other last values for some keys: {found}"


def _shown(epochs: list[LiveEpoch]) -> str:
    return ", ".join(f"{epoch.seconds:.2f}" for epoch in epochs)
