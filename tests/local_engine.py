"""The engine without Spark: a real start of a job, whose micro-batches, tasks and shuffle are local and deterministic.

Real are run_job with its checks, the phases, the epoch loop, the map side, the subtasks with their state and replicas,
the checkpoint folder and the sinks. Replaced are the analysis (mixedmode/testing/local_plan.py), the streaming query
(tests/walk/spark_log.py), and what Spark does between the tasks (mixedmode/executor/local.py).
"""

import json
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from typing_extensions import override

from mixedmode.analysis.job import Analysis
from mixedmode.config import JobSpec, SourceSpec
from mixedmode.driver.engine import Engine
from mixedmode.driver.epochs import StopRequested
from mixedmode.driver.inputs import Inputs
from mixedmode.executor.local import LocalExecutor
from mixedmode.executor.protocol import EpochResult, EpochTask, Executor, StageSettings
from mixedmode.expressions import Call, Column, Query
from mixedmode.job import Job
from mixedmode.plan.keyed_operators import Where
from mixedmode.sources.source import Admission
from mixedmode.spark.file_lengths import FileState
from mixedmode.state import merging
from mixedmode.testing.local_plan import local_plan
from mixedmode.time.window_range import WindowRange
from tests.harness import Feed, Recording, run
from tests.walk.spark_log import SparkQuery


def compared(kind: str, left: str, right: str) -> Query:
    """Return the condition that compares two columns of longs."""
    columns = (Column(left, pa.int64()), Column(right, pa.int64()))
    return Query((*columns, Call(kind, (0, 1), pa.bool_())), (), (("_condition", 2),))


TIMED = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.timestamp("us", "UTC"))])


#: {condition of a join: what Spark's analysis makes of it}; tests/analysis/test_join_conditions.py compares both
CONDITIONS: dict[str, Query] = {
    "left.amount < right.amount": compared("LessThan", "left.amount", "right.amount"),
    "left.v <= right.n": compared("LessThanOrEqual", "left.v", "right.n"),
    "left.v <> right.v OR right.n IS NULL": Query(
        (
            Column("left.v", pa.int64()),
            Column("right.v", pa.int64()),
            Call("EqualTo", (0, 1), pa.bool_()),
            Call("Not", (2,), pa.bool_()),
            Column("right.n", pa.int64()),
            Call("IsNull", (4,), pa.bool_()),
            Call("Or", (3, 5), pa.bool_()),
        ),
        (),
        (("_condition", 6),),
    ),
}


@dataclass
class World:
    """Everything outside of the job: the files that exist, and what happens to its tasks.

    `step` is called around each write of Spark's log. `handed` remembers which files were passed as which epoch. Of the
    subtasks in `lost`, the first attempt in the next epoch does all its work and is lost at its very end. `fan_in` is
    that of merges of runs.
    """

    files: dict[str, pa.Table] = field(default_factory=dict)
    step: Callable[[], None] = lambda: None
    handed: dict[int, tuple[str, ...]] = field(default_factory=dict)
    lost: AbstractSet[int] = frozenset()
    fan_in: int = merging.FAN_IN


#: in the place of Spark's context in the JVM
_RUNNING = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))


@dataclass(frozen=True, slots=True)
class LocalSession:
    """In the place of a SparkSession."""

    world: World
    next_command: Callable[[], str]
    streams: Any = field(default_factory=lambda: SimpleNamespace(active=()))
    sparkContext: Any = field(default_factory=lambda: SimpleNamespace(defaultParallelism=2, _jsc=_RUNNING))  # noqa: N815


def local_session(world: World, next_command: Callable[[], str] | None = None) -> SparkSession:
    """A session as far as a run with a LocalEngine needs one.  next_command: called by each trigger of a live query."""
    session: Any = LocalSession(world, next_command or _no_command)
    return cast("SparkSession", session)


def run_locally(
    job: Job,
    folder: Path,
    *,
    feed: Iterable[Feed] = (),
    read: Callable[[Path], pa.Table] = pq.read_table,
    **options: Any,
) -> Recording:
    """One start of a job over the files in a folder, as `tests.harness.run` but without Spark. `read`: reads a file."""
    world = World()

    def look() -> None:
        for path in sorted(folder.glob("[!.]*"), key=lambda path: path.stat().st_mtime):
            if path.name not in world.files:
                world.files[path.name] = read(path)

    def let_in(one: Feed) -> None:
        one()
        look()

    look()
    session = local_session(world)
    return run(job, session, feed=[partial(let_in, one) for one in feed], engine=LocalEngine, **options)


def timed_records(file: Path) -> pa.Table:
    """Return the records of JSON lines with the columns `k string, v bigint, at timestamp`."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows = [{**row, "at": datetime.fromisoformat(row["at"]).replace(tzinfo=UTC)} for row in rows]
    return pa.Table.from_pylist(rows, TIMED)


def _no_command() -> str:
    msg = "nothing is run in this session"
    raise AssertionError(msg)


@dataclass(frozen=True, slots=True)
class LocalEngine(Engine):
    """In the place of Spark, in a session of `local_session`."""

    @override
    def active(self) -> AbstractContextManager[None]:
        return nullcontext()

    @override
    def check(self) -> None:
        pass  # there is no other Python

    @override
    def analyse(self, spec: JobSpec, where: Where, *, within: WindowRange | None = None) -> Analysis:
        assert within is None, "needs Spark"
        return Analysis(local_plan(spec, where, CONDITIONS), {})

    @override
    def inputs(self, spec: JobSpec, analysis: Analysis) -> Inputs:
        return LocalInputs(self.session, spec, analysis.plan, analysis.sources)

    @override
    def executor(self, analysis: Analysis) -> Executor[DataFrame]:
        return _OfFrames(self._world)

    @override
    def figures(self) -> None:
        return None

    @property
    def _world(self) -> World:
        session: Any = self.session
        world: World = session.world
        return world


class LocalInputs(Inputs):
    """The files of a world, in the place of Spark's sources."""

    @property
    def _local(self) -> LocalSession:
        return cast("LocalSession", cast("Any", self.session))

    @override
    def batch(self) -> DataFrame:
        return LocalFrame(self._local, tuple(self._local.world.files)).as_frame()

    @override
    def stream(self, admission: Callable[[SourceSpec], Admission]) -> DataFrame:
        source = next(iter(self._spec.sources.values()))
        files_max, has_clock = admission(source).max_files, self._plan.uses_clock
        return LocalFrame(self._local, files_max=files_max, has_clock=has_clock).as_frame()

    @override
    def line_sources(self) -> tuple[int, ...]:
        return (0,)

    @override
    def present(self, urls: Sequence[str]) -> dict[str, FileState]:
        missing = [url for url in urls if url not in self._local.world.files]
        assert not missing, missing
        return dict.fromkeys(urls, (1, 1))

    @override
    def settings(self, *given: Any, **named: Any) -> StageSettings:
        return replace(super().settings(*given, **named), fan_in=self._local.world.fan_in)


@dataclass(frozen=True, slots=True)
class LocalFrame:
    """In the place of a DataFrame of the source: names of files, or None for the streaming one.

    `files_max`: the most files of a micro-batch. `has_clock`: the job also reads the clock.
    """

    sparkSession: LocalSession  # noqa: N815 - as Spark calls it
    names: Sequence[str] | None = None
    files_max: int | None = None
    has_clock: bool = False

    def as_frame(self) -> DataFrame:
        """Return itself, for callers that expect Spark's."""
        return cast("DataFrame", cast("Any", self))

    @property
    def writeStream(self) -> "LocalWriter":  # noqa: N802 - as Spark calls it
        """A query over it."""
        return LocalWriter(self.sparkSession, self.files_max, has_clock=self.has_clock)


@dataclass(frozen=True, slots=True)
class _OfFrames:
    """A LocalExecutor for local frames: each file is a map task."""

    world: World

    def run_epoch(self, task: EpochTask, rows: DataFrame | None) -> EpochResult:
        frame: Any = rows
        tables = None if frame is None else self._by_source(task.plan.sources_read, frame.names)
        return LocalExecutor(self.world.lost).run_epoch(task, tables)

    def _by_source(self, sources: Sequence[str], names: Sequence[str]) -> dict[str, list[pa.Table]]:
        """Return {source: its files}. In a job with several sources, a file `<source>/<name>` is of this source."""
        found: dict[str, list[pa.Table]] = {source: [] for source in sources}
        for name in names:
            source = name.partition("/")[0] if "/" in name else sources[0]
            if source in found:
                found[source].append(self.world.files[name])
        return found


class LocalWriter:
    """In the place of a DataStreamWriter, and of the StreamingQuery that it starts."""

    def __init__(self, session: LocalSession, files_max: int | None, *, has_clock: bool) -> None:
        self.id = object()
        self.status = {"isTriggerActive": False}
        self._session = session
        self._files_max = files_max
        self._has_clock = has_clock
        self._is_stopped = False

    def foreachBatch(self, handler: Callable[[LocalFrame, int], None]) -> "LocalWriter":  # noqa: N802
        """Keep the function that gets each micro-batch."""
        self._handler = handler
        return self

    def queryName(self, _name: str) -> "LocalWriter":  # noqa: N802
        """Ignore the name."""
        return self

    def option(self, name: str, value: str) -> "LocalWriter":
        """Keep the checkpoint folder, the only option."""
        assert name == "checkpointLocation", name
        self._folder = Path(value.removeprefix("file://"))
        return self

    def trigger(self, **trigger: Any) -> "LocalWriter":
        """Keep whether the query runs live."""
        self._is_live = "availableNow" not in trigger
        return self

    def start(self) -> "LocalWriter":
        """Start the query over the files that exist now, and return it."""
        step = self._session.world.step
        self._query = SparkQuery(self._folder, step, self._files_max, has_clock=self._has_clock)
        self._present = list(self._session.world.files)
        return self

    def awaitTermination(self, _seconds: float) -> bool:  # noqa: N802
        """Return whether the query has ended. A live query runs one trigger per call."""
        if self._is_stopped:
            return True
        if self._is_live:
            if self._session.next_command() == "epoch":
                self._query.run_batch(self._session.world.files, self._hand_over)
            return False
        while self._query.run_batch(self._present, self._hand_over):
            pass
        return True

    def stop(self) -> None:
        """End the query."""
        self._is_stopped = True

    def _hand_over(self, epoch: int, names: Sequence[str]) -> None:
        self._session.world.handed[epoch] = tuple(names)
        try:
            self._handler(LocalFrame(self._session, names), epoch)
        except StopRequested as error:
            raise PySparkException(str(error)) from error  # as Spark wraps what foreachBatch raises
        except BaseException as error:
            if isinstance(error, Exception):
                raise
            msg = "Py4J answers Spark only after an Exception, so Spark would wait for ever"
            raise AssertionError(msg) from error
