"""Imports the checkpoint of a query of Spark Structured Streaming: the job goes on where the query has stopped.

The order is: read Spark's logs; plan the job; match sources and steps; check the outputs. Only then is anything
written: the entries of Spark's log, the runs, and the manifest last (checkpoint/imported.py). A row of the state that
cannot be taken over ends the import, and what was written is deleted.
"""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.job import Analysis
from mixedmode.checkpoint import paths
from mixedmode.checkpoint.imported import Imported, begin_import, commit_import, give_up_import, is_imported
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, JobIdentity, Manifest, OperatorState, SourceProgress
from mixedmode.config import JobSpec, resolve_mode
from mixedmode.driver.engine import Engine
from mixedmode.driver.imported_sources import SourceOfSpark, matched_sources, sources_of_spark
from mixedmode.driver.run import open_sinks
from mixedmode.driver.spark_states import operators_of, state_rows
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.stages import KeyedStage
from mixedmode.sinks import Sinks
from mixedmode.sources.sides import HasSides
from mixedmode.spark.errors import errors_explained, innermost
from mixedmode.spark.frames import map_in_arrow
from mixedmode.spark.session import open_session
from mixedmode.spark_state.conversions import Conversion
from mixedmode.spark_state.matching import SparkOperator, check_watermarks, conversions_of, merger_of, pairs_of
from mixedmode.spark_state.progress import SparkProgress, last_committed, progress_of
from mixedmode.tasks.imported_state import ENTRY_DDL, ORDER, REPORT_DDL, SUBTASK, ConvertTask, WriteTask, runs_of
from mixedmode.time import SplitProgress

__all__ = ["ImportedState", "import_state"]

_US_PER_MS = 1000
_PRUNES = "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan"


@dataclass(frozen=True, slots=True)
class ImportedState:
    """The result of an import.

    batch: the last committed one of the query. watermark_ms: its watermark; 0: none. sources: {source: what it has
    read}. entries: {step: the entries of its state}. with_full_snapshot: steps that emit their whole table in the first
    epoch. was_done: the same import had been done before.
    """

    batch: int
    watermark_ms: int
    sources: Mapping[str, str]
    entries: Mapping[str, int]
    with_full_snapshot: frozenset[str]
    was_done: bool


@dataclass(frozen=True, slots=True)
class _Step:
    """A step, the operator of Spark that it is, and how the state of one becomes that of the other."""

    stage: KeyedStage
    operator: SparkOperator
    conversions: Sequence[Conversion]


def import_state(
    place: str,
    spec: JobSpec,
    where: Where,
    *,
    session: SparkSession | None = None,
    engine: Callable[[SparkSession], Engine] = Engine,
) -> ImportedState:
    """Fill the job's empty checkpoint folder from the checkpoint of a query of Spark; the job's next start goes on.

    place: the query's checkpointLocation, a folder. Nothing is changed there. After a failure or a crash, call it
    again. Raise InvalidJobError if the job cannot go on from it, CorruptStateError if it is damaged; then nothing has
    been written.
    """
    with errors_explained("not kept"):
        return _Import(place, spec, where, session, engine).run()


class _Import:
    """One import."""

    def __init__(
        self,
        place: str,
        spec: JobSpec,
        where: Where,
        session: SparkSession | None,
        engine: Callable[[SparkSession], Engine],
    ) -> None:
        self._log = CheckpointLog(ObjectStore(_checkpoint_folder(spec)))
        self._store = ObjectStore(_folder(place))
        self._progress = _progress(self._store)
        self._spec = spec
        self._session = session or open_session(spec)
        self._engine = engine(self._session)
        self._analysis = self._engine.analyse(spec, where)
        self._inputs = self._engine.inputs(spec, self._analysis)

    @property
    def _plan(self) -> JobPlan:
        return self._analysis.plan

    def run(self) -> ImportedState:
        plan, progress = self._plan, self._progress
        _check_stages(plan)
        _check_sides(self._analysis)
        check_watermarks(progress, plan.strategies)
        numbers = self._inputs.source_names()
        specs = {numbers[number]: self._spec.sources[numbers[number]] for number in sorted(numbers)}
        sources = matched_sources(sources_of_spark(self._store, progress), specs)
        steps = self._steps()
        _check_outputs(open_sinks(self._session, self._spec, plan, self._log.store.url, Generation(0)))
        given = self._given({number: sources[name] for number, name in numbers.items()})
        was_done = is_imported(self._log, given)
        operators = () if was_done else self._written(given, steps)
        stored = self._log.get(given.manifest.epoch) if was_done else None
        operators = operators if stored is None else stored.operators
        with_state = [operator.operator_id for operator in operators]
        return ImportedState(
            batch=progress.batch,
            watermark_ms=progress.watermark_ms,
            sources={name: source.kind for name, source in sources.items()},
            entries={one.operator_id: sum(run.entries for run in one.runs) for one in operators},
            with_full_snapshot=plan.with_full_snapshot(with_state, ()),
            was_done=was_done,
        )

    def _steps(self) -> list[_Step]:
        found = operators_of(self._session, self._store.url, self._progress)
        pairs = pairs_of(self._plan.stages, found)
        return [_Step(stage, one, conversions_of(stage, one, self._progress)) for stage, one in pairs]

    def _given(self, sources: Mapping[int, SourceOfSpark]) -> Imported:
        plan, progress = self._plan, self._progress
        epoch = Epoch(progress.batch)
        lines = [sources[number].line if number in sources else "-" for number in self._inputs.line_sources()]
        offsets = _offsets(progress, lines, {_PRUNES: str(self._session.conf.get(_PRUNES, "false"))})
        logs = [(number, source.log(number)) for number, source in sorted(sources.items())]
        settings = self._inputs.settings({}, None, Generation(0), is_backlog=False)
        watermark_us = progress.watermark_ms * _US_PER_MS if progress.watermark_ms and plan.strategies else None
        manifest = Manifest(
            job=self._spec.name,
            epoch=epoch,
            generation=Generation(0),
            previous=None,
            created_ms=progress.timestamp_ms,
            is_backlog=False,
            strategy="streaming",
            parallelism=settings.parallelism,
            max_parallelism=settings.max_parallelism,
            sources=_source_progress(plan, progress),
            offsets=offsets,
            operators=(),
            outputs=(),
            records_in=0,
            rows_out=0,
            pairs=0,
            watermark_us=watermark_us,
            step_watermarks=_step_watermarks(plan, watermark_us),
            clock_ms=progress.timestamp_ms,
            output_names=(),
            source_logs=tuple(log for _, log in logs if log is not None),
        )
        identity = JobIdentity(self._spec.name, self._spec.pipeline.max_parallelism, plan.fingerprints)
        return Imported(identity, manifest, _entries(manifest, sources, self._store.url))

    def _written(self, given: Imported, steps: Sequence[_Step]) -> tuple[OperatorState, ...]:
        generation = begin_import(self._log, given)
        try:
            operators = tuple(self._converted(step, given.manifest, generation) for step in steps)
        except Exception:
            give_up_import(self._log, given, generation)
            raise
        commit_import(self._log, given, generation, operators)
        return operators

    def _converted(self, step: _Step, manifest: Manifest, generation: Generation) -> OperatorState:
        """Write the runs of a step in Spark's tasks."""
        stage, parallelism, groups = step.stage, manifest.parallelism, manifest.max_parallelism
        frames = []
        for table, conversion in zip(step.operator.tables, step.conversions, strict=True):
            rows = state_rows(self._session, self._store.url, self._progress, step.operator, table)
            convert = ConvertTask(conversion, len(table.keys), parallelism, groups)
            frames.append(map_in_arrow(rows, convert, ENTRY_DDL))
        entries = reduce(DataFrame.union, frames)
        write = WriteTask(
            self._log.store.url, stage.operator_id, manifest.epoch, generation, parallelism, groups, merger_of(stage)
        )
        sorted_entries = entries.repartitionById(parallelism, entries[SUBTASK]).sortWithinPartitions(*ORDER)
        reports = _collected(map_in_arrow(sorted_entries, write, REPORT_DDL), step.operator, self._store.url)
        runs = runs_of(reports)
        return OperatorState(stage.operator_id, stage.state_schema(), runs, parallelism)


def _collected(frame: DataFrame, operator: SparkOperator, folder: str) -> list[bytes]:
    """Return the reports of the tasks. Raise RetryableError if Spark cannot read the state, or a worker fails."""
    try:
        return [bytes(row[0]) for row in frame.collect()]
    except (PySparkException, Py4JError) as error:
        msg = (
            "Spark could not read the state of an operator, or a worker has failed. Nothing was imported. Import "
            "again; if it fails again, a file of the state may be damaged: take another copy of the checkpoint folder, "
            f"or let Spark run a batch over it. folder={folder}, operator={operator}, cause={_cause(error)}"
        )
        raise RetryableError(msg) from error


def _cause(error: PySparkException | Py4JError) -> str:
    """Return the text of the innermost exception."""
    found: Any = getattr(error, "java_exception", None)
    while found is not None and found.getCause() is not None:
        found = found.getCause()
    return innermost(str(error)) if found is None else str(found.toString())[:500]


def _checkpoint_folder(spec: JobSpec) -> str:
    folder = spec.execution.checkpointing.dir
    if folder is None or resolve_mode(spec).mode == "batch":
        msg = (
            "state is imported into a job with checkpoints, and a batch job has none. Set execution.runtime-mode to "
            f"mixed or streaming, and execution.checkpointing.dir. name={spec.name}"
        )
        raise InvalidJobError(msg)
    return folder


def _folder(place: str) -> str:
    """Return the absolute path of the checkpoint folder of Spark."""
    path = Path(place.removeprefix("file://").removeprefix("file:"))
    if "://" in place.removeprefix("file://") or not path.is_dir():
        why = "is not on a disk of this machine" if "://" in place.removeprefix("file://") else "does not exist"
        msg = (
            f"the checkpoint of Spark {why}. Name the checkpointLocation of the query, a folder. One in an object "
            "store or in HDFS is copied to a disk first, which all workers of a cluster share. "
            f"folder={place}"
        )
        raise InvalidJobError(msg)
    return str(path.absolute())


def _progress(store: ObjectStore) -> SparkProgress:
    listing = [path for folder in ("offsets", "commits") for path, _ in store.list(folder)]
    batch = last_committed(listing, store.url)
    offsets, commit = (
        (store.get(f"{log}/{batch}") or b"").decode("utf-8", "replace") for log in ("offsets", "commits")
    )
    return progress_of(batch, offsets, commit, store.url, has_state=bool(store.list("state")))


def _check_stages(plan: JobPlan) -> None:
    """Raise InvalidJobError for steps with state that Spark has nowhere in its checkpoint."""
    lists = [stage.operator_id for stage in plan.maps if stage.keeps_list]
    if lists:
        msg = (
            "a map step of this job keeps a list, and no query of Spark has one, so they are not the same query. "
            f"Nothing was imported. step={lists[0]}"
        )
        raise InvalidJobError(msg)


def _check_sides(analysis: Analysis) -> None:
    for name, source in analysis.sources.items():
        if isinstance(source, HasSides):
            msg = (
                "a source with a history and a live side is two sources of Spark, and the query has read one. Nothing "
                f"was imported. Give the job the source of the query. source={name}"
            )
            raise InvalidJobError(msg)


def _check_outputs(sinks: Sinks) -> None:
    """Raise InvalidJobError unless the outputs are new: what Spark has written is not this job's."""
    for name, sink in sinks.by_name.items():
        if not sink.cannot_report_published and not sink.is_new():
            msg = (
                "an output of the job holds rows already, and a job that goes on from a query of Spark begins a new "
                "one. Nothing was imported. Give the output a new place; it gets the table of an aggregate in the "
                f"first epoch. output={name or 'sink'}, folder={sink.store.url}"
            )
            raise InvalidJobError(msg)


def _source_progress(plan: JobPlan, progress: SparkProgress) -> dict[str, SourceProgress]:
    """Return the progress of the sources. Spark keeps one watermark for all of them."""
    watermark_us = progress.next_watermark_ms * _US_PER_MS or None
    found = {name: SourceProgress(0, None, None) for name in plan.progress_names}
    for name, strategy in plan.strategies.items():
        max_us = None if watermark_us is None else watermark_us + strategy.out_of_orderness_us
        splits = {} if max_us is None else {"": SplitProgress(max_us, progress.timestamp_ms)}
        found[name] = SourceProgress(0, max_us, watermark_us, splits)
    return found


def _step_watermarks(plan: JobPlan, watermark_us: int | None) -> dict[str, int]:
    """Return the watermarks of the steps that read some of the sources only: Spark has one watermark for all steps."""
    if watermark_us is None:
        return {}
    times = plan.step_times
    return {
        name: watermark_us
        for name, time in times.items()
        if not time.by_clock and time.sources & plan.strategies.keys() and not time.sources >= plan.strategies.keys()
    }


def _offsets(progress: SparkProgress, lines: Sequence[str], conf: Mapping[str, str]) -> str:
    """Return the entry of Spark's offset log with which the query of the job goes on. It has no state and no time."""
    head = {"batchWatermarkMs": 0, "batchTimestampMs": progress.timestamp_ms, "conf": dict(conf)}
    return "\n".join(["v1", json.dumps(head, separators=(",", ":")), *lines])


def _entries(manifest: Manifest, sources: Mapping[int, SourceOfSpark], place: str) -> dict[str, bytes]:
    """Return the entries of Spark's log in the job's folder, {path: content}: equal for equal imports."""
    query = uuid.uuid5(uuid.NAMESPACE_URL, f"{place}#{manifest.epoch}#{manifest.created_ms}")
    found = {
        paths.SPARK_METADATA: json.dumps({"id": str(query)}, separators=(",", ":")).encode(),
        paths.spark_offsets_path(manifest.epoch): manifest.offsets.encode(),
        paths.spark_commits_path(manifest.epoch): b'v1\n{"nextBatchWatermarkMs":0}',
    }
    if manifest.epoch > 0:  # Spark reads two entries
        found[paths.spark_offsets_path(Epoch(manifest.epoch - 1))] = manifest.offsets.encode()
    for number, source in sources.items():
        for name, content in source.entries.items():
            found[f"{paths.SPARK}/sources/{number}/{name}"] = content
    return found
