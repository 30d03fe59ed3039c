"""A run of a job: session, plan and checks; then one batch epoch, or the phases of a job with checkpoints.

batch      read all input once, in one epoch, without a checkpoint
otherwise  claim a generation, find the newest checkpoint, publish its outputs again, run the phases (phases.py)
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.job import Analysis
from mixedmode.analysis.map_steps import check_items, check_subtasks
from mixedmode.analysis.problems import collecting, raise_all
from mixedmode.checkpoint.decide import Damaged, Fresh, Over, Refused, Resume, decide_start
from mixedmode.checkpoint.gc import collect_orphans, readable_manifests
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, JobIdentity, Manifest
from mixedmode.clock import Clock, SystemClock
from mixedmode.config import JobSpec, ModePolicy, resolve_mode
from mixedmode.config.graph import MAIN
from mixedmode.crash_points import arm
from mixedmode.driver.aside import Aside
from mixedmode.driver.backlogs import SourceBacklogs
from mixedmode.driver.dead_letters import DeadLetters
from mixedmode.driver.early import keep_checkpoints_private, log_folder_of
from mixedmode.driver.engine import Engine
from mixedmode.driver.epoch_context import EpochContext
from mixedmode.driver.epochs import EpochRunner, publish_committed
from mixedmode.driver.events import EpochCommitted, EpochStarted, Notice, Observer, PhaseBegan, PublishedLate
from mixedmode.driver.expired_records import ExpiredRecords
from mixedmode.driver.input_records import InputRecords
from mixedmode.driver.log_lines import LogLines
from mixedmode.driver.observers import Observers
from mixedmode.driver.phases import Phases, Until
from mixedmode.driver.range_reads import RangeReads
from mixedmode.driver.reach import connection_problems, library_problems, option_problems
from mixedmode.driver.reading_checks import ReadingChecks
from mixedmode.driver.recovery import drop_damaged_plan, find_checkpoint, leave_damaged, planned_beyond
from mixedmode.driver.sources_read import SourcesRead
from mixedmode.driver.topic_ids import TopicIds
from mixedmode.driver.watched import EpochWatch, WatchedExecutor
from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.executor.protocol import EpochTask, Executor
from mixedmode.plan.explain_steps import growing_states
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.side_outputs import dead_letter_output
from mixedmode.sinks import OutputSchema, SinkContext, Sinks, open_sink
from mixedmode.sinks.printed import print_rows
from mixedmode.spark.errors import errors_explained
from mixedmode.spark.folder import SparkFolder
from mixedmode.spark.session import open_session
from mixedmode.spark.settings import LOG_FILE
from mixedmode.spark.workers import begin_workers
from mixedmode.tasks.timing import timing_at
from mixedmode.time.window_range import WindowRange

__all__ = ["RunOptions", "Until", "run_job"]

_NO_GENERATION = Generation(0)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run that are not in the job file. `stop` may be set from another thread or a signal handler.

    `drain` may be set likewise: the job then ends its input for good, as with Until.DRAINED.
    `engine`: returns the engine of the run in a session. `within`: see Engine.analyse.
    """

    until: Until = Until.STOPPED
    observers: Sequence[Observer] = ()
    clock: Clock = SystemClock()  # noqa: RUF009 - holds nothing
    stop: threading.Event | None = None
    drain: threading.Event | None = None
    session: SparkSession | None = None
    engine: Callable[[SparkSession], Engine] = Engine
    within: WindowRange | None = None


def run_job(spec: JobSpec, where: Where, options: RunOptions) -> None:
    """Run a job until it ends or is stopped.

    Return when the input has ended, when `until` is reached, or after the epoch in which `stop` was set. Raise
    InvalidJobError before anything is committed, or another error that says what to do next. A new start resumes.
    """
    arm()
    log_folder = log_folder_of(spec)
    observer = Observers([LogLines(spec.name), *options.observers])
    observer(PhaseBegan("starting"))
    with errors_explained(log_folder / LOG_FILE):
        keep_checkpoints_private(spec)
        session = options.session or open_session(spec, log_folder=log_folder)
        engine = options.engine(session)
        with engine.active():
            _run_in(engine, spec, where, options, observer)
        observer(PhaseBegan("ended"))


def _run_in(engine: Engine, spec: JobSpec, where: Where, options: RunOptions, observer: Observer) -> None:
    engine.check()
    if options.session is None:
        begin_workers(engine.session)
    analysis = _checked(engine, spec, where, options.within)
    with _watched(engine, analysis, observer) as executor:
        run = _Run(engine, spec, analysis, options, observer, executor)
        if run.policy.mode == "batch":
            run.run_batch()
        else:
            run.run_with_checkpoints()


@contextmanager
def _watched(engine: Engine, analysis: Analysis, observer: Observer) -> Iterator[Executor[DataFrame]]:
    """Return the executor of the run, whose epochs tell their progress, as a context manager."""
    executor, figures = engine.executor(analysis), engine.figures()
    if figures is None:
        yield executor
        return
    with EpochWatch(figures, observer) as watch:
        yield WatchedExecutor(executor, watch)


def _checked(engine: Engine, spec: JobSpec, where: Where, within: WindowRange | None) -> Analysis:
    """Return the analysis of a job. Raise one error with every mistake; topics and databases are asked last."""
    found = [*library_problems(spec, where), *option_problems(engine.session, spec, where)]
    analysis = None
    with collecting(found):
        analysis = engine.analyse(spec, where, within=within)
    raise_all(found or connection_problems(engine.session, spec, where))
    assert analysis is not None, spec.name
    return analysis


class _Run:
    """One start of a job."""

    def __init__(
        self,
        engine: Engine,
        spec: JobSpec,
        analysis: Analysis,
        options: RunOptions,
        observer: Observer,
        executor: Executor[DataFrame],
    ) -> None:
        self._session = engine.session
        self._executor = executor
        self._spec = spec
        self._plan: JobPlan = analysis.plan
        self._inputs = engine.inputs(spec, analysis)
        read = SourcesRead.of(analysis.sources, self._plan.sources_read, has_clock=self._plan.uses_clock)
        self._backlogs = SourceBacklogs(read)
        self._dead_letters = DeadLetters(read)
        self._records = InputRecords(read, analysis.dimensions.values())
        self._topic_ids = TopicIds(read, observer)
        self._expired = ExpiredRecords(read, observer)
        self._reading_checks = ReadingChecks(read)
        self._ranges = RangeReads(read, self._plan)
        self._options = options
        self._observer = observer
        self._line_sources: tuple[int, ...] = ()
        self.policy: ModePolicy = resolve_mode(spec)

    def run_batch(self) -> None:
        """Process all present input once. There is no state and no checkpoint; after a failure, start over."""
        with temporary_folder("batch-") as folder:
            sinks = self._open_sinks(str(folder), _NO_GENERATION)
            self._tell_notices()
            sinks.prepare(output_schemas(self._plan), known=())
            settings = self._inputs.settings(sinks.tasks, None, _NO_GENERATION, is_backlog=True)
            observer, clock = self._observer, self._options.clock
            started = clock.seconds()
            observer(EpochStarted(Epoch(0), is_backlog=True, strategy="sorted"))
            now_ms = clock.now_ms()
            timing = timing_at(
                self._plan.strategies,
                None,
                now_ms,
                started_ms=now_ms,
                partitioned=self._plan.partitions,
                backlog=frozenset(self._plan.sources_read),
                fires_all=True,
            )
            task = EpochTask.after(None, self._plan, settings, Epoch(0), "sorted", timing.at_the_end())
            with self._records.reading():
                rows = self._inputs.batch()
                self._expired.look_at_batch()
                result = self._executor.run_epoch(replace(task, files=self._inputs.batch_files()), rows)
                self._expired.look_at_batch(is_read=True)
                dead = self._dead_letters.stage_batch(Epoch(0), settings)
            sinks.publish(Epoch(0), (*result.outputs, *dead))
            observer(
                EpochCommitted(
                    epoch=Epoch(0),
                    is_backlog=True,
                    strategy="sorted",
                    records=result.progress.records,
                    rows_out=result.rows_out,
                    pairs=0,
                    state_bytes=0,
                    spilled_runs=result.spilled_runs,
                    migration_seconds=0.0,
                    watermark_us=None,
                    records_late=0,
                    records_ahead=result.progress.ahead,
                    records_skipped=result.skipped,
                    seconds=clock.seconds() - started,
                    created_ms=clock.now_ms(),
                    profile=result.profile,
                    rows_read=result.progress.rows_read,
                    joins=result.joins,
                )
            )

    def run_with_checkpoints(self) -> None:
        """Find the checkpoint to go on from, publish it again, then catch up, flip and run live (phases.py)."""
        folder = self._spec.execution.checkpointing.dir
        assert folder is not None, "only batch mode has no checkpoint folder"
        store = ObjectStore(folder)
        log = CheckpointLog(store)
        self._line_sources = self._inputs.line_sources()
        generation = log.claim_generation()
        sinks = self._open_sinks(store.url, generation)
        retained = self._check_start(log, sinks, generation)
        if retained:
            is_late = sinks.has_staged(retained[-1].outputs)
            publish_committed(sinks, retained[-1])
            if is_late:
                self._observer(PublishedLate(retained[-1].epoch))
        collect_orphans(log, sinks=sinks.stores)
        if retained and retained[-1].is_final:
            self._observer(PhaseBegan("over"))
            return
        with (
            SparkFolder(log, generation, reads_once=self._inputs.reads_once) as spark_folder,
            Aside(is_remote=store.local_root is None) as aside,
        ):
            spark_folder.fetch()
            context = EpochContext(
                spec=self._spec,
                plan=self._plan,
                executor=self._executor,
                log=log,
                generation=generation,
                sinks=sinks,
                mode=self.policy.mode,
                clock=self._options.clock,
                observer=self._observer,
                stop=self._options.stop or threading.Event(),
                log_file=str(log_folder_of(self._spec) / LOG_FILE),
                spark_folder=spark_folder,
                dead_letters=self._dead_letters,
                backlogs=self._backlogs,
                line_sources=self._line_sources,
                present=self._inputs.present,
                files_of=self._inputs.files_of,
                records=self._records,
                aside=aside,
                topic_ids=self._topic_ids,
                expired=self._expired,
                reading_checks=self._reading_checks,
                ranges=self._ranges,
            )
            runner = EpochRunner(context, retained)
            phases = Phases(self._inputs, self.policy, runner, context, self._options.drain)
            is_bounded = all(source.bounded for source in self._spec.sources.values())
            phases.run(Until.DRAINED if is_bounded else self._options.until)

    def _tell_notices(self) -> None:
        states = growing_states(self._plan.stages) if self.policy.mode != "batch" else ()
        for text in (*self._inputs.notices(), *states):
            self._observer(Notice(text))

    def _open_sinks(self, base: str, generation: Generation) -> Sinks:
        replaces = self.policy.mode == "batch"
        return open_sinks(self._session, self._spec, self._plan, base, generation, replaces=replaces)

    def _check_start(self, log: CheckpointLog, sinks: Sinks, generation: Generation) -> list[Manifest]:
        """Return the remaining manifests, oldest to newest, after checking that this job may go on from the last one.

        First check that the folder and the outputs belong to this job; then find a whole checkpoint; only then leave
        damaged checkpoints (recovery.py).
        """
        wanted = JobIdentity(self._spec.name, self._spec.pipeline.max_parallelism, self._plan.fingerprints)
        epochs = log.epochs()
        # newest first: nearly always, only one manifest is read
        newest = next((one for epoch in reversed(epochs) for one in readable_manifests(log, [epoch])[0]), None)
        decision = decide_start(
            wanted,
            log.read_identity(),
            latest=epochs[-1] if epochs else None,
            is_final=newest is not None and newest.is_final,
        )
        match decision:
            case Fresh() | Resume() | Over():
                pass
            case Refused(reason):
                raise InvalidJobError(reason)
            case Damaged(reason):
                raise CorruptStateError(reason)
            case _:
                assert_never(decision)
        if newest is not None:  # otherwise no manifest can be read, and any outputs belong to damaged checkpoints
            # unreadable newer manifests may have begun further outputs
            others = sinks.by_name.keys() - set(newest.output_names)
            known = (*newest.output_names, *sinks.begun_after(newest.epoch, others))
            sinks.prepare(output_schemas(self._plan), known=known)
        found = find_checkpoint(log, sinks, reads=self._spec.execution.checkpointing.verify == "checksums")
        if found.whole is not None:
            check_state(self._plan, found.whole)
            self._topic_ids.check(found.whole)
            settings = self._inputs.settings({}, None, _NO_GENERATION, is_backlog=False)
            check_subtasks(self._plan, found.whole.list_states, settings.parallelism_of)
        planned = planned_beyond(log, found, self._line_sources, self._inputs.present)
        if found.whole is None:
            self._inputs.check_beginnings()
            self._tell_notices()
            drop_damaged_plan(log, planned, self._observer)
            if self._ranges.is_needed:  # they begin anew, at what is there now
                log.store.delete(planned.later)
            self._topic_ids.check_beginning(log.store, self._line_sources)
            log.create_identity(wanted)
            sinks.prepare(output_schemas(self._plan), known=())
            return []
        retained = leave_damaged(log, sinks, found, generation, self._observer)
        drop_damaged_plan(log, planned, self._observer)
        return retained


def open_sinks(
    session: SparkSession, spec: JobSpec, plan: JobPlan, base: str, generation: Generation, *, replaces: bool = False
) -> Sinks:
    """Open the outputs of a job.  base: where outputs that are no folders stage their files; replaces: batch run."""
    context = SinkContext(
        job=spec.name,
        name=MAIN,
        generation=generation,
        base=base,
        replaces=replaces,
        session=session,
        show=print_rows,
        retained=spec.execution.checkpointing.num_retained,
    )
    outputs = {**spec.results, **plan.side_sinks}
    return Sinks({name: open_sink(sink, replace(context, name=name)) for name, sink in outputs.items()})


def check_state(plan: JobPlan, latest: Manifest) -> None:
    """Raise InvalidJobError if a function cannot read the state that its earlier version has stored."""
    stored = {operator.operator_id: operator.state_schema for operator in latest.operators}
    for stage in plan.stages:
        problems = stage.unreadable(stored.get(stage.operator_id, {}))
        if problems:
            msg = (
                f"the state of step {stage.operator_id!r} was stored with other types, and this version of the "
                f"function cannot read it: {'; '.join(problems)}. Put the types back (a new field needs a "
                "default), or give the job a new execution.checkpointing.dir and output (it then starts from the "
                f"beginning of its sources). latest_epoch={latest.epoch}"
            )
            raise InvalidJobError(msg)
    check_items(plan, latest.list_states)


def output_schemas(plan: JobPlan) -> dict[str, OutputSchema]:
    """Return {name of an output: its columns}; that of a job with `sink` is "". Pure."""
    schemas = {name: OutputSchema(result.fields, result.key_columns) for name, result in plan.results.items()}
    for stage in plan.stages:
        schemas |= {name: OutputSchema(fields) for name, fields in stage.side_outputs.items()}
    return schemas | {dead_letter_output(name): OutputSchema(fields) for name, fields in plan.dead_letters.items()}
