"""The workloads: data, and a computation over them, for each engine that supports it.

The answer is stated once, as SQL that DuckDB runs; whoever takes part is told what to do in its own way,
and has to give that answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame

from mixedmode.job import Job

Mode = Literal["mixed", "batch", "streaming"]
Frames = Mapping[str, DataFrame]  # by the name of the table


@dataclass(frozen=True, slots=True)
class Size:
    """The amount of data. The workload defines what `keys` counts."""

    events: int
    keys: int

    def at_most(self, events: int) -> "Size":
        """The same data in proportion, with no more than `events`."""
        if self.events <= events:
            return self
        return Size(events, max(1, self.keys * events // self.events))


@dataclass(frozen=True, slots=True)
class SparkStreaming:
    """The same as a streaming query of Spark. In update mode a row replaces the one before it with the same key."""

    query: Callable[[Frames], DataFrame]
    output_mode: Literal["append", "update"] = "update"


@dataclass(frozen=True, slots=True)
class Workload:
    """One thing to compute.

    write:    (folder, size) -> Parquet files in one folder per table below `folder`; a function of the size alone.
    job:      (folder of the data, folder of all that the job writes, mode) -> this program's job. It writes to
              `answers_in(work)`.
    key:      the columns that tell the rows of the answer apart; () if it may hold a row twice.
    answer:   DuckDB's SQL over the tables, which are views. Its columns are named and ordered as those of the job.
              Where Spark understands the text, too, it is also Spark's query: see `in_spark`.
    may_lack: a predicate over rows of the answer, and the tables: rows that a run over an input without an end may not
              have given yet, such as windows beyond the watermark.
    feed:     (folder, size) -> files of the first table, in the order in which they are let in when the job is live,
              one per epoch. Their rows belong to the answer.
    data:     a name for what `write` writes, if other workloads of this name have the same data; else None.
    version:  of what `write` and `feed` write; another one makes data that are kept from earlier runs worthless.
    """

    name: str
    title: str
    size: Size
    write: Callable[[Path, Size], None]
    job: Callable[[Path, Path, Mode], Job]
    key: tuple[str, ...]
    answer: str
    spark_batch: Callable[[Frames], DataFrame] | None = None
    spark_streaming: SparkStreaming | None = None
    flink: str | None = None  # the name of its program
    may_lack: str = "false"
    feed: Callable[[Path, Size], list[Path]] | None = None
    data: str | None = None
    version: int = 1


def in_spark(sql: str) -> Callable[[Frames], DataFrame]:
    """Return SQL as a query of Spark over tables, which become views, or over streams."""

    def query(frames: Frames) -> DataFrame:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        return next(iter(frames.values())).sparkSession.sql(sql)

    return query


def answers_in(work: Path) -> Path:
    """Return the folder of a job's output."""
    return work / "out"
