"""The manifest of an epoch, from its input and the result of its stages."""

from mixedmode.checkpoint.contents import contents_after
from mixedmode.checkpoint.types import Manifest
from mixedmode.driver.epoch_context import EpochContext, EpochInput
from mixedmode.executor.protocol import EpochResult
from mixedmode.tasks.timing import source_progress
from mixedmode.time import MIN_TIME_US

__all__ = ["manifest_of"]


def manifest_of(context: EpochContext, given: EpochInput, result: EpochResult, latest: Manifest | None) -> Manifest:
    """Return the manifest of an epoch that follows the committed epoch `latest`."""
    settings, timing = given.task.settings, given.task.timing
    watermark_us = timing.after(result.progress).watermark_us
    return Manifest(
        job=context.spec.name,
        epoch=given.task.epoch,
        generation=context.generation,
        previous=None if latest is None else latest.epoch,
        created_ms=context.clock.now_ms(),
        is_backlog=given.policy.is_backlog,
        strategy=given.task.strategy,
        parallelism=settings.parallelism,
        max_parallelism=settings.max_parallelism,
        sources=source_progress(context.plan.progress_names, timing, result.progress, latest),
        watermark_us=None if watermark_us == MIN_TIME_US else watermark_us,
        step_watermarks=timing.steps_after(result.progress, context.plan.step_times),
        clock_ms=timing.clock_ms,
        is_final=timing.is_final,
        offsets=given.offsets,
        operators=result.operators,
        list_states=result.list_states,
        backlog_sources=tuple(sorted(given.policy.sources)),
        source_logs=given.source_logs,
        outputs=result.outputs,
        output_names=tuple(context.sinks.by_name),
        output_contents=contents_after(latest, given.task.epoch, result.outputs, tuple(context.sinks.by_name)),
        records_in=result.progress.records,
        records_late=result.progress.late,
        records_ahead=result.progress.ahead,
        records_skipped=result.skipped,
        rows_out=result.rows_out,
        pairs=result.pairs,
        dimensions=result.dimensions,
        topic_ids=context.topic_ids.of(given.offsets),
        rows_read=result.progress.rows_read,
        joins=result.joins,
    )
