"""Spark's transformWithState in Python, RocksDB: what a user writes today whose state is no plain aggregate.

It takes all that is there in one micro-batch, which suits it better than many. With `initialState`, Spark's batch query
computes the state over all files but the last one, the processor takes it over key by key, and the last file streams:
Spark's own way from a history to a live query.
"""

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from typing_extensions import override

from mixedmode_bench.contestant import Outcome, Task
from mixedmode_bench.events import EVENTS
from mixedmode_bench.spark import StreamingQueryContestant, newest_rows
from mixedmode_bench.tws_processor import OUTPUT_DDL, CountAndSum
from mixedmode_bench.workload import Frames, Workload, answers_in


class TransformWithState(StreamingQueryContestant):
    """A processor that counts and sums."""

    name: ClassVar[str] = "transform-with-state"
    title: ClassVar[str] = "Spark transformWithState, Python, RocksDB"
    events_max: ClassVar[Mapping[str, int]] = {"count-sum": 1_000_000, "live": 200_000}  # 40,000 and 5,000 a second

    @override
    def missing(self) -> str | None:
        if find_spec("google") is None or find_spec("google.protobuf") is None:
            return "the package protobuf: pip install ./bench, in mixedmode's repository"
        return super().missing()

    @override
    def takes(self, workload: Workload) -> bool:
        """Return whether the processor can compute the workload."""
        return workload.name in {"count-sum", "live"}

    @override
    def query(self, workload: Workload, frames: Frames) -> DataFrame:  # one program for all it takes
        return frames[EVENTS].groupBy("k").transformWithState(CountAndSum(), OUTPUT_DDL, "Update", "None")


class TransformWithStateInitial(TransformWithState):
    """The same processor, which begins with the state that a batch query computed. That query is part of the run."""

    name: ClassVar[str] = "transform-with-state-initial"
    title: ClassVar[str] = "Spark transformWithState, Python, RocksDB, with initialState"
    events_max: ClassVar[Mapping[str, int]] = {"count-sum": 1_000_000}  # an eighth of them stream

    @override
    def takes(self, workload: Workload) -> bool:
        return workload.name == "count-sum"

    @override
    def query(self, workload: Workload, frames: Frames) -> DataFrame:  # as above
        state = self._before.groupBy("k")
        return frames[EVENTS].groupBy("k").transformWithState(CountAndSum(), OUTPUT_DDL, "Update", "None", state)

    @override
    def run(self, task: Task) -> Outcome:
        *history, last = sorted((task.data / EVENTS).iterdir())
        rest = task.work / "rest"
        (rest / EVENTS).mkdir(parents=True)
        (rest / EVENTS / last.name).symlink_to(last.resolve())
        assert task.workload.spark_batch is not None, task.workload.name
        events = self.session.read.schema(self.schemas(task)[EVENTS]).parquet(*map(str, history))
        self._before = task.workload.spark_batch({EVENTS: events})
        self._schemas[rest] = self.schemas(task)
        return super().run(replace(task, data=rest))

    @override
    def answer(self, task: Task) -> pa.Table:
        """Return what the query wrote, and the keys that only its initial state has."""
        given = newest_rows(answers_in(task.work), task.workload.key)
        before = self._before.toArrow()
        is_kept = pc.invert(pc.is_in(before.column("k"), given.column("k").combine_chunks()))
        return pa.concat_tables([given, before.filter(is_kept).cast(given.schema)])
