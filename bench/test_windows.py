"""Windows: mixed mode against Spark's own aggregate over windows, in backlog and live, in one session.

In each round the two take turns. Spark's query is measured in append and in update mode in the first round; from then
on the better one of them is its.
"""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.conftest import Say
from bench.feed import Feed, LiveEpoch
from bench.folders import emptied, first_file_of
from bench.ours import BacklogRun, output_of, run_backlog, run_live, window_job
from bench.peers import WINDOWS_APPEND, WINDOWS_UPDATE, Peer, run_streaming, run_streaming_live
from bench.report import Figure, Report
from bench.workload import DISORDER_US, WINDOW_US, Scale, write_timed_feed
from mixedmode.sinks.table import current_table

LARGE_EPOCHS, SMALL_EPOCHS = 3, 5

# Both give windows up to the watermark, which is the greatest time minus the bound.
_CREATE_EXPECTED = f"""
    CREATE TABLE expected AS
    SELECT start_us, k, count(*) AS n, sum(v) AS total
    FROM (SELECT epoch_us(ts) // {WINDOW_US} * {WINDOW_US} AS start_us, k, v FROM events)
    WHERE start_us + {WINDOW_US} <= (SELECT max(epoch_us(ts)) FROM events) - {DISORDER_US} GROUP BY start_us, k
"""
_CREATE_FOUND = """
    CREATE TABLE found AS
    SELECT epoch_us(window_start) AS start_us, k, arg_max(n, epoch) AS n, arg_max(total, epoch) AS total FROM rows
    GROUP BY start_us, k
"""
# In any order of addition, sums of this size agree to many more digits than this.
_DIFFERENCES = """
    SELECT count(*) FROM found AS a {join} JOIN expected AS b USING (start_us, k)
    WHERE a.n IS DISTINCT FROM b.n OR a.total IS NULL OR abs(a.total - b.total) > 1e-9 * abs(b.total)
"""


def test_windows_against_spark(
    session: SparkSession, timed_history: Path, work: Callable[[], Path], scale: Scale, report: Report, say: Say
) -> None:
    section = f"Tumbling windows of {WINDOW_US // 1_000_000} s, {scale.window_keys:,} keys, backlog"
    ours, folder = list[BacklogRun](), work()
    peers: dict[Peer, list[float]] = {WINDOWS_APPEND: [], WINDOWS_UPDATE: []}
    peer_folders = {peer: work() for peer in peers}
    part = first_file_of(timed_history, work())
    run_backlog(session, window_job(part, work()))
    for peer in peers:
        run_streaming(session, peer, part, work())
    for number in range(scale.rounds):
        say(f"round {number + 1} of {scale.rounds}")
        ours.append(run_backlog(session, window_job(timed_history, emptied(folder))))
        say(f"mixed           {ours[-1].run_seconds:6.2f} s, of which the epoch {ours[-1].epoch.seconds:.2f} s")
        for peer, times in peers.items():
            if number == 0 or peer is _better(peers):
                times.append(run_streaming(session, peer, timed_history, emptied(peer_folders[peer])))
                say(f"{peer.name} {times[-1]:6.2f} s")
    _check_answers(timed_history, folder, peer_folders)
    report.add(*_backlog_figures(section, ours, peers))


def test_live_windows(
    session: SparkSession, timed_history: Path, work: Callable[[], Path], scale: Scale, report: Report, say: Say
) -> None:
    section = f"Tumbling windows of {WINDOW_US // 1_000_000} s, {scale.window_keys:,} keys, live"
    state, sizes = work(), [scale.large_epoch] * (1 + LARGE_EPOCHS) + [scale.small_epoch] * SMALL_EPOCHS
    events_before = pq.read_metadata(min(timed_history.iterdir())).num_rows

    def fed(source: Path) -> Feed:
        waiting = write_timed_feed(work(), sizes, first=events_before, events=scale.events, keys=scale.window_keys)
        return Feed(waiting, source)

    source = first_file_of(timed_history, work())
    _, *ours = run_live(session, window_job(source, state), fed(source))
    say(f"mixed      {_shown(ours)} s")
    source, folder = first_file_of(timed_history, work()), work()
    run_streaming(session, WINDOWS_UPDATE, source, folder)
    _, *peer = run_streaming_live(session, WINDOWS_UPDATE, source, folder, fed(source))
    say(f"streaming  {_shown(peer)} s")
    _check_answers(source, state, {WINDOWS_UPDATE: folder})
    for name, epochs in (("mixed", ours), ("Spark streaming, update mode", peer)):
        large, small = epochs[:LARGE_EPOCHS], epochs[LARGE_EPOCHS:]
        rates, seconds = [epoch.records_per_second for epoch in large], [epoch.seconds for epoch in small]
        report.add(
            Figure.median(section, f"{name}: {scale.large_epoch:,} events an epoch", "/s", rates),
            Figure.median(section, f"{name}: {scale.small_epoch:,} events an epoch", "s", seconds),
        )


def _backlog_figures(section: str, ours: list[BacklogRun], peers: dict[Peer, list[float]]) -> list[Figure]:
    run = [r.run_seconds for r in ours]
    epoch = [r.epoch.seconds for r in ours]
    best = peers[_better(peers)]
    return [
        Figure.median(section, "mixed: the whole run, and a look for more", "s", run),
        Figure.median(section, "mixed: its backlog epoch", "s", epoch),
        *(Figure.median(section, f"Spark streaming {peer.name}", "s", times) for peer, times in peers.items()),
        Figure.ratio(section, "Spark streaming, the better one / mixed, whole run", best, run, at_least=5.0),
        Figure.ratio(section, "Spark streaming, the better one / mixed, backlog epoch", best, epoch, at_least=5.0),
    ]


def _better(peers: dict[Peer, list[float]]) -> Peer:
    return min(peers, key=lambda peer: min(peers[peer], default=float("inf")))


def _check_answers(history: Path, ours: Path, peer_folders: dict[Peer, Path]) -> None:
    """Each has given exactly the windows that are over, with their sums. In update mode, Spark gives open ones, too."""
    with duckdb.connect() as database:
        database.read_parquet(f"{history}/*.parquet").create_view("events")
        database.execute(_CREATE_EXPECTED)
        found = current_table(str(output_of(ours)))
        assert found is not None, "mixed mode wrote no output"
        database.register("ours", found.rows)
        _check(database, "mixed mode", "SELECT *, 0 AS epoch FROM ours", join="FULL")
        for peer, folder in peer_folders.items():
            files = f"SELECT * FROM read_parquet('{folder}/out/*/*.parquet', hive_partitioning=true)"
            _check(database, peer.name, files, join="FULL" if peer.output_mode == "append" else "RIGHT")


def _check(database: duckdb.DuckDBPyConnection, name: str, rows: str, *, join: str) -> None:
    database.execute("DROP TABLE IF EXISTS found")
    database.execute(_CREATE_FOUND.replace("FROM rows", f"FROM ({rows})"))
    row = database.execute(_DIFFERENCES.format(join=join)).fetchone()
    assert row == (0,), f"{name} gave another answer for some windows: {row}"


def _shown(epochs: list[LiveEpoch]) -> str:
    return ", ".join(f"{epoch.seconds:.2f}" for epoch in epochs)
