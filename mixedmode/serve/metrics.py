"""The metrics of a running job for Prometheus: an observer of its events, with a registry of its own.

Counters count from this start of the process. Names follow Prometheus: the prefix `mixedmode_`, the unit in base units
(seconds, bytes), `_total` for counters. Labels are bounded: the kind of an epoch, and names that the job file has.
"""

import math
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from mixedmode.checkpoint.types import epoch_kind
from mixedmode.clock import Clock, SystemClock
from mixedmode.config import JobSpec, resolve_mode
from mixedmode.driver.events import (
    EpochCommitted,
    EpochFailed,
    EpochProgress,
    EpochStarted,
    Event,
    Flipped,
    PhaseBegan,
    RecordsExpired,
    Rescaled,
    WentBack,
)
from mixedmode.serve.documents import epoch_document

__all__ = ["CONTENT_TYPE", "JobMetrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PHASES = ("starting", "catching up", "live", "paused", "ended", "over")
_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)


class _Ages(Collector):
    """Gauges whose value is computed when they are read."""

    def __init__(self, metrics: "JobMetrics") -> None:
        self._metrics = metrics

    def collect(self) -> list[GaugeMetricFamily]:
        """Return the seconds since the last commit, and of the epoch under way."""
        now, metrics = self._metrics.clock.seconds(), self._metrics
        commit, began = metrics.committed_at, metrics.epoch_began_at
        text = "Seconds since the start of the epoch under way; 0 if none is."
        families = [GaugeMetricFamily("mixedmode_epoch_age_seconds", text, 0.0 if began is None else now - began)]
        if commit is not None:
            text = "Seconds since the last commit of this process."
            families.append(GaugeMetricFamily("mixedmode_commit_age_seconds", text, now - commit))
        return families


class _WithoutCreated(CollectorRegistry):
    """A registry without the times at which its counters were created: Prometheus would store them as gauges."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self._registry = registry

    @override
    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


class JobMetrics:
    """An observer that counts."""

    def __init__(self, spec: JobSpec, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.committed_at: float | None = None
        self.epoch_began_at: float | None = None
        self.registry = CollectorRegistry()
        self._counters()
        self._gauges()
        self._backlog_gauges()
        self.registry.register(_Ages(self))
        info = Gauge("mixedmode_job_info", "The job; always 1.", ["name", "mode"], registry=self.registry)
        info.labels(spec.name, resolve_mode(spec).mode).set(1)
        for kind in ("backlog", "live"):  # a counter exists from the beginning, so that its first increase is seen
            for counter in (self._records, self._rows, self._epoch_seconds):
                counter.labels(kind)

    def _counters(self) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"mixedmode_{name}", text, labels, registry=self.registry)

        self._records = counter("records", "Records of committed epochs.", "kind")
        self._rows_read = counter("step_rows_read", "Rows that a keyed step read in committed epochs.", "step")
        self._rows = counter("rows_out", "Rows that committed epochs wrote to the outputs.", "kind")
        self._late = counter("records_late", "Records that were too late for every window, and late rows of joins.")
        self._late_of_joins = counter("join_rows_late", "Late rows of a join, by side.", "step", "side")
        self._ahead = counter("records_ahead", "Records too far ahead of the clock to move the watermark.")
        self._skipped = counter("records_skipped", "Records that were dropped because a function failed on them.")
        self._expired = counter("records_expired", "Records that Kafka deleted before they were read.", "source")
        self._pairs = counter("state_pairs_written", "Pairs of key and state that subtasks wrote.")
        self._spills = counter("spilled_runs", "Sorted runs that did not fit into memory and went to disk.")
        self._failures = counter("epoch_failures", "Attempts of an epoch that failed; each is repeated.")
        self._rescales = counter("rescales", "Epochs that had another number of subtasks than the one before.")
        self._went_back = counter("went_back", "Starts from an older checkpoint, because newer ones are damaged.")
        text = "Seconds by stage. Stages of tasks add up over all tasks; those of the driver are elapsed seconds."
        self._stages = counter("stage_seconds", text, "stage")
        text = "Seconds from the start of an epoch to the publication of its outputs."
        self._epoch_seconds = Histogram(
            "mixedmode_epoch_seconds", text, ["kind"], buckets=_SECONDS, registry=self.registry
        )

    def _gauges(self) -> None:
        gauge = self._gauge
        self._phase = gauge("phase", "1 for the phase of the run, 0 for the others.", "phase")
        self._epoch = gauge("epoch", "The newest committed epoch; -1 before the first one.")
        self._epoch.set(-1)
        self._is_backlog = gauge("epoch_is_backlog", "1 if the newest epoch, begun or committed, is backlog.")
        text = "Time of the flip, in seconds since 1970; 0 before it."
        self._flip = gauge("flip_timestamp_seconds", text)
        self._commit_time = gauge(
            "commit_timestamp_seconds", "Time of the last commit, in seconds since 1970; 0 before it."
        )
        self._watermark = gauge(
            "watermark_timestamp_seconds", "The watermark of a source, in seconds since 1970.", "source"
        )
        self._source_records = gauge("source_records", "Records read from a source since the job began.", "source")
        text = "How far the watermark is behind the time of the last commit; NaN without a watermark."
        self._lag = gauge("event_time_lag_seconds", text)
        text = "How long the oldest record of the last live epoch waited for its result, beyond the interval."
        self._processing_lag = gauge("processing_lag_seconds", text)
        self._processing_lag.set(math.nan)
        self._lag.set(math.nan)
        self._state_bytes = gauge("state_bytes", "Bytes of the committed state of a step.", "step")
        text = "Entries of the committed state of a step. A key counts in every run that holds it."
        self._state_entries = gauge("state_entries", text, "step")
        self._state_runs = gauge("state_runs", "Files of the committed state of a step.", "step")
        text = "Most partners that a row found that arrived in the last epoch of a join."
        self._fan_out = gauge("join_fan_out_max", text, "step")
        text = "99 % of the rows that arrived in the last epoch of a join found at most so many partners."
        self._fan_out_p99 = gauge("join_fan_out_p99", text, "step")
        self._subtasks = gauge("subtasks", "Number of subtasks of a step in the last epoch.", "step")

    def _backlog_gauges(self) -> None:
        gauge = self._gauge
        self._share = gauge("progress_ratio", "Share of the work of the epoch under way that is done, from 0 to 1.")
        self._left = gauge(
            "progress_left_seconds", "Estimated seconds until the tasks of the epoch under way end; -1 if unknown."
        )
        self._bytes = gauge("progress_read_bytes", "Bytes of input files that the epoch under way has read.")
        self._bytes_total = gauge("progress_input_bytes", "Bytes of all its input files; 0 if unknown.")
        self._progress_records = gauge("progress_records", "Records that the epoch under way has read.")
        self._progress_records_total = gauge(
            "progress_input_records", "About how many records its input has; 0 if unknown."
        )
        self._tasks_done = gauge("progress_tasks_done", "Tasks of the part under way that have ended.")
        self._tasks = gauge("progress_tasks", "Tasks of the part under way.")
        self._keys = gauge("progress_keys_ratio", "Share of the keys of the step under way that are processed.")
        self._spilled = gauge("progress_spilled_bytes", "Bytes that the step under way has spilled to sort its rows.")

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"mixedmode_{name}", text, labels, registry=self.registry)

    def exposition(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(_WithoutCreated(self.registry))

    def __call__(self, event: Event) -> None:
        """Count one event."""
        match event:
            case PhaseBegan(phase):
                for known in _PHASES:
                    self._phase.labels(known).set(known == phase)
            case EpochStarted(_, is_backlog, _):
                self.epoch_began_at = self.clock.seconds()
                self._is_backlog.set(is_backlog)
                self._begin_progress()
            case RecordsExpired():
                self._expired.labels(event.source).inc(event.end - event.start)
            case EpochProgress():
                self._progress(event)
            case EpochCommitted():
                self._committed(event)
            case EpochFailed():
                self.epoch_began_at = None
                self._failures.inc()
            case Flipped(at_ms, _):
                self._flip.set(at_ms / 1000)
            case Rescaled():
                self._rescales.inc()
            case WentBack():
                self._went_back.inc()
            case _:
                pass

    def _begin_progress(self) -> None:
        """Set the progress of an epoch that has just begun. One that is over keeps its last figures."""
        totals = (self._bytes_total, self._progress_records_total, self._tasks, self._keys, self._spilled)
        for gauge in (self._share, self._bytes, self._progress_records, self._tasks_done, *totals):
            gauge.set(0)
        self._left.set(-1)

    def _progress(self, event: EpochProgress) -> None:
        self._share.set(event.share)
        self._left.set(-1 if event.seconds_left is None else event.seconds_left)
        self._bytes.set(event.bytes_read)
        self._bytes_total.set(event.bytes_total or 0)
        self._progress_records.set(event.records)
        self._progress_records_total.set(event.records_total or 0)
        self._tasks_done.set(event.tasks_done)
        self._tasks.set(event.tasks_total)
        self._keys.set(event.keys_share)
        self._spilled.set(event.bytes_spilled)

    def _committed(self, event: EpochCommitted) -> None:
        kind = epoch_kind(is_backlog=event.is_backlog)
        self.committed_at, self.epoch_began_at = self.clock.seconds(), None
        self._records.labels(kind).inc(event.records)
        self._rows.labels(kind).inc(event.rows_out)
        self._epoch_seconds.labels(kind).observe(event.seconds)
        for step, read in event.rows_read.items():
            self._rows_read.labels(step).inc(read)
        self._late.inc(event.records_late)
        for step, figures in event.joins.items():
            for side, late in zip(("left", "right"), figures.late, strict=True):
                self._late_of_joins.labels(step, side).inc(late)
            self._fan_out.labels(step).set(figures.fan_out_max)
            self._fan_out_p99.labels(step).set(figures.fan_out_p99)
        self._ahead.inc(event.records_ahead)
        self._skipped.inc(event.records_skipped)
        self._pairs.inc(event.pairs)
        self._spills.inc(event.spilled_runs)
        for stage, seconds in event.profile.items():
            self._stages.labels(stage).inc(max(0.0, seconds))
        self._epoch.set(event.epoch)
        self._is_backlog.set(event.is_backlog)
        self._commit_time.set(event.created_ms / 1000)
        self._lag.set(math.nan if event.lag_seconds is None else event.lag_seconds)
        if event.processing_lag_seconds is not None:
            self._processing_lag.set(event.processing_lag_seconds)
        document = epoch_document(event)
        for step, state in document.get("steps", {}).items():
            self._state_bytes.labels(step).set(state["bytes"])
            self._state_entries.labels(step).set(state["entries"])
            self._state_runs.labels(step).set(state["runs"])
            self._subtasks.labels(step).set(state["subtasks"])
        for source, progress in document.get("sources", {}).items():
            self._source_records.labels(source).set(progress["records"])
            if progress["watermark_ms"] is not None:
                self._watermark.labels(source).set(progress["watermark_ms"] / 1000)
