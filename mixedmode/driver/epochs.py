"""One epoch, from Spark's micro-batch to the commit and the publication: the body of `foreachBatch`.

    decide what this epoch is -> run its stages -> manifest (THE commit) -> publish outputs -> return to Spark

After a failure before the manifest, the epoch runs again over the same range. After a failure later, the repeat finds
the manifest and only publishes. If the cause is outside mixedmode, the run itself repeats the epoch: as many times in a
row as the job tolerates.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import assert_never

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.decide import (
    EpochPolicy,
    Gap,
    Republish,
    RunEpoch,
    SkipPublished,
    SourceFacts,
    decide_epoch,
    decide_epoch_policy,
)
from mixedmode.checkpoint.gc import discard_attempts
from mixedmode.checkpoint.log import AlreadyCommitted, Committed
from mixedmode.checkpoint.retention import drop_old_checkpoints
from mixedmode.checkpoint.spark_log import has_new_input
from mixedmode.checkpoint.types import Epoch, Manifest, SourceLog, StagedFile
from mixedmode.crash_points import reach
from mixedmode.driver.dead_letters import FilesOf
from mixedmode.driver.epoch_context import EpochContext, EpochInput
from mixedmode.driver.epoch_manifest import manifest_of
from mixedmode.driver.events import EpochCommitted, EpochFailed, EpochStarted, processing_lag_seconds
from mixedmode.errors import CorruptStateError, FencedError, MixedmodeError, RetryableError
from mixedmode.executor.protocol import EpochResult, EpochTask, StageSettings
from mixedmode.profile import Profile, add_seconds
from mixedmode.sinks import Sinks
from mixedmode.spark.deadline import deadline
from mixedmode.spark.errors import explained
from mixedmode.spark.jvm import has_ended
from mixedmode.tasks.timing import Timing, timing_at

#: returns the settings of an epoch, once its policy is decided
SettingsOf = Callable[[Epoch, EpochPolicy], StageSettings]


class StopRequested(Exception):  # noqa: N818 - a request, not an error
    """The run was asked to stop before this epoch began; Spark passes the same epoch again at the next start."""


class EpochRunner:
    """Runs epochs one after the other. It alone writes manifests, so it knows the latest one."""

    def __init__(self, context: EpochContext, retained: Sequence[Manifest]) -> None:
        """`retained`: the existing manifests, oldest to newest."""
        self._context = context
        self._retained = list(retained)
        self._started_ms = context.clock.now_ms()
        self._seconds_before = 0.0  # of the epoch before
        self.inputs_taken = 0  # epochs of this start in which a source had something new, be it a file without records

    @property
    def latest(self) -> Manifest | None:
        """Return the newest manifest; None before the first commit."""
        return self._retained[-1] if self._retained else None

    def run(self, frame: DataFrame, epoch: Epoch, settings: SettingsOf, *, is_catching_up: bool) -> None:
        """Process one micro-batch from Spark. Raise the errors of ARCHITECTURE.md, section 10.

        settings: returns the settings of the epoch, once its policy is decided.
        """
        offsets = self._offsets(epoch)
        latest = self.latest
        decision = decide_epoch(
            epoch,
            latest=None if latest is None else latest.epoch,
            offsets=offsets,
            committed_offsets=self._committed_offsets(epoch),
        )
        match decision:
            case RunEpoch():
                policy = self._policy(offsets, is_catching_up=is_catching_up)
                timing = self._timing(policy)
                logs, read, files = self._new_input(offsets)
                plan = self._context.plan
                task = EpochTask.after(latest, plan, settings(epoch, policy), epoch, policy.strategy, timing, read)
                self._run_tolerantly(EpochInput(frame.sparkSession, frame, task, policy, offsets, logs, files))
            case Republish():
                assert latest is not None
                publish_committed(self._context.sinks, latest)
            case SkipPublished():
                pass  # its outputs were published before the next epoch began
            case Gap(reason):
                # another start, or a folder that was moved or deleted, explains it better
                self._context.log.check_newest(epoch, own=self._context.generation)
                raise CorruptStateError(reason)
            case _:
                assert_never(decision)

    def _new_input(self, offsets: str) -> tuple[tuple[SourceLog, ...], Mapping[str, tuple[str, ...]] | None, FilesOf]:
        """Return the source logs after the epoch, the files to read of each source (None if one logs none), and all.

        Those that tasks read themselves are always known: a source without an entry of its log has none yet.
        """
        context = self._context
        before = () if self.latest is None else self.latest.source_logs
        new = context.spark_folder.new_input(before, offsets, context.line_sources)
        present = context.present([file.url for files in new.files.values() for file in files])
        files = context.records.check(new.files, present, context.line_sources)
        has_all = new.files and set(context.line_sources) <= new.files.keys()
        return new.logs, context.files_of(files) if has_all or context.plan.direct else None, files

    def run_final(self, session: SparkSession, settings: SettingsOf) -> None:
        """Run the last epoch of a job whose input has ended: it has no input, and all timers and windows fire."""
        latest = self.latest
        epoch = Epoch(0 if latest is None else latest.epoch + 1)
        policy = EpochPolicy(is_backlog=False, strategy="streaming")
        timing, plan = self._timing(policy).at_the_end(), self._context.plan
        self._context.records.check({}, {}, self._context.line_sources)  # files of earlier epochs may change now
        task = EpochTask.after(latest, plan, settings(epoch, policy), epoch, policy.strategy, timing)
        logs = () if latest is None else latest.source_logs
        self._run_tolerantly(EpochInput(session, None, task, policy, offsets="", source_logs=logs))

    def _run_tolerantly(self, given: EpochInput) -> None:
        """Run an epoch. Repeat it after a failure outside mixedmode, unless more failed in a row than tolerated."""
        checkpointing = self._context.spec.execution.checkpointing
        failures = 0
        while True:
            try:
                self._run_and_commit(given, is_repeat=failures > 0)
                return
            except (MixedmodeError, PySparkException, Py4JError) as error:
                failures += 1
                found = explained(error, log_file=self._context.log_file)
                is_worth_a_repeat = isinstance(found, RetryableError) and not has_ended(error)
                if not is_worth_a_repeat or failures > checkpointing.tolerable_failed_checkpoints:
                    raise
                tolerable = checkpointing.tolerable_failed_checkpoints
                self._context.observer(EpochFailed(given.task.epoch, failures, tolerable, str(found)))
                # the cause may need a moment to go away; the job commits once an interval in any case
                if self._context.stop.wait(checkpointing.interval_ms / 1000):
                    raise

    def _run_and_commit(self, given: EpochInput, *, is_repeat: bool) -> None:
        """Run, commit and publish an epoch. If an earlier attempt has committed it, only publish."""
        context = self._context
        started = context.clock.seconds()
        result: EpochResult | None = None
        profile = Profile(context.clock.seconds)
        if not (is_repeat and self._is_committed(given.task.epoch)):
            context.observer(EpochStarted(given.task.epoch, given.policy.is_backlog, given.policy.strategy))
            before = "" if self.latest is None else self.latest.offsets
            with profile.stage("driver: tasks"):
                context.spark_folder.check_read_once()
                context.topic_ids.look(before, given.offsets)
                if self.latest is None:
                    context.topic_ids.note_beginning(context.log.store)
                context.expired.look(context.spark_folder, context.line_sources, before=before, now=given.offsets)
                # which range an epoch has must be stored before its commit, not before its tasks
                with context.aside.beside(lambda: context.spark_folder.store_entries(given.task.epoch)):
                    result = self._run_stages(given, before)
            with profile.stage("driver: commit"):
                context.aside.settle()
                manifest = manifest_of(context, given, result, self.latest)
                reach("before-manifest", given.task.epoch)
                manifest = self._commit(manifest)
            self.inputs_taken += has_new_input(before, given.offsets, has_clock=context.plan.uses_clock)
            self._retained.append(manifest)
        manifest = self._retained[-1]
        with profile.stage("driver: publish"):
            publish_committed(context.sinks, manifest)
        with profile.stage("driver: drop old checkpoints"):
            context.aside.after(self._drop_old_checkpoints)
        spent = add_seconds({} if result is None else result.profile, profile.seconds)
        seconds = context.clock.seconds() - started
        interval_seconds = context.spec.execution.checkpointing.interval_ms / 1000
        lag = processing_lag_seconds(seconds, self._seconds_before, interval_seconds)
        self._seconds_before = seconds
        committed = EpochCommitted.of(manifest, result, seconds=seconds, processing_lag_seconds=lag, profile=spent)
        context.observer(committed)

    def _is_committed(self, epoch: Epoch) -> bool:
        """Return whether an attempt of this start has committed the epoch.

        The store may have failed after the commit, before it answered; so look for the manifest in the store.
        """
        if self.latest is None or self.latest.epoch < epoch:
            existing = self._context.log.get(epoch)
            if existing is None or existing.generation != self._context.generation:
                return False
            self._retained.append(existing)
        return True

    def _run_stages(self, given: EpochInput, before: str) -> EpochResult:
        context = self._context
        # a backlog has no time limit: its only checkpoint is the one at its end
        limit_ms = None if given.policy.is_backlog else context.spec.execution.checkpointing.timeout_ms
        tag = f"mixedmode-{context.generation}-{given.task.epoch}"
        try:
            with context.records.reading(), deadline(given.session, limit_ms, tag=tag):
                frame = None if given.frame is None else context.ranges.rows(given.frame, before, given.offsets)
                result = context.executor.run_epoch(given.task, frame)
                result = replace(result, outputs=(*result.outputs, *self._dead_letters(given, before)))
            context.topic_ids.check_read(before, given.offsets)
            context.reading_checks.check(before, given.offsets)
            folder, lines = context.spark_folder, context.line_sources
            context.expired.look(folder, lines, before=before, now=given.offsets, is_read=True)
            return result
        except Exception:
            self._discard(given.task.epoch)
            with suppress(PySparkException, Py4JError):  # the first failure is reported, if no check explains it
                context.reading_checks.check(before, given.offsets)
            raise

    def _dead_letters(self, given: EpochInput, before: str) -> tuple[StagedFile, ...]:
        task, context = given.task, self._context
        dead, folder, lines = context.dead_letters, context.spark_folder, context.line_sources
        return dead.stage(task.epoch, task.settings, folder, given.files, lines, before=before, now=given.offsets)

    def _timing(self, policy: EpochPolicy) -> Timing:
        spec = self._context.spec
        return timing_at(
            self._context.plan.strategies,
            self.latest,
            self._context.clock.now_ms(),
            started_ms=self._started_ms,
            partitioned=self._context.plan.partitions,
            backlog=policy.sources,
            fires_all=policy.is_backlog and spec.execution.backlog.end_of_key_watermark == "max",
        )

    def _discard(self, epoch: Epoch) -> None:
        """Delete the files that the tasks of a failed epoch have written, so that a full disk does not fill further."""
        log, sinks, own = self._context.log, self._context.sinks.stores, self._context.generation
        with suppress(RetryableError):  # the first failure is the one to report
            discard_attempts(log, sinks=sinks, epoch=epoch, own=own)

    def _drop_old_checkpoints(self) -> None:
        context = self._context
        num_retained = context.spec.execution.checkpointing.num_retained
        drop_old_checkpoints(context.log, self._retained, num_retained=num_retained, now_ms=context.clock.now_ms())

    def _policy(self, offsets: str, *, is_catching_up: bool) -> EpochPolicy:
        """Return the policy of the epoch. Only input that is present at a fresh start is initial backlog."""
        latest = self.latest
        says = self._context.backlogs.of_epoch("" if latest is None else latest.offsets, offsets)
        known = {} if latest is None else latest.sources
        sources = {
            name: SourceFacts(known[name].watermark_us if name in known else None, name in says)
            for name in self._context.plan.sources_read
        }
        return decide_epoch_policy(
            self._context.mode,
            is_initial_backlog=is_catching_up and latest is None,
            sources=sources,
            now_ms=self._context.clock.now_ms(),
            lag_threshold_ms=self._context.spec.pipeline.backlog.watermark_lag_threshold_ms,
        )

    def _commit(self, manifest: Manifest) -> Manifest:
        log = self._context.log
        outcome = log.commit(manifest, log.check_newest(manifest.epoch, own=self._context.generation))
        match outcome:
            case Committed(manifest=committed):
                self._check_not_overtaken(committed)
                return committed
            case AlreadyCommitted(existing=committed):
                if committed.offsets != manifest.offsets:
                    raise _committed_otherwise(committed)
                return committed
            case _:
                assert_never(outcome)

    def _check_not_overtaken(self, committed: Manifest) -> None:
        """Raise FencedError if a newer start has committed a later epoch; then nothing of this epoch is published.

        If this start paused for long right before its commit, the newer start may have committed this epoch and dropped
        the checkpoint again, so that the name of the manifest was free.
        """
        epochs = self._context.log.epochs()
        if epochs and epochs[-1] > committed.epoch:
            msg = (
                "a newer start of this job has taken over its checkpoint folder and is past this epoch, so this one "
                "stops without publishing it. Nothing is lost: the other one goes on. If both were started by mistake, "
                "stop the one that is not wanted. "
                f"epoch={committed.epoch}, latest_committed={epochs[-1]}, own_generation={committed.generation}"
            )
            raise FencedError(msg)

    def _offsets(self, epoch: Epoch) -> str:
        text = self._context.spark_folder.offsets(epoch)
        if text is None:
            msg = (
                "Spark's record of what an epoch covers is gone, so the epoch could not be repeated exactly. Something "
                "deletes files of the checkpoint folder. Find out what it is, then start the job again. "
                f"file={self._context.log.store.url}/{paths.spark_offsets_path(epoch)}"
            )
            raise CorruptStateError(msg)
        return text.decode()

    def _committed_offsets(self, epoch: Epoch) -> str | None:
        if self.latest is None or epoch > self.latest.epoch:
            return None
        manifest = self.latest if epoch == self.latest.epoch else self._context.log.get(epoch)
        return None if manifest is None else manifest.offsets


def _committed_otherwise(committed: Manifest) -> RetryableError:
    msg = (
        "an older start of this job has committed the epoch that this one was about to commit, over another range of "
        "the input, so this one commits nothing and stops. Nothing is lost: end the older start, and start the job "
        f"again. It goes on after that epoch. epoch={committed.epoch}, generation={committed.generation}"
    )
    return RetryableError(msg)


def publish_committed(sinks: Sinks, manifest: Manifest) -> None:
    """Publish the outputs of a committed epoch, for the first time or again."""
    reach("after-manifest", manifest.epoch)
    sinks.publish(manifest.epoch, manifest.outputs)
    reach("after-publish", manifest.epoch)
