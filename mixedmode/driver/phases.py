"""The phases of a run with checkpoints: catch up, flip, live; each is one streaming query over one checkpoint folder.

Catching up uses Spark's AvailableNow trigger. It fixes its end when it starts, so live traffic cannot move the end.
The query after it goes on with the next epoch.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mixedmode.checkpoint.decide import EpochPolicy
from mixedmode.checkpoint.pause import PauseRecord
from mixedmode.checkpoint.types import Epoch, Manifest
from mixedmode.clock import ClockWatch
from mixedmode.config import ModePolicy, SourceSpec
from mixedmode.driver.autoscaler import Autoscaler, scale_targets
from mixedmode.driver.epoch_context import EpochContext
from mixedmode.driver.epochs import EpochRunner, StopRequested
from mixedmode.driver.events import Flipped, Notice
from mixedmode.driver.inputs import Inputs
from mixedmode.driver.pausing import Pauses
from mixedmode.driver.rescaling import Rescaling
from mixedmode.errors import RetryableError
from mixedmode.executor.protocol import StageSettings
from mixedmode.sources.source import Admission
from mixedmode.spark.session import cores

_POLL_SECONDS = 0.05
# A backlog in streaming mode without limits admits this much per subtask and second of its interval.
STREAMED_BYTES_PER_SECOND = 16 * 1024 * 1024
STREAMED_RECORDS_PER_SECOND = 100_000
_SET_BACK = (
    "the clock of this machine was set back. Live epochs go on. Timers and windows of processing time wait until the "
    "clock has caught up. Have the clock corrected in small steps, as chrony and ntpd do"
)


class Until(Enum):
    """The condition under which a run of a job with checkpoints ends by itself."""

    STOPPED = "stopped"  # never: the run goes on until it is asked to stop
    IDLE = "idle"  # when all present input is processed
    DRAINED = "drained"  # as IDLE; then the input ends for good. Bounded sources always end this way


class Phases:
    """The queries of a run with checkpoints, one after the other."""

    def __init__(
        self,
        inputs: Inputs,
        policy: ModePolicy,
        runner: EpochRunner,
        context: EpochContext,
        drain: threading.Event | None = None,
    ) -> None:
        """`drain`: set when the job shall process all present input, and then end its input for good."""
        self._drain = drain or threading.Event()
        self._inputs = inputs
        self._policy = policy
        self._runner = runner
        self._context = context
        self._stop = context.stop
        self._pauses = Pauses(PauseRecord(context.log.store), context.observer, context.stop)
        self._clock_watch = ClockWatch(context.clock)
        self._rescaling = Rescaling(context.spec, context.log, context.observer)
        targets = scale_targets(context.spec, cores(inputs.session))
        self._autoscaler = None
        if targets is not None:
            interval_ms, trigger = policy.live_interval_ms, self._trigger_seconds
            self._autoscaler = Autoscaler(targets, interval_ms, self._rescaling, context.clock, trigger)

    def run(self, until: Until) -> None:
        """Catch up, flip, then run live until stopped; or catch up again until no input is new. See `Until`."""
        try:
            self._run(until)
        except Exception:
            _check_has_session(self._inputs.session)
            raise

    def _run(self, until: Until) -> None:
        is_fresh = self._runner.latest is None
        self._pauses.begin("catching up")
        self._catch_up(is_first=True)
        is_stopped = self._stop.is_set()
        if is_fresh and self._runner.latest is None and self._policy.mode == "mixed" and not is_stopped:
            self._tell_flip(None)  # there was no backlog
        if is_stopped:
            return
        self._pauses.begin("live")
        if until is Until.STOPPED:
            self._go_live()
        elif until is Until.IDLE:
            self._read_present()
        if (until is Until.DRAINED or self._drain.is_set()) and not self._stop.is_set():
            self._end_input()

    def _read_present(self) -> None:
        """Process all input that is present, until a pass finds none that came during the pass before."""
        while self._catch_up(is_first=False) and not self._stop.is_set():
            pass

    def _end_input(self) -> None:
        """Process all input that is present, then end the input for good."""
        self._read_present()
        self._pauses.hold(self._stop.is_set)
        if not self._stop.is_set():
            self._runner.run_final(self._inputs.session, self._settings_of)

    def _catch_up(self, *, is_first: bool) -> bool:
        """Process all input that is present now. Return whether there was new input."""
        before = self._runner.inputs_taken
        frame = self._inputs.stream(self._admission)

        def run(batch: DataFrame, epoch: Epoch) -> None:
            self._run_epoch(batch, epoch, is_catching_up=is_first)

        self._query(frame, run, trigger={"availableNow": True})
        return self._runner.inputs_taken > before

    def _run_epoch(self, batch: DataFrame, epoch: Epoch, *, is_catching_up: bool) -> None:
        """Run one epoch. If the job's first epoch is backlog, its end is the flip, even if the query goes on."""
        is_fresh = self._runner.latest is None
        self._runner.run(batch, epoch, self._settings_of, is_catching_up=is_catching_up)
        latest = self._runner.latest
        if is_fresh and latest is not None and latest.is_backlog:
            self._tell_flip(latest.epoch)

    def _tell_flip(self, after_epoch: Epoch | None) -> None:
        self._context.observer(Flipped(at_ms=self._context.clock.now_ms(), after_epoch=after_epoch))

    def _go_live(self) -> None:
        """Run live epochs. Spark waits for a time of the machine's clock: if that is set back, begin another query."""
        trigger = {"processingTime": f"{self._policy.live_interval_ms} milliseconds"}
        while True:
            self._clock_watch = ClockWatch(self._context.clock)
            frame = self._inputs.stream(lambda _source: Admission())
            self._query(frame, self._run_live, trigger=trigger, is_live=True)
            if self._stop.is_set() or self._drain.is_set() or not self._clock_watch.was_set_back:
                return
            self._context.observer(Notice(_SET_BACK))

    def _run_live(self, batch: DataFrame, epoch: Epoch) -> None:
        started = self._context.clock.seconds()

        def run() -> Manifest | None:
            before = self._runner.latest
            self._run_epoch(batch, epoch, is_catching_up=False)
            return None if self._runner.latest is before else self._runner.latest

        if self._autoscaler is None:
            run()
        else:
            self._autoscaler.watch(run)
        latest, interval_ms = self._runner.latest, self._policy.backlog_interval_ms
        if interval_ms > self._policy.live_interval_ms and latest is not None and latest.is_backlog:
            # In backlog again, epochs have a longer interval. Spark's trigger is fixed, so wait here.
            spent_ms = 1000 * (self._context.clock.seconds() - started)
            self._stop.wait(max(0.0, (interval_ms - spent_ms) / 1000))

    def _trigger_seconds(self, epoch: Epoch) -> float | None:
        """Return Spark's seconds for an epoch, from listing its input to Spark's commit; None if unknown."""
        for query in self._inputs.session.streams.active:
            for progress in reversed(query.recentProgress):
                if progress.batchId == epoch and "addBatch" in progress.durationMs:
                    return float(progress.durationMs["triggerExecution"]) / 1000
        return None

    def _settings_of(self, epoch: Epoch, policy: EpochPolicy) -> StageSettings:
        """Return the settings of an epoch, and tell the observer how they differ from the previous epoch."""
        before = self._runner.latest
        settings = self._settings(is_backlog=policy.is_backlog)
        self._rescaling.tell(epoch, self._context.plan, settings, before, is_backlog=policy.is_backlog)
        return settings

    def _settings(self, *, is_backlog: bool) -> StageSettings:
        is_initial = is_backlog and self._runner.latest is None
        return self._inputs.settings(
            self._context.sinks.tasks,
            self._context.log.store.url,
            self._context.generation,
            is_backlog=is_backlog,
            subtasks=self._rescaling.subtasks(is_initial_backlog=is_initial),
        )

    def _admission(self, source: SourceSpec) -> Admission:
        """Return no limit in mixed mode, which has one backlog epoch; else a limit for epochs of about the interval."""
        if self._policy.mode == "mixed":
            return Admission()
        if source.limits_per_epoch:
            return Admission(**source.limits_per_epoch)
        subtask_ms = self._settings(is_backlog=False).parallelism * self._policy.backlog_interval_ms
        return Admission(
            max_bytes=max(1, STREAMED_BYTES_PER_SECOND * subtask_ms // 1000),
            max_records=max(1, STREAMED_RECORDS_PER_SECOND * subtask_ms // 1000),
        )

    def _check_goes_on(self, *, is_live: bool) -> None:
        if self._ends(is_live=is_live):
            raise StopRequested

    def _ends(self, *, is_live: bool) -> bool:
        """Return whether a query is to end after its current epoch."""
        return self._stop.is_set() or (is_live and (self._drain.is_set() or self._clock_watch.was_set_back))

    def _query(
        self,
        frame: DataFrame,
        run: Callable[[DataFrame, Epoch], None],
        *,
        trigger: dict[str, Any],
        is_live: bool = False,
    ) -> None:
        """Run one streaming query to its end. If a stop is requested, end it after the current epoch.

        is_live: the query of the live phase, which a drain ends, too.
        """
        failure: list[BaseException] = []
        is_stopped = False

        def epoch(batch: DataFrame, batch_id: int) -> None:
            try:
                with self._pauses.epoch(lambda: self._ends(is_live=is_live)):
                    self._check_goes_on(is_live=is_live)
                    run(batch, Epoch(batch_id))
            except Exception as error:
                failure.append(error)  # Spark would turn the error into text
                raise
            except BaseException as error:
                failure.append(error)
                raise StopRequested from error  # Py4J answers Spark only after an Exception, and Spark would wait

        context = self._context
        is_limited = self._policy.mode != "mixed"
        facts = context.ranges.begin(
            context.spark_folder, context.line_sources, self._runner.latest, is_limited=is_limited
        )
        for text in facts:
            context.observer(Notice(text))
        location = context.spark_folder.location
        name = f"{self._context.spec.name}, start {self._context.generation} over {location}"  # no other query has it
        query = (
            frame.writeStream.foreachBatch(epoch)
            .queryName(name)
            .option("checkpointLocation", location)
            .trigger(**trigger)
            .start()
        )
        try:
            while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]  # a float is fine
                _check_has_session(frame.sparkSession)
                self._pauses.look()
                self._clock_watch.look()
                if self._ends(is_live=is_live) and not query.status["isTriggerActive"]:
                    is_stopped = True
                    query.stop()
        except PySparkException as error:
            failure.append(error)  # after the error of the epoch itself, if there is one
        except BaseException:  # such as Ctrl-C in a notebook: the query would go on, and commit, without anybody
            with suppress(PySparkException, Py4JError):  # Spark itself may have ended
                query.stop()
            raise
        _wait_until_gone(frame.sparkSession, query)
        if failure and not _is_stop(failure[0], is_stopped=is_stopped):
            raise failure[0]


def _check_has_session(session: SparkSession) -> None:
    """Raise RetryableError if the program has stopped the session: without one, a query waits for ever."""
    context = session.sparkContext._jsc  # noqa: SLF001 - PySpark has no public name; None when it has been stopped
    if context is None or context.sc().isStopped():
        msg = (
            "the Spark session was stopped while the job ran, as by spark.stop(), so the job cannot go on. What is "
            "committed stays. Run the job again: it resumes."
        )
        raise RetryableError(msg)


def _wait_until_gone(session: SparkSession, query: StreamingQuery) -> None:
    """Wait until Spark allows the next query over the checkpoint folder, a moment after the query has ended."""
    with suppress(PySparkException, Py4JError):  # Spark itself may have ended
        while any(active.id == query.id for active in session.streams.active):
            time.sleep(_POLL_SECONDS)


def _is_stop(failure: BaseException, *, is_stopped: bool) -> bool:
    """Return whether a query ended on request: before an epoch, or while Spark was preparing an epoch."""
    return isinstance(failure, StopRequested) or (is_stopped and isinstance(failure, PySparkException | Py4JError))
