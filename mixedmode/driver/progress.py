"""The progress of an epoch, from the figures of its tasks: what it has read, its phase, and the time left. Pure.

Invariants (tests/driver/test_progress.py):
  I1  the share of an epoch never falls, and is from 0 to 1
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mixedmode.checkpoint.types import Epoch
from mixedmode.counts import counted
from mixedmode.driver.events import EpochProgress, TaskPhase
from mixedmode.driver.pace import EpochPace, PartFigures, StepFigures, Work, subtask_shares

__all__ = ["EpochEstimate", "Moment", "progress_text"]

_NOTHING = (PartFigures(), PartFigures())


@dataclass(frozen=True, slots=True)
class Moment:
    """The figures of an epoch some seconds after its beginning, by step."""

    seconds: float
    steps: Mapping[str, StepFigures]


@dataclass
class EpochEstimate:
    """The progress of one epoch.  `steps`: those that run, in order.

    `bytes_total`, `records_total`: of the input files, the records about; None if unknown.
    """

    epoch: Epoch
    is_backlog: bool
    steps: Mapping[str, Work]
    bytes_total: int | None = None
    records_total: int | None = None
    _pace: EpochPace = field(init=False)
    _last: EpochProgress | None = None

    def __post_init__(self) -> None:
        self._pace = EpochPace(self.steps, self.bytes_total, self.records_total)

    def at(self, moment: Moment) -> EpochProgress:
        """Return the progress at a moment, which is not before the one of the last call."""
        parts = [part for step in self.steps for part in moment.steps.get(step, _NOTHING)]
        self._pace.look(moment.seconds, moment.steps)
        seconds_left = self._pace.seconds_left()
        share = 0.0 if seconds_left is None else moment.seconds / max(moment.seconds + seconds_left, 1e-9)
        names = list(self.steps)
        current = _current(parts)
        first, part = (parts[0], parts[current]) if parts else _NOTHING
        subtasks = parts[current | 1] if parts else PartFigures()  # of the same step
        bytes_read, bytes_total = self._bytes(first)
        self._last = EpochProgress(
            epoch=self.epoch,
            is_backlog=self.is_backlog,
            seconds=moment.seconds,
            step=names[current // 2] if names else "",
            phase=_phase(part, is_map=current % 2 == 0),
            share=max(share, 0.0 if self._last is None else self._last.share),
            seconds_left=seconds_left,
            records=first.records,
            records_total=self.records_total,
            bytes_read=bytes_read,
            bytes_total=bytes_total,
            tasks_done=part.tasks_done,
            tasks_total=part.tasks,
            keys_share=subtask_shares(subtasks, 0)[2],
            bytes_spilled=int(subtasks.bytes_spilled),
        )
        return self._last

    def done(self, seconds: float) -> EpochProgress:
        """Return the progress when all tasks have ended."""
        last = self._last or self.at(Moment(seconds, {}))
        return replace(
            last,
            seconds=seconds,
            phase="done",
            share=1.0,
            seconds_left=0.0,
            bytes_read=last.bytes_read if last.bytes_total is None else last.bytes_total,
            tasks_done=last.tasks_total,
        )

    def _bytes(self, first: PartFigures) -> tuple[int, int | None]:
        """Return the bytes of files that are read, and all bytes; None if unknown.  first: the part that reads them."""
        total = self.bytes_total or int(first.bytes_total) or None
        read = first.bytes_read
        if total is None:
            return int(read), None
        if self.records_total and not first.bytes_total:  # of Parquet that Spark reads, it counts hardly any bytes
            read = total * first.records / self.records_total
        return total if first.is_complete else min(int(read), total), total


def _current(parts: Sequence[PartFigures]) -> int:
    """Return the last part under way; if there is none, the last one that has ended.  parts: of all steps."""
    ended = [part.is_complete or any(one.has_begun for one in parts[at + 1 :]) for at, part in enumerate(parts)]
    begun = [at for at, part in enumerate(parts) if part.has_begun]
    return max([at for at in begun if not ended[at]] or begun, default=0)


def _phase(part: PartFigures, *, is_map: bool) -> TaskPhase:
    if not part.has_begun:
        return "planning"
    if is_map:
        return "reading"
    if part.stored * 2 >= part.tasks:
        return "storing"
    return "processing" if part.processed else "sorting"


def progress_text(event: EpochProgress) -> str:
    """Return an event for a person: step and phase, share, bytes and records, and the time left."""
    if event.phase == "done":  # dead letters, the manifest and publishing are still to come
        parts = ["all steps done, committing"]
    else:
        parts = [f"{event.step} {event.phase}", *([f"{event.share:.0%}"] if event.share else [])]
    if event.bytes_total:
        parts.append(f"{_megabytes(event.bytes_read)} of {_megabytes(event.bytes_total)} MB read")
    elif event.bytes_read:
        parts.append(f"{_megabytes(event.bytes_read)} MB read")
    if event.records:
        parts.append(counted(event.records, "record"))
    if event.bytes_spilled and event.phase != "done":
        parts.append(f"{_megabytes(event.bytes_spilled)} MB spilled")
    if event.keys_share and event.phase != "done":
        parts.append(f"{event.keys_share:.0%} of the keys done")
    if event.tasks_total and event.phase != "done":
        parts.append(f"{event.tasks_done} of {event.tasks_total} tasks done")
    if event.seconds_left is not None and event.phase != "done":
        parts.append(f"about {duration_text(event.seconds_left)} left")
    return ", ".join(parts)


def duration_text(seconds: float) -> str:
    """Return a duration for a person, no more exact than an estimate is: 40 s, 3 min, 2 h 10 min."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _megabytes(count: float) -> str:
    return f"{count / 1e6:,.0f}" if count >= 1e8 else f"{count / 1e6:,.1f}"
