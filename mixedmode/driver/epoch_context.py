"""The parts of a run that stay the same for all of its epochs, and the input of one epoch."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from mixedmode.checkpoint.decide import EpochPolicy, Mode
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.types import Generation, SourceLog
from mixedmode.clock import Clock
from mixedmode.config import JobSpec
from mixedmode.driver.aside import Aside
from mixedmode.driver.backlogs import SourceBacklogs
from mixedmode.driver.dead_letters import DeadLetters, FilesOf
from mixedmode.driver.events import Observer
from mixedmode.driver.expired_records import ExpiredRecords
from mixedmode.driver.input_records import InputRecords
from mixedmode.driver.range_reads import RangeReads
from mixedmode.driver.reading_checks import ReadingChecks
from mixedmode.driver.topic_ids import TopicIds
from mixedmode.executor.protocol import EpochTask, Executor
from mixedmode.plan.job_plan import JobPlan
from mixedmode.sinks import Sinks
from mixedmode.spark.file_lengths import FileState
from mixedmode.spark.folder import SparkFolder

__all__ = ["EpochContext", "EpochInput"]


@dataclass(frozen=True, slots=True)
class EpochContext:
    """Everything that stays the same for all epochs of a run.

    `stop`: set when the run shall end after the current epoch. `log_file`: of Spark. `line_sources`: for each line of
    Spark's offset entries, the number of its source. `present`: returns {input file that exists: its state}.
    `files_of`: returns {source: its files of an epoch}.
    """

    spec: JobSpec
    plan: JobPlan
    executor: Executor[DataFrame]
    log: CheckpointLog
    generation: Generation
    sinks: Sinks
    mode: Mode
    clock: Clock
    observer: Observer
    stop: threading.Event
    log_file: str
    spark_folder: SparkFolder
    dead_letters: DeadLetters
    backlogs: SourceBacklogs
    line_sources: Sequence[int]
    present: Callable[[Sequence[str]], Mapping[str, FileState]]
    files_of: Callable[[FilesOf], Mapping[str, tuple[str, ...]]]
    records: InputRecords
    aside: Aside
    topic_ids: TopicIds
    expired: ExpiredRecords
    reading_checks: ReadingChecks
    ranges: RangeReads


@dataclass(frozen=True, slots=True)
class EpochInput:
    """The input of one epoch, and its task. `frame` is None when the input has ended.

    `source_logs` are for the manifest.
    """

    session: SparkSession
    frame: DataFrame | None
    task: EpochTask
    policy: EpochPolicy
    offsets: str
    source_logs: tuple[SourceLog, ...] = ()
    files: FilesOf = ()
