"""Live epochs over a state of many keys: how many events a second, and how long a small epoch takes end to end."""

from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.conftest import Say
from bench.feed import Feed, LiveEpoch
from bench.folders import linked
from bench.ours import aggregate_job, output_of, run_live
from bench.peers import GROUP_BY, run_streaming, run_streaming_live
from bench.report import Figure, Report
from bench.workload import Scale, write_feed
from mixedmode.sinks.table import current_table

LARGE_EPOCHS, SMALL_EPOCHS = 5, 10
PEER_LARGE_EPOCHS, PEER_SMALL_EPOCHS = 3, 5  # of Spark's query, which has no target

Run = Callable[[SparkSession, Path, Path, Feed], list[LiveEpoch]]


def test_live_epochs(
    session: SparkSession, each_key_once: Path, work: Callable[[], Path], scale: Scale, report: Report, say: Say
) -> None:
    section = f"Live, {scale.live_keys:,} keys of state: from trigger to publication"
    first, *rest = _live(_run_ours, session, each_key_once, work(), scale, (LARGE_EPOCHS, SMALL_EPOCHS))
    large, small = rest[:LARGE_EPOCHS], rest[LARGE_EPOCHS:]
    say(f"mixed      {', '.join(f'{epoch.seconds:.2f}' for epoch in (first, *rest))} s")
    _, *peer = _live(_run_peer, session, each_key_once, work(), scale, (PEER_LARGE_EPOCHS, PEER_SMALL_EPOCHS))
    peer_large, peer_small = peer[:PEER_LARGE_EPOCHS], peer[PEER_LARGE_EPOCHS:]
    say(f"streaming  {', '.join(f'{epoch.seconds:.2f}' for epoch in peer)} s")
    large_name, small_name = f"{scale.large_epoch:,} events an epoch", f"{scale.small_epoch:,} events an epoch"
    report.add(
        Figure.median(section, f"mixed: {large_name}, the first after the flip", "s", _s([first])),
        Figure.median(section, f"mixed: {large_name}", "/s", _per_second(large), at_least=300_000.0),
        Figure.median(section, f"mixed: {small_name}", "s", _s(small), at_most=0.6),
        Figure.median(section, f"Spark streaming groupBy: {large_name}", "/s", _per_second(peer_large)),
        Figure.median(section, f"Spark streaming groupBy: {small_name}", "s", _s(peer_small)),
    )


def _run_ours(session: SparkSession, source: Path, work: Path, feed: Feed) -> list[LiveEpoch]:
    epochs = run_live(session, aggregate_job(source, work), feed)
    found = current_table(str(output_of(work)))
    assert found is not None, "mixed mode wrote no output"
    read = sum(pq.read_metadata(file).num_rows for file in source.glob("*.parquet"))
    counted = pc.sum(found.rows.column("n")).as_py()
    assert counted == read, f"every event is counted once: {counted:,} of {read:,}"
    return epochs


def _run_peer(session: SparkSession, source: Path, work: Path, feed: Feed) -> list[LiveEpoch]:
    run_streaming(session, GROUP_BY, source, work)
    return run_streaming_live(session, GROUP_BY, source, work, feed)


def _live(
    run: Run, session: SparkSession, state: Path, work: Path, scale: Scale, epochs: tuple[int, int]
) -> list[LiveEpoch]:
    """One large epoch to begin with, then the large ones, then the small ones."""
    large, small = epochs
    sizes = [scale.large_epoch] * (1 + large) + [scale.small_epoch] * small
    waiting = write_feed(work / "waiting", sizes, keys=scale.live_keys)
    source = linked(list(state.iterdir()), work / "source")
    return run(session, source, work / "job", Feed(waiting, source))


def _s(epochs: list[LiveEpoch]) -> list[float]:
    return [epoch.seconds for epoch in epochs]


def _per_second(epochs: list[LiveEpoch]) -> list[float]:
    return [epoch.records_per_second for epoch in epochs]
