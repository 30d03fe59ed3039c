"""The progress of an epoch, and an estimate of the time left, from the figures of its tasks. Pure.

An epoch is a row of parts: for each step, the map side and then the subtasks. Each part is measured as a share from 0
to 1. Steps that do not wait for each other run at the same time. The duration of a part is

    ended        what it took
    under way    its time so far / its share; while the share is small, mostly what is expected. The time before the
                 first task shows any work is left out, because Spark and Python start in it
    not begun    what is expected: its weight, times the seconds per weight of the parts before it

    Example: the map side has weight 1 and took 60 s, the subtasks have weight 0.5 and a share of 0.2 after 6 s.
    Expected are 30 s; measured are 6 / 0.2 = 30 s, too. So 24 s are left, and the share of the epoch is 66 / 90.

Of parts under way at the same time, the one with the most seconds left counts. Parts that have not begun count one
after the other.

The weight of subtasks follows from the number of rows that the map side makes of each record.

Invariants (tests/driver/test_progress.py):
  I1  the share of an epoch never falls, and is from 0 to 1
  I2  if the parts take as long as their weights say and run evenly, the seconds left are right at any moment
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mixedmode.checkpoint.types import Epoch
from mixedmode.driver.events import EpochProgress, TaskPhase

__all__ = ["COMBINING", "ROW_BY_ROW", "EpochEstimate", "Moment", "PartFigures", "StepFigures", "Work", "progress_text"]


@dataclass(frozen=True, slots=True)
class Work:
    """The time that the subtasks of a step need, and how it is divided.

    `weight`: their seconds for each second of the map side, if every record becomes a row. `received`, `processed`: the
    share of subtasks that have received all rows; that have processed them.
    """

    weight: float
    received: float
    processed: float


#: measured on two cores, with an aggregate over 20 M records and a process function over 2.5 M
COMBINING = Work(weight=1.4, received=0.35, processed=0.85)
ROW_BY_ROW = Work(weight=12.0, received=0.15, processed=0.95)
_MADE = 0.3  # rows for each record, as long as nothing is known
_READ = 0.3  # the share of a map side that has read everything and folded nothing
_FED = 0.85  # the share of a map side to which Spark has passed all of its input
_SHARE_MIN = 1e-9  # of a part that is told to have begun
_TRUSTED = 0.25  # from this share of a part on, its own pace alone tells how long it takes


@dataclass(frozen=True, slots=True)
class PartFigures:
    """The figures of a part, added up over its tasks.

    `rows`: made by a map side, or received by subtasks. `bytes_read` and `bytes_folded`: of files, of which the tasks
    have `bytes_total`; if Spark reads the input, only `bytes_read` is known. `processed`: shares of keys that subtasks
    have processed, added up. `stored`: the number of subtasks that store.
    """

    tasks: int = 0
    tasks_done: int = 0
    is_complete: bool = False
    records: int = 0
    rows: int = 0
    bytes_read: float = 0.0
    bytes_folded: float = 0.0
    bytes_total: float = 0.0
    processed: float = 0.0
    stored: float = 0.0

    @property
    def has_begun(self) -> bool:
        """Return whether the part has tasks."""
        return self.tasks > 0


#: (map side, subtasks) of a step
StepFigures = tuple[PartFigures, PartFigures]
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
    _ended: dict[int, float] = field(default_factory=dict)  # {part: when it ended}
    _begun: dict[int, float] = field(default_factory=dict)  # {part: when its tasks were first seen}
    _idle: float = 0.0  # seconds until the first task showed work: until then, Python and Spark's code were starting
    _last: EpochProgress | None = None

    def at(self, moment: Moment) -> EpochProgress:
        """Return the progress at a moment, which is not before the one of the last call."""
        parts = [part for step in self.steps for part in moment.steps.get(step, _NOTHING)]
        seconds_left = self._seconds_left(moment.seconds, parts)
        share = 0.0 if seconds_left is None else moment.seconds / max(moment.seconds + seconds_left, 1e-9)
        names = list(self.steps)
        current = self._current(parts)
        first, part = (parts[0], parts[current]) if parts else _NOTHING
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

    def _current(self, parts: Sequence[PartFigures]) -> int:
        """Return the last part under way; between two parts of a step, the one that has ended."""
        begun = [number for number, part in enumerate(parts) if part.has_begun]
        waiting = min((number for number in range(len(parts)) if number not in self._ended), default=len(parts))
        under_way = [number for number in begun if number not in self._ended]
        return max(under_way or [number for number in begun if number < waiting], default=0)

    def _bytes(self, first: PartFigures) -> tuple[int, int | None]:
        """Return the bytes of files that are read, and all bytes; None if unknown.  first: the part that reads them."""
        total = self.bytes_total or int(first.bytes_total) or None
        read = first.bytes_read
        if total is None:
            return int(read), None
        if self.records_total and not first.bytes_total:  # of Parquet that Spark reads, it counts hardly any bytes
            read = total * first.records / self.records_total
        return total if first.is_complete else min(int(read), total), total

    def _seconds_left(self, now: float, parts: Sequence[PartFigures]) -> float | None:
        """Return the seconds until the last part ends; None if no part shows how fast it is."""
        shares, weights = self._shares(parts), self._weights(parts)
        if not any(shares) and not any(part.bytes_read or part.records for part in parts):
            self._idle = now
        self._note_ends(now, parts)
        whole, weight_known, left, left_under_way = 0.0, 0.0, 0.0, 0.0  # the first two: of parts of a known duration
        for number, (share, weight) in enumerate(zip(shares, weights, strict=True)):
            expected = weight * whole / weight_known if whole else None
            began = self._ended.get(number - 1, self._begun.get(number, self._idle) if number else self._idle)
            if number in self._ended:
                seconds = max(0.0, self._ended[number] - began)
            elif number == 0 or number - 1 in self._ended or parts[number].has_begun:  # under way
                measured = max(0.0, now - began) / max(share, _SHARE_MIN) if share else expected
                if measured is None:
                    return None
                trust = 1.0 if expected is None else min(1.0, share / _TRUSTED)
                seconds = trust * measured + (1 - trust) * (expected or 0.0)
                left_under_way = max(left_under_way, (1 - share) * seconds)
            elif expected is None:
                return None
            else:
                left += expected
                continue
            whole, weight_known = whole + seconds, weight_known + weight
        return left + left_under_way

    def _note_ends(self, now: float, parts: Sequence[PartFigures]) -> None:
        """Note which parts have begun and ended. A part without tasks, before a part with tasks, has taken no time."""
        latest = max((number for number, part in enumerate(parts) if part.has_begun), default=-1)
        for number, part in enumerate(parts[: latest + 1]):
            is_map = number % 2 == 0
            if part.has_begun and number not in self._begun:
                self._begun[number] = now
                self._ended.pop(number, None)  # it did not run yet when a step that runs beside it did
            if part.is_complete or (is_map and parts[number + 1].has_begun):
                self._ended.setdefault(number, now)
            elif not part.has_begun and (is_map or not parts[number - 1].has_begun):
                self._ended.setdefault(number, self._ended.get(number - 1, self._idle))

    def _shares(self, parts: Sequence[PartFigures]) -> list[float]:
        shares = []
        for number, (work, map_side, subtasks) in enumerate(self._by_step(parts)):
            totals = (None, None) if number else (self.bytes_total, self.records_total)
            share = map_share(map_side, *totals)
            shares += [share, subtask_share(subtasks, map_side.rows, work)]
        return shares

    def _weights(self, parts: Sequence[PartFigures]) -> list[float]:
        """Return the weights of the parts. The map side of a later step has a tenth of the subtasks that feed it."""
        weights: list[float] = []
        for work, map_side, _ in self._by_step(parts):
            own = weights[-1] / 10 if weights else 1.0
            folded = map_side.records
            if map_side.bytes_total:  # the tasks note records when they read them, and rows when they have folded them
                folded = int(folded * map_side.bytes_folded / max(map_side.bytes_read, 1.0))
            made = map_side.rows / folded if folded and map_side.rows else _MADE
            weights += [own, own * work.weight * min(3.0, max(0.05, made))]
        return weights

    def _by_step(self, parts: Sequence[PartFigures]) -> Iterator[tuple[Work, PartFigures, PartFigures]]:
        return zip(self.steps.values(), parts[::2], parts[1::2], strict=True)


def map_share(part: PartFigures, bytes_total: int | None, records_total: int | None) -> float:
    """Return the share of a map side. Records or bytes count if their total is known, else tasks."""
    if part.is_complete:
        return 1.0
    total = max(part.bytes_total, bytes_total or 0)
    if part.bytes_total:  # the tasks read files themselves, and read a slice before they fold it
        if not part.bytes_folded:  # reading alone says nothing about the time that folding takes
            return 0.0
        return min(1.0, (_READ * part.bytes_read + (1 - _READ) * part.bytes_folded) / total)
    by_tasks = min(1.0, part.tasks_done / part.tasks) if part.tasks else 0.0
    if records_total:  # before bytes: of Parquet, Spark reads only some columns
        return max(by_tasks, _FED * min(1.0, part.records / records_total))
    return max(by_tasks, _FED * min(1.0, part.bytes_read / total) if total else 0.0)


def subtask_share(part: PartFigures, rows_sent: int, work: Work) -> float:
    """Return the share of the subtasks of a step.  rows_sent: by its map side."""
    if part.is_complete or not part.tasks:
        return float(part.is_complete)
    processed, stored = part.processed / part.tasks, part.stored / part.tasks
    received = max(processed, min(1.0, part.rows / rows_sent) if rows_sent else 0.0)
    measured = work.received * received + (work.processed - work.received) * processed
    measured += (1 - work.processed) / 2 * stored
    return min(1.0, max(part.tasks_done / part.tasks, measured))


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
        parts.append(f"{event.records:,} records")
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
