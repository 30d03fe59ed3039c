"""Jobs in a test: a folder of inputs that grows, a run with a recording observer, and the answer as plain Python.

`feed` holds the files of the live part. The recording lets one in when the job goes live and one more
after each live epoch, so a whole history-flip-live story is one run without threads and without waiting.
"""

import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Manifest
from mixedmode.clock import Clock
from mixedmode.driver.engine import Engine
from mixedmode.driver.events import (
    EpochCommitted,
    EpochFailed,
    EpochStarted,
    Event,
    Flipped,
    Notice,
    Phase,
    PhaseBegan,
    PublishedLate,
    Rescaled,
    RescaleIgnored,
    SparkLogRepaired,
    WentBack,
)
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.job import Job
from mixedmode.sinks.table import current_table

#: the embedded Spark of the tests: two cores, little memory. Queries are interpreted, because compiling them takes
#: longer than a test's few rows; tests/faults runs with the settings that a user has.
SPARK: dict[str, str | int | float | bool] = {
    "master": "local[2]",
    "driver.memory": "1g",
    "ui.enabled": False,
    "sql.shuffle.partitions": 2,
    "sql.sources.parallelPartitionDiscovery.threshold": 10_000,  # tasks take longer for a few files
    "sql.codegen.wholeStage": False,
    "sql.codegen.factoryMode": "NO_CODEGEN",
}

#: for tests in which one case is a run on Spark: drawing the data may take long, and shrinking it is worth the time
SPARK_CASES = settings(
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)

E = TypeVar("E")

Row = dict[str, Any]
Feed = Callable[[], object]  # lets the next input in

_arrivals = itertools.count(1_600_000_000)  # modification times, in the order in which files are written


class ManualClock:
    """A clock that a test sets; the stopwatch advances by a second with every look."""

    def __init__(self, now_ms: int = 1_000_000_000_000) -> None:
        self.time_ms = now_ms
        self._seconds = 0.0

    def now_ms(self) -> int:
        return self.time_ms

    def seconds(self) -> float:
        self._seconds += 1.0
        return self._seconds


@dataclass
class HandClock:
    """A clock that stands still until a test moves it. `at`: seconds since 1970."""

    at: float = 100.0

    def now_ms(self) -> int:
        return int(self.at * 1000)

    def seconds(self) -> float:
        return self.at


class ObserverFailedError(BaseException):
    """An error of a test's observer. A run survives every Exception of its observers, and a test shall not."""


@dataclass
class Recording:
    """An observer that remembers, and lets the live inputs in one by one (see the module)."""

    feed: list[Feed] = field(default_factory=list)
    on_commit: Callable[[EpochCommitted], object] | None = None
    events: list[Event] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        try:
            self.tell(event)
        except Exception as error:
            raise ObserverFailedError from error

    def tell(self, event: Event) -> None:
        """Take one event."""
        self.events.append(event)
        if isinstance(event, EpochCommitted) and self.on_commit is not None:
            self.on_commit(event)
        if event == PhaseBegan("live") or (isinstance(event, EpochCommitted) and "live" in self.phases):
            self._let_in()

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def phases(self) -> list[Phase]:
        return [event.phase for event in self.of(PhaseBegan)]

    @property
    def started(self) -> list[EpochStarted]:
        return self.of(EpochStarted)

    @property
    def committed(self) -> list[EpochCommitted]:
        return self.of(EpochCommitted)

    @property
    def flips(self) -> list[Flipped]:
        return self.of(Flipped)

    @property
    def rescaled(self) -> list[Rescaled]:
        return self.of(Rescaled)

    @property
    def ignored(self) -> list[str]:
        return [event.reason for event in self.of(RescaleIgnored)]

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.of(Notice)]

    @property
    def failed(self) -> list[EpochFailed]:
        return self.of(EpochFailed)

    @property
    def went_back(self) -> list[WentBack]:
        return self.of(WentBack)

    @property
    def repaired(self) -> list[SparkLogRepaired]:
        return self.of(SparkLogRepaired)

    @property
    def published_late(self) -> list[PublishedLate]:
        return self.of(PublishedLate)

    def _let_in(self) -> None:
        if self.feed:
            self.feed.pop(0)()


def run(
    job: Job,
    spark: SparkSession,
    *,
    until: Until = Until.IDLE,
    clock: Clock | None = None,
    feed: Iterable[Feed] = (),
    observer: Recording | None = None,
    engine: Callable[[SparkSession], Engine] = Engine,
) -> Recording:
    """One start of a job, to its end. Returns what it told its observer; all of `feed` has been let in."""
    recording = observer or Recording(feed=list(feed))
    options = RunOptions(until=until, observers=[recording], clock=clock or ManualClock(), session=spark, engine=engine)
    run_job(job.spec, job.where, options)
    assert not recording.feed, f"the run ended before {len(recording.feed)} inputs were let in"
    return recording


def write_parquet(folder: Path, name: str, table: pa.Table) -> Path:
    """A Parquet file that appears in `folder` whole, newer than all that were written before."""
    draft = _draft(folder, name)
    pq.write_table(table, draft)
    return _arrive(draft, folder / name)


def write_json(folder: Path, name: str, rows: Iterable[Mapping[str, Any]]) -> Path:
    """A file of one JSON object a line, as write_parquet."""
    return write_text(folder, name, "".join(f"{json.dumps(row)}\n" for row in rows))


def write_text(folder: Path, name: str, text: str) -> Path:
    """A text file, as write_parquet."""
    draft = _draft(folder, name)
    draft.write_text(text, encoding="utf-8")
    return _arrive(draft, folder / name)


def _draft(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f".{name}.draft"


def _arrive(draft: Path, path: Path) -> Path:
    """Spark takes files in the order of their times; a fixed step apart, so that a test knows which epoch has which."""
    seconds = next(_arrivals)
    os.utime(draft, (seconds, seconds))
    return draft.rename(path)


def output_table(folder: Path | str) -> pa.Table:
    """The current table of an output folder."""
    table = current_table(str(folder))
    assert table is not None, f"no output in {folder}"
    return table.rows


def output_rows(folder: Path | str) -> list[Row]:
    """The current table of an output folder, row by row."""
    rows: list[Row] = output_table(folder).to_pylist()
    return rows


def output_changes(folder: Path) -> list[Row]:
    """Every row of a Parquet output, epoch by epoch, as any reader of the folder sees them."""
    tables = [pq.read_table(path) for path in sorted(folder.glob("part-*.parquet"))]
    return [row for table in tables for row in table.to_pylist()]


def checkpoint_log(folder: Path | str) -> CheckpointLog:
    """The log of a checkpoint folder."""
    return CheckpointLog(ObjectStore(str(folder)))


def manifests(folder: Path | str) -> Sequence[Manifest]:
    """All manifests of a checkpoint folder, oldest first."""
    log = checkpoint_log(folder)
    found = [log.get(epoch) for epoch in log.epochs()]
    return [manifest for manifest in found if manifest is not None]
