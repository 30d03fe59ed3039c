"""The epochs of a run as traces of OpenTelemetry: an epoch is a trace, and each of its stages a span.

    epoch                           |----------------------------------|
      tasks                         |--------------------------|
        totals: reading                |--------|
        totals: sorting                         |--------------|
      commit                                                   |---|
      publish                                                      |---|

The stages of the driver follow each other, so their lengths say where they are. The phases of the tasks are those that
the progress of the epoch has told, as in a backlog; short epochs have none. What tasks do at the same time is no span:
its seconds of work, added up over all tasks, are attributes of the epoch.

The observer takes any tracer provider. `exported_traces` has one that sends spans by OTLP over HTTP, and is configured
by OpenTelemetry's variables of the environment, such as OTEL_EXPORTER_OTLP_ENDPOINT.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from mixedmode.checkpoint.types import epoch_kind
from mixedmode.clock import Clock, SystemClock
from mixedmode.driver.events import EpochCommitted, EpochFailed, EpochProgress, EpochStarted, Event, Observer
from mixedmode.errors import InvalidJobError
from mixedmode.installed import install_command

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["EpochTraces", "exported_traces"]

_DRIVER = "driver: "
_NS = 1_000_000  # of a millisecond


@dataclass
class _UnderWay:
    """An epoch under way: when it began, by both clocks, and (start, name) of the phases that its tasks have told."""

    began_ms: int
    began_seconds: float
    phases: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class EpochTraces:
    """An observer that makes a trace of each epoch. `job`: the name of the job, which every trace has."""

    job: str
    provider: "TracerProvider"
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        self._tracer = self.provider.get_tracer("mixedmode")
        self._under_way: _UnderWay | None = None

    def __call__(self, event: Event) -> None:
        """Take one event."""
        now_ms = self._now_ms()
        match event:
            case EpochStarted():
                self._under_way = _UnderWay(self.clock.now_ms(), self.clock.seconds())
            case EpochProgress():
                self._note_phase(event, now_ms)
            case EpochCommitted():
                self._end(event, now_ms)
            case EpochFailed():
                self._fail(event, now_ms)
            case _:
                pass

    def _now_ms(self) -> int:
        """Return the time. While an epoch is under way, it follows the stopwatch, so no span ends before it begins."""
        if self._under_way is None:
            return self.clock.now_ms()
        return self._under_way.began_ms + round(1000 * (self.clock.seconds() - self._under_way.began_seconds))

    def _note_phase(self, event: EpochProgress, now_ms: int) -> None:
        if self._under_way is None:
            return
        name = "" if event.phase == "done" else f"{event.step}: {event.phase}"
        phases = self._under_way.phases
        if (phases[-1][1] if phases else "") != name:
            phases.append((now_ms, name))

    def _end(self, event: EpochCommitted, now_ms: int) -> None:
        length_ms = round(1000 * event.seconds)
        under_way = self._under_way or _UnderWay(now_ms - length_ms, 0.0)  # one that is only published has no start
        self._under_way = None
        span = self._epoch(event.epoch, under_way.began_ms)
        span.set_attributes(
            {
                "mixedmode.kind": epoch_kind(is_backlog=event.is_backlog),
                "mixedmode.strategy": event.strategy,
                "mixedmode.records": event.records,
                "mixedmode.rows_out": event.rows_out,
                "mixedmode.state_bytes": event.state_bytes,
                "mixedmode.records_late": event.records_late,
                "mixedmode.spilled_runs": event.spilled_runs,
                **{
                    f"mixedmode.work_seconds.{name.replace(' ', '_')}": seconds
                    for name, seconds in event.profile.items()
                    if not name.startswith(_DRIVER)
                },
            }
        )
        at_ms = float(under_way.began_ms)
        for name, seconds in event.profile.items():
            if name.startswith(_DRIVER):
                stage = self._child(span, name.removeprefix(_DRIVER), at_ms)
                if name == f"{_DRIVER}tasks":
                    self._add_phases(stage, under_way, at_ms + 1000 * seconds)
                at_ms += 1000 * seconds
                stage.end(round(_NS * at_ms))
        span.end(_NS * max(under_way.began_ms + length_ms, round(at_ms)))

    def _add_phases(self, tasks: "Span", under_way: _UnderWay, end_ms: float) -> None:
        phases = [*((min(float(at_ms), end_ms), name) for at_ms, name in under_way.phases), (end_ms, "")]
        for (from_ms, name), (to_ms, _) in pairwise(phases):
            if name:
                self._child(tasks, name, from_ms).end(round(_NS * to_ms))

    def _fail(self, event: EpochFailed, now_ms: int) -> None:
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - of the extra

        began_ms = now_ms if self._under_way is None else self._under_way.began_ms
        self._under_way = None
        span = self._epoch(event.epoch, began_ms)
        span.set_attribute("mixedmode.failures", event.failures)
        span.set_status(Status(StatusCode.ERROR, event.reason))
        span.end(_NS * now_ms)

    def _epoch(self, epoch: int, began_ms: int) -> "Span":
        """Return the root of a new trace."""
        from opentelemetry.context import Context  # noqa: PLC0415 - of the extra

        attributes: dict[str, str | int] = {"mixedmode.job": self.job, "mixedmode.epoch": epoch}
        return self._tracer.start_span("epoch", Context(), attributes=attributes, start_time=_NS * began_ms)

    def _child(self, parent: "Span", name: str, at_ms: float) -> "Span":
        from opentelemetry.context import Context  # noqa: PLC0415 - of the extra
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415 - of the extra

        return self._tracer.start_span(name, set_span_in_context(parent, Context()), start_time=round(_NS * at_ms))


@contextmanager
def exported_traces(job: str) -> Iterator[Observer]:
    """Return an observer whose traces are sent by OTLP over HTTP; the last ones are sent at the end of the block.

    Raise InvalidJobError with the command that installs the packages, if they are missing.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ModuleNotFoundError as error:
        command = install_command("otel")
        msg = f"traces need packages that are not installed. Install them: {command}. missing={error.name}"
        raise InvalidJobError(msg) from error
    provider = TracerProvider(resource=Resource.create({"service.name": "mixedmode", "service.instance.id": job}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield EpochTraces(job, provider)
    finally:
        provider.shutdown()
