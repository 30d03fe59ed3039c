"""One epoch, from Spark's micro-batch to the commit and the publication: the body of `foreachBatch`.

    decide what this epoch is -> run its stages -> manifest (THE commit) -> publish outputs -> return to Spark

A failure anywhere before the manifest leaves the epoch to be run again over the same range; after it, the repeat finds
the manifest and only publishes.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.decide import (
    CommitPermit,
    EpochPath,
    Fenced,
    Gap,
    Mode,
    Republish,
    RunEpoch,
    SkipPublished,
    decide_epoch,
    decide_epoch_path,
)
from mixedmode.checkpoint.gc import discard_attempts, drop_checkpoint
from mixedmode.checkpoint.log import AlreadyCommitted, CheckpointLog, Committed
from mixedmode.checkpoint.types import Epoch, Generation, Manifest
from mixedmode.clock import Clock
from mixedmode.config import JobSpec
from mixedmode.crash_points import reach
from mixedmode.errors import CorruptStateError, FencedError, RetryableError
from mixedmode.job.plan import JobPlan
from mixedmode.runtime.events import EpochCommitted, EpochStarted, Observer
from mixedmode.runtime.stages import EpochResult, EpochTask, StageSettings, run_stages
from mixedmode.runtime.timing import Timing, source_progress, timing_at
from mixedmode.sinks import Sinks
from mixedmode.time import MIN_TIME_US


class StopRequested(Exception):  # noqa: N818 - a request, not an error
    """The run was asked to stop before this epoch began; Spark hands the epoch over again at the next start."""


@dataclass(frozen=True, slots=True)
class EpochContext:
    """What does not change between the epochs of a run."""

    spec: JobSpec
    plan: JobPlan
    log: CheckpointLog
    generation: Generation
    sinks: Sinks
    mode: Mode
    clock: Clock
    observer: Observer


class EpochRunner:
    """Runs epochs one after the other; remembers the latest manifest, which only it writes."""

    def __init__(self, context: EpochContext, retained: Sequence[Manifest]) -> None:
        """`retained`: the manifests there are, oldest to newest."""
        self._context = context
        self._retained = list(retained)
        self._started_ms = context.clock.now_ms()
        self.inputs_taken = 0  # epochs of this start in which there was something new

    @property
    def latest(self) -> Manifest | None:
        """The newest manifest."""
        return self._retained[-1] if self._retained else None

    def run(self, frame: DataFrame, epoch: Epoch, settings: StageSettings, *, is_catching_up: bool) -> None:
        """Handle one micro-batch that Spark hands over. Raises the errors of architecture section 3."""
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
                path = self._path(is_catching_up=is_catching_up)
                timing = self._timing(path)
                self._run_and_commit(frame.sparkSession, frame, epoch, settings, path, timing, offsets=offsets)
            case Republish():
                assert latest is not None
                self._context.sinks.publish(latest.outputs)
            case SkipPublished():
                pass  # it was published before the epoch after it began
            case Gap(reason):
                raise CorruptStateError(reason)
            case _:
                assert_never(decision)

    def run_final(self, session: SparkSession, settings: StageSettings) -> None:
        """The epoch after the last record there will ever be: without input, and everything that waits fires."""
        latest = self.latest
        epoch = Epoch(0 if latest is None else latest.epoch + 1)
        path = EpochPath(is_backlog=False, path="streaming")
        timing = self._timing(path).at_the_end()
        self._run_and_commit(session, None, epoch, settings, path, timing, offsets="")

    def _run_and_commit(  # what an epoch is made of
        self,
        session: SparkSession,
        frame: DataFrame | None,
        epoch: Epoch,
        settings: StageSettings,
        path: EpochPath,
        timing: Timing,
        *,
        offsets: str,
    ) -> None:
        context, latest = self._context, self.latest
        started = context.clock.seconds()
        context.observer.on_epoch_started(EpochStarted(epoch, path.is_backlog, path.path))
        state = () if latest is None else latest.operators
        try:
            result = run_stages(session, frame, context.plan, settings, EpochTask(epoch, path.path, timing, state))
        except Exception:
            self._discard(epoch)
            raise
        manifest = self._manifest(epoch, path, settings, timing, result, offsets=offsets)
        reach("before-manifest", epoch)
        manifest = self._commit(manifest)
        self._retained.append(manifest)
        if manifest.records_in or not context.plan.uses_clock:  # the clock has something new in every epoch
            self.inputs_taken += 1
        reach("after-manifest", epoch)
        context.sinks.publish(manifest.outputs)
        reach("after-publish", epoch)
        self._drop_old_checkpoints()
        context.observer.on_epoch_committed(_committed(manifest, result, context.clock.seconds() - started))

    def _timing(self, path: EpochPath) -> Timing:
        spec = self._context.spec
        return timing_at(
            self._context.plan.strategies,
            self.latest,
            self._context.clock.now_ms(),
            started_ms=self._started_ms,
            is_partitioned=self._context.plan.is_partitioned,
            is_backlog=path.is_backlog,
            fires_all=path.is_backlog and spec.execution.backlog.end_of_key_watermark == "max",
        )

    def _discard(self, epoch: Epoch) -> None:
        """What the tasks of an epoch that failed have written: on a full disk, it would only fill it further."""
        context = self._context
        with suppress(RetryableError):  # the failure that brought us here is the one to tell of
            discard_attempts(context.log, sinks=context.sinks.stores, epoch=epoch, own=context.generation)

    def _drop_old_checkpoints(self) -> None:
        while len(self._retained) > self._context.spec.execution.checkpointing.num_retained:
            dropped = self._retained.pop(0)
            drop_checkpoint(self._context.log, dropped, self._retained)

    def _path(self, *, is_catching_up: bool) -> EpochPath:
        """Backlog or live, sorted or streaming. Only what is there when a fresh job starts is its initial backlog."""
        return decide_epoch_path(
            self._context.mode,
            is_initial_backlog=is_catching_up and self.latest is None,
            watermark_us=None if self.latest is None else self.latest.watermark_us,
            now_ms=self._context.clock.now_ms(),
            lag_threshold_ms=self._context.spec.pipeline.backlog.watermark_lag_threshold_ms,
        )

    def _commit(self, manifest: Manifest) -> Manifest:
        log = self._context.log
        permit = log.ask_permit(manifest.epoch, own=self._context.generation)
        match permit:
            case Fenced(reason=reason):
                raise FencedError(reason)
            case CommitPermit():
                outcome = log.commit(manifest, permit)
            case _:
                assert_never(permit)
        match outcome:
            case Committed(manifest=committed) | AlreadyCommitted(existing=committed):
                return committed
            case _:
                assert_never(outcome)

    def _manifest(
        self,
        epoch: Epoch,
        path: EpochPath,
        settings: StageSettings,
        timing: Timing,
        result: EpochResult,
        *,
        offsets: str,
    ) -> Manifest:
        context = self._context
        watermark_us = timing.after(result.progress).watermark_us
        return Manifest(
            job=context.spec.name,
            epoch=epoch,
            generation=context.generation,
            previous=None if self.latest is None else self.latest.epoch,
            created_ms=context.clock.now_ms(),
            is_backlog=path.is_backlog,
            path=path.path,
            parallelism=settings.parallelism,
            max_parallelism=settings.max_parallelism,
            sources=source_progress(context.plan.progress_names, timing, result.progress, self.latest),
            watermark_us=None if watermark_us == MIN_TIME_US else watermark_us,
            clock_ms=timing.clock_ms,
            is_final=timing.is_final,
            offsets=offsets,
            operators=result.operators,
            outputs=result.outputs,
            output_names=tuple(context.sinks.by_name),
            records_in=result.progress.records,
            records_late=result.progress.late,
            records_ahead=result.progress.ahead,
            records_skipped=result.skipped,
            rows_out=result.rows_out,
            pairs=result.pairs,
        )

    def _offsets(self, epoch: Epoch) -> str:
        text = self._context.log.store.get(paths.spark_offsets_path(epoch))
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


def _committed(manifest: Manifest, result: EpochResult, seconds: float) -> EpochCommitted:
    return EpochCommitted(
        epoch=manifest.epoch,
        is_backlog=manifest.is_backlog,
        path=manifest.path,
        records=manifest.records_in,
        rows_out=manifest.rows_out,
        pairs=manifest.pairs,
        state_bytes=sum(run.bytes for operator in manifest.operators for run in operator.runs),
        spilled_runs=result.spilled_runs,
        migration_seconds=result.migration_seconds,
        watermark_us=manifest.watermark_us,
        records_late=manifest.records_late,
        records_ahead=manifest.records_ahead,
        records_skipped=manifest.records_skipped,
        seconds=seconds,
    )
