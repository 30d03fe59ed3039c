"""A contestant: an engine in one mode, in a process of its own, which runs a job on request and reports its figures.

Everyone is started before the first round and stays, so that every round but the first is warm; the
rounds take turns, so that the noise of the machine falls on all of them alike.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

import pyarrow as pa

from mixedmode_bench.workload import Size, Workload


@dataclass(frozen=True, slots=True)
class Task:
    """One run over the data in `data`, which are there. All that it writes goes to `work`, which is empty.

    waiting: the files of the workload's feed, which no run may change: link them where the run reads.
    """

    workload: Workload
    size: Size
    data: Path
    work: Path
    waiting: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class EpochSpan:
    """One epoch, micro-batch or run: what came of it between two moments, in seconds since the run began."""

    start_s: float
    end_s: float
    events: int
    is_backlog: bool = False

    @property
    def seconds(self) -> float:
        """The duration."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Outcome:
    """The time of a run. `parts`: seconds by name, which add up to the whole run or stand for themselves.

    `epochs` in order, if it has any; `profile`: seconds of work by stage, added up over all tasks, if it knows.
    """

    seconds: float
    parts: Mapping[str, float] = field(default_factory=dict)
    epochs: tuple[EpochSpan, ...] = ()
    profile: Mapping[str, float] = field(default_factory=dict)


class Contestant(Protocol):
    """One of them. Made in the process that measures, to ask `missing` and `takes`; the rest is called in its own."""

    name: ClassVar[str]  # as on the command line: "mixed", "spark-streaming"
    title: ClassVar[str]  # as in a table: "Spark Structured Streaming, RocksDB with changelog"
    #: by workload, "" for all others: more would take too long, so it runs a part, and events per second are compared
    events_max: ClassVar[Mapping[str, int]] = {}

    @abstractmethod
    def missing(self) -> str | None:
        """Return the missing software and how to get it; None if the contestant can run here."""

    @abstractmethod
    def takes(self, workload: Workload) -> bool:
        """Return whether this contestant can compute the workload."""

    @abstractmethod
    def start(self, scratch: Path, cores: int) -> None:
        """Start a session, a server, a compiled program; not measured. Everything temporary goes to `scratch`."""

    @abstractmethod
    def prepare(self, task: Task) -> None:
        """Prepare the data, not measured: convert them to another format, or create views over them."""

    @abstractmethod
    def run(self, task: Task) -> Outcome:
        """The measured part."""

    @abstractmethod
    def free_memory(self) -> None:
        """Free memory after each run, not measured: the machine may not hold the heaps of all contestants."""

    @abstractmethod
    def answer(self, task: Task) -> pa.Table:
        """Return the final output of the last run, one row per key. Not measured."""

    @abstractmethod
    def close(self) -> None:
        """Ends what `start` began."""
