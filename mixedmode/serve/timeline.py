"""The phases of a job over time: spans (starting, backlog, live), and marks (flip, restart, rescale, failure). Pure.

A span ends where the next one begins; the newest one has no end. Spans and marks are the newest ones only, so that a
job that runs for months keeps a timeline of constant size.

    spans   starting |  backlog        | live             | starting | live
    marks                              ^ flip   ^ rescale   ^ start
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mixedmode.checkpoint.types import epoch_kind
from mixedmode.driver.events import (
    EpochFailed,
    EpochStarted,
    Event,
    Flipped,
    PhaseBegan,
    PublishedLate,
    Rescaled,
    RescaleIgnored,
    WentBack,
)
from mixedmode.serve.documents import Document

__all__ = ["KEPT", "Span", "Timeline", "timeline_of"]

SpanKind = Literal["starting", "catching up", "backlog", "live", "paused", "stopped", "ended"]
KEPT = 500
_MARKS = {
    "starting": ("start", "the job was started"),
    "paused": ("pause", "paused: no epoch begins until the job is resumed"),
}


@dataclass(frozen=True, slots=True)
class Span:
    """A phase from `from_ms` on."""

    kind: SpanKind
    from_ms: int


@dataclass
class Timeline:
    """The newest spans and marks of a job, oldest first."""

    spans: deque[Span] = field(default_factory=lambda: deque(maxlen=KEPT))
    marks: deque[Document] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, event: Event, at_ms: int) -> None:
        """Add what an event says."""
        match event:
            case PhaseBegan(phase):
                self.begin("ended" if phase == "over" else phase, at_ms)
                if phase in _MARKS:
                    kind, text = _MARKS[phase]
                    self.mark(kind, at_ms, text)
            case EpochStarted(_, is_backlog, _):
                self.begin(epoch_kind(is_backlog=is_backlog), at_ms)
            case Flipped(flipped_ms, after_epoch):
                self.begin("live", flipped_ms)
                after = "there was no backlog" if after_epoch is None else f"after epoch {after_epoch}"
                self.mark("flip", flipped_ms, f"flip: live from here on, {after}")
            case Rescaled():
                steps = ", ".join(f"{step.operator_id} {step.before} to {step.now}" for step in event.steps)
                self.mark("rescale", at_ms, f"epoch {event.epoch}: subtasks of {steps}: {event.reason}")
            case RescaleIgnored(reason):
                self.mark("rescale", at_ms, reason)
            case EpochFailed():
                self.mark("failure", at_ms, f"epoch {event.epoch} failed and runs again: {event.reason}")
            case WentBack():
                self.mark("went back", at_ms, f"went back to checkpoint {event.to}, since later ones are damaged")
            case PublishedLate(epoch):
                self.mark("start", at_ms, f"epoch {epoch} of an earlier start was published")
            case _:
                pass

    def begin(self, kind: SpanKind, at_ms: int) -> None:
        """Begin a span, unless one of its kind is under way."""
        if not self.spans or self.spans[-1].kind != kind:
            self.spans.append(Span(kind, at_ms))

    def mark(self, kind: str, at_ms: int, text: str) -> None:
        """Add a mark.  text: for a person."""
        self.marks.append({"kind": kind, "at_ms": at_ms, "text": text})

    def document(self, *, before: "Timeline | None" = None) -> Document:
        """Return the timeline.  before: an earlier timeline of the same job, which ends where this one begins."""
        spans = [*([] if before is None else before.spans), *self.spans]
        marks = [*([] if before is None else before.marks), *self.marks]
        ends: list[int | None] = [span.from_ms for span in spans[1:]]
        return {
            "spans": [
                {"kind": span.kind, "from_ms": span.from_ms, "to_ms": end}
                for span, end in zip(spans, [*ends, None], strict=False)
            ],
            "marks": marks,
        }


def timeline_of(epochs: Sequence[Mapping[str, Any]]) -> Timeline:
    """Return the timeline of the epochs in a checkpoint folder, as far as their manifests tell.

    epochs: documents of manifests, oldest first. An epoch lasts from the commit before it to its own commit.
    """
    found = Timeline()
    for before, epoch in _pairs([epoch for epoch in epochs if "error" not in epoch]):
        began_ms = epoch["committed_ms"] if before is None else before["committed_ms"]
        found.begin(epoch["kind"], began_ms)
        if before is None:
            continue
        if before["start"] != epoch["start"]:
            found.mark("start", began_ms, f"the job was started again before epoch {epoch['epoch']}")
        if before["epoch"] == 0 and before["kind"] == "backlog":
            found.mark("flip", began_ms, "flip: live from here on, after epoch 0")
        changed = [
            f"{name} {before['steps'][name]['subtasks']} to {step['subtasks']}"
            for name, step in epoch["steps"].items()
            if name in before["steps"] and before["steps"][name]["subtasks"] != step["subtasks"]
        ]
        if changed:
            found.mark("rescale", began_ms, f"epoch {epoch['epoch']}: subtasks of {', '.join(changed)}")
    return found


def _pairs(epochs: Sequence[Mapping[str, Any]]) -> Iterable[tuple[Mapping[str, Any] | None, Mapping[str, Any]]]:
    """Return (the epoch before, the epoch) of each one."""
    return zip([None, *epochs[:-1]], epochs, strict=True) if epochs else ()
