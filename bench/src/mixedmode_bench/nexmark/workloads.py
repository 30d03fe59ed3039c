"""Nexmark's queries as workloads: a job file, the SQL that says what is right, and Spark's own queries.

All ten read the bids of one data set. `Size.events` counts events of all three kinds, of which 46 in 50 are bids;
`Size.keys` is the number of auctions, which follows from it: asking for another one changes nothing.
"""

from collections.abc import Callable, Mapping
from importlib.resources import as_file, files
from pathlib import Path

from mixedmode.job import Job
from mixedmode_bench.nexmark.files import write_events
from mixedmode_bench.nexmark.generator import EPOCH_AUCTIONS, EPOCH_EVENTS, Settings
from mixedmode_bench.nexmark.spark import BATCH, STREAMING
from mixedmode_bench.workload import Mode, Size, Workload, answers_in

EVENTS = 5_000_000  # 560 MB of files, and 83 minutes of event time
DATA_VERSION = 1  # counted up by whoever changes what the generator gives
_QUERIES = files("mixedmode_bench.nexmark") / "queries"
#: windows that the watermark has not reached, which is four seconds behind, and for Spark in whole milliseconds
_OPEN = "window_end >= (SELECT max(dateTime) FROM bid) - INTERVAL '4001 milliseconds'"


def write(folder: Path, size: Size) -> None:
    """The data that all queries read."""
    write_events(folder, size.events, Settings())


def job_of(query: str, data: Path, work: Path, mode: Mode) -> Job:
    """The job file of a query, with its places and its mode put in."""
    places = {
        "execution.runtime-mode": mode,
        "execution.checkpointing.dir": work / "checkpoints",
        "sources.bid.path": data / "bid",
        "sink.path": answers_in(work),
    }
    with as_file(_QUERIES / f"{query}.yaml") as path:
        return Job.from_yaml(path, [f"{key}={value}" for key, value in places.items()])


def _job(query: str) -> Callable[[Path, Path, Mode], Job]:
    return lambda data, work, mode: job_of(query, data, work, mode)


def _workload(query: str, title: str, key: tuple[str, ...], *, has_windows: bool = False) -> Workload:
    return Workload(
        name=f"nexmark-{query}",
        title=f"Nexmark {query}: {title}",
        size=Size(EVENTS, EVENTS // EPOCH_EVENTS * EPOCH_AUCTIONS),
        write=write,
        job=_job(query),
        key=key,
        answer=(_QUERIES / f"{query}.sql").read_text(encoding="utf-8"),
        spark_batch=BATCH[query],
        spark_streaming=STREAMING.get(query),
        may_lack=_OPEN if has_windows else "false",
        data="nexmark",
        version=DATA_VERSION,
    )


_ALL = (
    _workload("q0", "bids as they are", ("dateTime",)),
    _workload("q1", "prices in euros", ("dateTime",)),
    _workload("q2", "bids for some auctions", ()),
    _workload("q5", "auctions with the most bids", ("window_start", "window_end"), has_windows=True),
    _workload("q7", "highest bid", ("window_start", "window_end"), has_windows=True),
    _workload("q11", "bids in a session", ("window_start", "window_end", "bidder"), has_windows=True),
    _workload("q15", "bids, bidders and auctions of a day", ("day",)),
    _workload("q17", "prices per auction and day", ("auction", "day")),
    _workload("q18", "last bid of a bidder for an auction", ("auction", "bidder")),
    _workload("q19", "ten highest bids of an auction", ("auction", "rank")),
)

WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in _ALL}
