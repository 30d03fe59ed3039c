"""A run of a job: session, plan, start checks, and the phases.

    batch      read everything once, one epoch, no checkpoint
    otherwise  catch up: what is present when the run starts, as Spark's AvailableNow query fixes it
               live:     a query that is triggered every checkpointing interval

In mixed mode the first catching-up epoch of a fresh job is the backlog, and its end is the flip. Both phases are one
job over one checkpoint folder: the second query goes on with the next epoch.
"""

import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, assert_never

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.decide import Damaged, Fresh, Refused, Resume, decide_start
from mixedmode.checkpoint.gc import collect_orphans, readable_manifests
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, JobIdentity, Manifest
from mixedmode.clock import Clock, SystemClock
from mixedmode.config import JobSpec, ModePolicy, SourceSpec, resolve_mode
from mixedmode.crash_points import arm
from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.job.plan import JobPlan
from mixedmode.runtime.analysis import Analysis, Where, analyse
from mixedmode.runtime.epochs import EpochContext, EpochRunner, StopRequested
from mixedmode.runtime.events import EpochCommitted, EpochStarted, Flipped, Observer, Silent
from mixedmode.runtime.session import LOG_FILE, cores, open_session
from mixedmode.runtime.spark_errors import explained
from mixedmode.runtime.stages import StageSettings, input_frame, run_stages
from mixedmode.sinks import ConsoleSink, FileSink, Sink, print_rows, staging_folder
from mixedmode.sources import Admission, read_batch, read_stream

_POLL_SECONDS = 0.05
_NO_GENERATION = Generation(0)
# Without a limit of its own, a backlog on the streaming path takes this much a second of its interval, per subtask.
STREAMED_BYTES_PER_SECOND = 16 * 1024 * 1024


class Until(Enum):
    """When a run of a job with checkpoints ends by itself."""

    STOPPED = "stopped"  # never: it goes on until it is asked to stop
    IDLE = "idle"  # once everything present is processed
    DRAINED = "drained"  # the same, and then the input ends for good; bounded sources end so in any case


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run a job, beside what the job says. `stop` may be set from another thread or a signal handler."""

    until: Until = Until.STOPPED
    observer: Observer = Silent()  # noqa: RUF009 - holds nothing
    clock: Clock = SystemClock()  # noqa: RUF009 - holds nothing
    stop: threading.Event | None = None
    session: SparkSession | None = None


def run_job(spec: JobSpec, where: Where, options: RunOptions) -> None:
    """Run a job until it ends or is stopped.

    Returns when the input ended, when `until` says so, or after the epoch in which `stop` was set. Raises
    InvalidJobError before anything is committed, or another kind that says what to do next; starting again resumes.
    """
    arm()
    log_folder = _log_folder(spec)
    options.observer.on_phase("starting")
    try:
        session = options.session or open_session(spec, log_folder=log_folder)
        analysis = analyse(session, spec, where)
        run = _Run(session, spec, analysis, options)
        if run.policy.mode == "batch":
            run.run_batch()
        else:
            run.run_with_checkpoints()
        options.observer.on_phase("ended")
    except (PySparkException, Py4JError) as error:
        raise explained(error, log_file=str(log_folder / LOG_FILE)) from error


class _Run:
    """One start of a job."""

    def __init__(self, session: SparkSession, spec: JobSpec, analysis: Analysis, options: RunOptions) -> None:
        self._session = session
        self._spec = spec
        self._plan: JobPlan = analysis.plan
        self._schemas = analysis.schemas
        self._options = options
        self._stop = options.stop or threading.Event()
        self.policy: ModePolicy = resolve_mode(spec)
        self._parallelism = spec.parallelism or min(cores(session), spec.pipeline.max_parallelism)

    def run_batch(self) -> None:
        """Everything present, once: no state is kept, nothing is checkpointed, a failure starts over."""
        with tempfile.TemporaryDirectory(prefix="mixedmode-batch-") as folder:
            sink = self._open_sink(folder)
            sink.prepare(self._plan.output_fields, self._plan.key_columns, is_fresh=True)
            frames = {n: read_batch(self._session, s, self._schemas[n]) for n, s in self._spec.sources.items()}
            settings = self._settings(sink, None, _NO_GENERATION, self._backlog_parallelism)
            observer, clock = self._options.observer, self._options.clock
            started = clock.seconds()
            observer.on_epoch_started(EpochStarted(Epoch(0), is_backlog=True, path="sorted"))
            frame = input_frame(self._session, self._plan, frames, settings)
            result = run_stages(self._session, frame, self._plan, settings, epoch=Epoch(0), path="sorted", state=())
            sink.publish(result.outputs)
            observer.on_epoch_committed(
                EpochCommitted(
                    epoch=Epoch(0),
                    is_backlog=True,
                    path="sorted",
                    records=result.records_in,
                    rows_out=result.rows_out,
                    pairs=0,
                    state_bytes=0,
                    spilled_runs=result.spilled_runs,
                    migration_seconds=0.0,
                    watermark_us=None,
                    seconds=clock.seconds() - started,
                )
            )

    def run_with_checkpoints(self) -> None:
        """Catch up, flip, live; see the module."""
        store = ObjectStore(self._checkpoint_dir)
        log = CheckpointLog(store)
        if store.exists(paths.ENDED):
            self._options.observer.on_phase("over")
            return
        generation = log.claim_generation()
        sink = self._open_sink(staging_folder(self._checkpoint_dir))
        retained = self._check_start(log)
        sink.prepare(self._plan.output_fields, self._plan.key_columns, is_fresh=not retained)
        if retained:
            sink.publish(retained[-1].outputs)
        collect_orphans(log, sink=sink.store)
        context = EpochContext(
            spec=self._spec,
            plan=self._plan,
            log=log,
            generation=generation,
            sink=sink,
            mode=self.policy.mode,
            clock=self._options.clock,
            observer=self._options.observer,
        )
        phases = _Phases(self, EpochRunner(context, retained), context)
        is_bounded = all(source.bounded for source in self._spec.sources.values())
        phases.run(Until.DRAINED if is_bounded else self._options.until)

    def frame(self, settings: StageSettings, admission: Callable[[SourceSpec], Admission]) -> DataFrame:
        """The streaming frame of a phase."""
        sources = {
            name: read_stream(self._session, source, self._schemas[name], admission(source))
            for name, source in self._spec.sources.items()
        }
        return input_frame(self._session, self._plan, sources, settings)

    def settings(self, context: EpochContext, *, is_backlog: bool) -> StageSettings:
        """Stage settings of a phase."""
        parallelism = self._backlog_parallelism if is_backlog else self._parallelism
        return self._settings(context.sink, self._checkpoint_dir, context.generation, parallelism)

    @property
    def stop(self) -> threading.Event:
        """Set when the run is to end after its epoch."""
        return self._stop

    @property
    def _backlog_parallelism(self) -> int:
        return self._spec.execution.backlog.parallelism or self._parallelism

    @property
    def _checkpoint_dir(self) -> str:
        folder = self._spec.execution.checkpointing.dir
        assert folder is not None, "only batch mode has no checkpoint folder"
        return folder

    def _settings(
        self, sink: Sink, checkpoint_url: str | None, generation: Generation, parallelism: int
    ) -> StageSettings:
        return StageSettings(
            parallelism=parallelism,
            max_parallelism=self._spec.pipeline.max_parallelism,
            sort_memory_bytes=self._spec.state.backlog.sort_memory_bytes,
            checkpoint_url=checkpoint_url,
            generation=generation,
            sink=sink.task,
        )

    def _open_sink(self, console_folder: str) -> Sink:
        sink = self._spec.sink
        if sink.format == "console":
            return ConsoleSink(console_folder, print_rows)
        assert sink.path is not None, "file sinks have a path"
        return FileSink(self._spec.name, sink.path, sink.format, replaces=self.policy.mode == "batch")

    def _check_start(self, log: CheckpointLog) -> list[Manifest]:
        """The manifests there are, oldest to newest, once it is sure that this job may go on from the last one."""
        operators = {stage.operator_id: stage.fingerprint for stage in self._plan.stateful_stages}
        wanted = JobIdentity(self._spec.name, self._spec.pipeline.max_parallelism, operators)
        epochs = log.epochs()
        decision = decide_start(wanted, log.read_identity(), latest=epochs[-1] if epochs else None)
        match decision:
            case Fresh():
                log.create_identity(wanted)
                return []
            case Resume():
                return _retained(log, epochs)
            case Refused(reason):
                raise InvalidJobError(reason)
            case Damaged(reason):
                raise CorruptStateError(reason)
            case _:
                assert_never(decision)


class _Phases:
    """The queries of a run with checkpoints, one after the other."""

    def __init__(self, run: _Run, runner: EpochRunner, context: EpochContext) -> None:
        self._run = run
        self._runner = runner
        self._context = context

    def run(self, until: Until) -> None:
        """Catch up; flip; then live until it is stopped, or catch up again until nothing is new."""
        is_fresh = self._runner.latest is None
        self._context.observer.on_phase("catching up")
        self._catch_up(is_first=True)
        is_stopped, latest = self._run.stop.is_set(), self._runner.latest
        if is_fresh and self._run.policy.mode == "mixed" and not (is_stopped and latest is None):
            self._context.observer.on_flip(
                Flipped(
                    at_ms=self._context.clock.now_ms(),
                    after_epoch=None if latest is None else latest.epoch,
                )
            )
        if is_stopped:
            return
        self._context.observer.on_phase("live")
        if until is Until.STOPPED:
            self._go_live()
            return
        while self._catch_up(is_first=False) and not self._run.stop.is_set():
            pass  # what arrived meanwhile is another pass, until a pass finds nothing
        if until is Until.DRAINED and not self._run.stop.is_set():
            self._end_input()

    def _catch_up(self, *, is_first: bool) -> bool:
        """Everything present now, then return; whether there was anything."""
        before = self._runner.epochs_run
        settings = self._run.settings(self._context, is_backlog=is_first and self._runner.latest is None)
        frame = self._run.frame(settings, self._admission)
        self._query(frame, settings, is_catching_up=is_first, trigger={"availableNow": True})
        return self._runner.epochs_run > before

    def _go_live(self) -> None:
        settings = self._run.settings(self._context, is_backlog=False)
        frame = self._run.frame(settings, lambda _source: Admission())
        interval_ms = self._run.policy.live_interval_ms
        self._query(frame, settings, is_catching_up=False, trigger={"processingTime": f"{interval_ms} milliseconds"})

    def _end_input(self) -> None:
        """The final watermark: the input of this job is over for good."""
        latest = self._runner.latest
        epoch = "none" if latest is None else str(latest.epoch)
        self._context.log.store.put_new(paths.ENDED, f"last_epoch={epoch}\n".encode())

    def _admission(self, source: SourceSpec) -> Admission:
        """Mixed mode takes all that is there in one epoch; streaming cuts it into epochs of about the interval."""
        if self._run.policy.mode == "mixed":
            return Admission()
        if source.max_files_per_epoch is not None or source.max_bytes_per_epoch is not None:
            return Admission(source.max_files_per_epoch, source.max_bytes_per_epoch)
        parallelism = self._run.settings(self._context, is_backlog=True).parallelism
        return Admission(
            max_bytes=max(1, parallelism * STREAMED_BYTES_PER_SECOND * self._run.policy.backlog_interval_ms // 1000)
        )

    def _check_not_stopped(self) -> None:
        if self._run.stop.is_set():
            raise StopRequested

    def _query(
        self, frame: DataFrame, settings: StageSettings, *, is_catching_up: bool, trigger: dict[str, Any]
    ) -> None:
        """Run one streaming query to its end, or until a stop is asked for and its epoch is done."""
        failure: list[BaseException] = []

        def epoch(batch: DataFrame, batch_id: int) -> None:
            try:
                self._check_not_stopped()
                self._runner.run(batch, Epoch(batch_id), settings, is_catching_up=is_catching_up)
            except BaseException as error:
                failure.append(error)  # Spark would bring it back as text
                raise

        query = (
            frame.writeStream.foreachBatch(epoch)
            .queryName(self._context.spec.name)
            .option("checkpointLocation", f"{self._context.log.store.url}/{paths.SPARK}")
            .trigger(**trigger)
            .start()
        )
        try:
            while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]  # a float is fine
                if self._run.stop.is_set() and not query.status["isTriggerActive"]:
                    query.stop()
        except PySparkException:
            if not failure:
                raise
        if failure and not isinstance(failure[0], StopRequested):
            raise failure[0]


def _retained(log: CheckpointLog, epochs: Sequence[Epoch]) -> list[Manifest]:
    """All readable manifests. Raises CorruptStateError when the newest one is not."""
    newest = log.get(epochs[-1])
    assert newest is not None, epochs
    older, _ = readable_manifests(log, epochs[:-1])
    return [*older, newest]


def _log_folder(spec: JobSpec) -> Path:
    """Spark's log lies beside the checkpoints, or in the system's folder for temporary files."""
    folder = spec.execution.checkpointing.dir
    if folder is None or "://" in folder:
        return Path(tempfile.gettempdir())
    return Path(folder) / "logs"
