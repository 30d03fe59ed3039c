"""Nexmark's queries as workloads: a job file, the SQL that says what is right, and Spark's own queries.

All read one data set, most of them its bids. `Size.events` counts events of all three kinds, of which 46 in 50 are
bids; `Size.keys` is the number of auctions, which follows from it: asking for another one changes nothing.
"""

from collections.abc import Mapping
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path

from mixedmode.job import Job
from mixedmode_bench.nexmark.files import SIDE_INPUT, TABLES, write_events
from mixedmode_bench.nexmark.generator import EPOCH_AUCTIONS, EPOCH_EVENTS, Settings
from mixedmode_bench.nexmark.spark import APPENDING, BATCH, STREAMING
from mixedmode_bench.workload import Mode, Size, SparkStreaming, Workload, answers_in, in_spark

EVENTS = 5_000_000  # 560 MB of files, and 83 minutes of event time
DATA_VERSION = 2  # counted up by whoever changes what the generator makes
#: of query 8, whose windows are of both tables
_OPEN_STARTS = """
    starttime + INTERVAL '10 seconds' >= (
        SELECT min(newest) FROM (SELECT max(dateTime) AS newest FROM person UNION ALL SELECT max(dateTime) FROM auction)
    ) - INTERVAL '4001 milliseconds'
"""
_QUERIES = files("mixedmode_bench.nexmark") / "queries"
#: windows that the watermark has not reached, which is four seconds behind, and for Spark in whole milliseconds
_OPEN = "window_end >= (SELECT max(dateTime) FROM bid) - INTERVAL '4001 milliseconds'"

#: of query 7, whose rows are bids: those of such windows
_NEAR_OPEN = "dateTime >= (SELECT max(dateTime) FROM bid) - INTERVAL '14001 milliseconds'"


def write(folder: Path, size: Size) -> None:
    """The data that all queries read."""
    write_events(folder, size.events, Settings())


def job_of(query: str, data: Path, work: Path, mode: Mode) -> Job:
    """The job file of a query, with its places and its mode put in."""
    places = {
        "execution.runtime-mode": mode,
        "execution.checkpointing.dir": work / "checkpoints",
        "sink.path": answers_in(work),
    }
    with as_file(_QUERIES / f"{query}.yaml") as path:
        text = path.read_text(encoding="utf-8")
        paths = {f"sources.{name}.path": data / name for name in TABLES}
        paths[f"dimensions.{SIDE_INPUT}.path"] = data / SIDE_INPUT
        places |= {key: path for key, path in paths.items() if f"{key}=" in text}
        return Job.from_file(path, [f"{key}={value}" for key, value in places.items()])


def _workload(
    query: str, title: str, key: tuple[str, ...], *, has_windows: bool = False, may_lack: str = "false"
) -> Workload:
    answer = (_QUERIES / f"{query}.sql").read_text(encoding="utf-8")
    streaming = SparkStreaming(in_spark(answer), "append") if query in APPENDING else STREAMING.get(query)
    return Workload(
        name=f"nexmark-{query}",
        title=f"Nexmark {query}: {title}",
        size=Size(EVENTS, EVENTS // EPOCH_EVENTS * EPOCH_AUCTIONS),
        write=write,
        job=partial(job_of, query),
        key=key,
        answer=answer,
        spark_batch=BATCH.get(query) or in_spark(answer),
        spark_streaming=streaming,
        may_lack=_OPEN if has_windows else may_lack,
        data="nexmark",
        version=DATA_VERSION,
    )


_ALL = (
    _workload("q0", "bids as they are", ("dateTime",)),
    _workload("q1", "prices in euros", ("dateTime",)),
    _workload("q2", "bids for some auctions", ()),
    _workload("q3", "sellers in some states", ("id",)),
    _workload("q4", "average price of a category", ("category",)),
    _workload("q5", "auctions with the most bids", ("window_start", "window_end", "auction"), has_windows=True),
    _workload("q6", "average selling price of a seller", ("seller",)),
    _workload("q7", "highest bids", (), may_lack=_NEAR_OPEN),
    _workload("q8", "new sellers", ("id", "starttime"), may_lack=_OPEN_STARTS),
    _workload("q9", "winning bids", ("id",)),
    _workload("q10", "bids in folders by minute", ("dateTime",)),
    _workload("q11", "bids in a session", ("window_start", "window_end", "bidder"), has_windows=True),
    _workload("q12", "bids in ten seconds of processing time", ("bidder",), may_lack="true"),
    _workload("q13", "bids with a bounded side input", ("dateTime",)),
    _workload("q14", "a calculation with a function", ("dateTime",)),
    _workload("q15", "bids, bidders and auctions of a day", ("day",)),
    _workload("q16", "bids, bidders and auctions of a channel and day", ("channel", "day")),
    _workload("q17", "prices per auction and day", ("auction", "day")),
    _workload("q18", "last bid of a bidder for an auction", ("auction", "bidder")),
    _workload("q19", "ten highest bids of an auction", ("auction", "rank")),
    _workload("q20", "bids with their auctions", ("dateTime",)),
    _workload("q21", "numbers of channels", ()),
    _workload("q22", "folders of pages", ()),
    _workload("q23", "bids of sellers", ()),
)

WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in _ALL}
