"""The time that the steps of an epoch still need, from what their tasks have done and how long that took. Pure.

A step has seven phases: its map side reads, folds and sends, then its subtasks receive, sort, process and store. The
work of a phase is the number of its records or rows times the cost of one of them. The costs are measured once, on one
machine (`Work`), and only their ratios count:

    pace of a step  the seconds so far / the work that is done; as long as that is little, that of all steps
    of a phase      its own seconds / its own work, more and more as it goes on; before, the pace of the step
    seconds left    the sum over all phases of the work that is left * the pace of the phase

Between two looks, the time belongs to the phases that went on, in proportion to their work. A task may do one thing for
minutes, such as to fold a slice, and nobody sees how far it is. Then no phase goes on, and the seconds count as
expected: they are subtracted from the seconds left until nearly all that is expected of this thing is over. The seconds
before the first task shows any work belong to no phase, because Spark and Python start in them.

    Example: 10 M records were read in 4 s, and folding them costs 3 times as much. So 12 s are left, and 5 s later 7 s.

Invariants (tests/driver/test_pace.py):
  I1  if each phase takes as long as its cost says, the seconds left are right from a third on
  I2  the seconds left are never negative, and 0 exactly when all steps are complete
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

__all__ = [
    "COMBINING",
    "PYTHON",
    "ROW_BY_ROW",
    "WINDOWS",
    "EpochPace",
    "PartFigures",
    "StepFigures",
    "Work",
    "map_shares",
    "subtask_shares",
]

_FED = 0.85  # the share of a map side to which Spark has passed all of its input
_TRUSTED = 0.25  # from this share of a phase on, its own pace alone tells how long it takes
_HIDDEN_MAX = 0.9  # the most that counts as done of what nobody sees
_LITTLE = 0.05  # the same of the work of a phase, so that its first moments do not count too much
_FEW = 0.1  # the share of a step's work that counts as done at the pace of all steps
_UNSEEN = (1, 2, 4)  # nobody sees how far a task folds or sends a slice, or sorts


@dataclass(frozen=True, slots=True)
class Work:
    """Costs of a step: microseconds of a core, for each record, or for each row that the map side makes.

    `rows`: the rows of each record, as long as nothing is known.
    """

    rows: float
    read: float  # per record
    fold: float  # per record
    make: float  # per row, by folding
    send: float  # per row, as all that follow
    receive: float
    sort: float
    process: float
    store: float

    def of(self, records: float, rows: float) -> tuple[float, ...]:
        """Return the work of each phase."""
        fold = records * self.fold + rows * self.make
        later = (self.send, self.receive, self.sort, self.process, self.store)
        return (records * self.read, fold, *(rows * cost for cost in later))


#: measured with bench/eta.py: steps that combine the rows of a key, or of a key and window; that keep each row; and
#: that call a function for each row
COMBINING = Work(rows=0.3, read=0.4, fold=0.3, make=0.6, send=0.9, receive=0.4, sort=0.7, process=2.0, store=0.1)
WINDOWS = replace(COMBINING, rows=0.6, process=1.3)  # windows that are over write no state
ROW_BY_ROW = replace(COMBINING, rows=1.0, fold=0.0, make=0.3)
PYTHON = replace(ROW_BY_ROW, process=13.0)


@dataclass(frozen=True, slots=True)
class PartFigures:
    """The figures of a part of a step, added up over its tasks.

    `rows`: made by a map side, or received by subtasks. `bytes_read`: of files, of which the tasks have `bytes_total`;
    if Spark reads the input, only `bytes_read` is known. `records_noted`, `records_folded`, `records_sent`: that map
    tasks have read; made rows of; sent the rows of. `sorted`, `stored`: the number of subtasks that have sorted all
    rows; that store. `processed`: shares of keys that subtasks have processed, added up. `bytes_spilled`:
    of rows that subtasks have written to the local disk to sort them.
    """

    tasks: int = 0
    tasks_done: int = 0
    is_complete: bool = False
    records: int = 0
    rows: int = 0
    bytes_read: float = 0.0
    bytes_total: float = 0.0
    records_noted: float = 0.0
    records_folded: float = 0.0
    records_sent: float = 0.0
    sorted: float = 0.0
    processed: float = 0.0
    bytes_spilled: float = 0.0
    stored: float = 0.0

    @property
    def has_begun(self) -> bool:
        """Return whether the part has tasks."""
        return self.tasks > 0

    @property
    def shows_work(self) -> bool:
        """Return whether its tasks have read, received or done anything."""
        return bool(self.records or self.bytes_read or self.rows or self.tasks_done)

    @property
    def done(self) -> float:
        """Return the share of its tasks that have ended."""
        return min(1.0, self.tasks_done / self.tasks) if self.tasks else 0.0


#: (map side, subtasks) of a step
StepFigures = tuple[PartFigures, PartFigures]


@dataclass
class _StepPace:
    """The phases of one step: the share that is done of each, its work in all, and its seconds so far.

    `hidden`: seconds in which no share grew, as far as the phase that they belong to has not grown since.
    """

    work: Work
    shares: tuple[float, ...] = (0.0,) * 7
    works: tuple[float, ...] = (0.0,) * 7
    seconds: list[float] = field(default_factory=lambda: [0.0] * 7)
    hidden: float = 0.0
    has_begun: bool = False

    @property
    def is_complete(self) -> bool:
        return self.shares[-1] >= 1

    @property
    def done(self) -> list[float]:
        """The work that is done in each phase."""
        return [share * work for share, work in zip(self.shares, self.works, strict=True)]

    def look(self, seconds: float, shares: tuple[float, ...], works: tuple[float, ...]) -> None:
        """Note the figures, some seconds after the last ones."""
        number, hidden = self._hidden_work()
        grown = [max(0.0, new - old) for new, old in zip(shares, self.shares, strict=True)]
        done = [share * work for share, work in zip(grown, works, strict=True)]
        if sum(done) > 0:
            # of several tasks that do the same unseen, one has ended: the others began when it did
            unseen = min(1.0, grown[number] / hidden) if number in _UNSEEN else 1.0
            owner = number if number in _UNSEEN else done.index(max(done))
            spent = [seconds * more / sum(done) + unseen * self.hidden * (at == owner) for at, more in enumerate(done)]
            self.seconds = [before + more for before, more in zip(self.seconds, spent, strict=True)]
            self.hidden -= unseen * self.hidden
        else:
            self.hidden += seconds
        self.shares = tuple(share + more for share, more in zip(self.shares, grown, strict=True))
        self.works = works

    def seconds_left(self, pace: float) -> float:
        """Return the seconds that the step still needs.  pace: seconds per work, of all steps."""
        few = _FEW * sum(self.works)
        pace = (sum(self.seconds) + few * pace) / (sum(self.done) + few)
        paces = [self._pace(number, pace) for number in range(len(self.works))]
        left = [(1 - share) * work * own for share, work, own in zip(self.shares, self.works, paces, strict=True)]
        number, share = self._hidden_work()
        return sum(left) - min(self.hidden, _HIDDEN_MAX * share * self.works[number] * paces[number])

    def _pace(self, number: int, pace: float) -> float:
        """Return the seconds per work of a phase."""
        done, expected = self.shares[number] * self.works[number], self.works[number] * pace
        if done <= 0 or expected <= 0:
            return pace
        trust = min(1.0, max(self.shares[number] / _TRUSTED, (self.seconds[number] / expected) ** 2))
        few = _LITTLE * self.works[number]
        return trust * (self.seconds[number] + few * pace) / (done + few) + (1 - trust) * pace

    def _hidden_work(self) -> tuple[int, float]:
        """Return the phase that goes on if nobody sees it, and the share of it that may be done."""
        waiting = [(at + 1, before - after) for at, (before, after) in enumerate(pairwise(self.shares))]
        found = [(at, share) for at, share in waiting if share > 0]  # such as: what is read is folded
        unseen = [one for one in found if one[0] in _UNSEEN]
        return (unseen or found or [(0, 1 - self.shares[0])])[0]


class EpochPace:
    """The pace of the steps of one epoch, in their order.

    bytes_total, records_total: of the input of the first step; None if unknown.
    """

    def __init__(
        self, steps: Mapping[str, Work], bytes_total: int | None = None, records_total: int | None = None
    ) -> None:
        self._steps = {name: _StepPace(work) for name, work in steps.items()}
        self._totals = (bytes_total, records_total)
        self._at = 0.0  # the last look
        self._is_idle = True  # until a task shows work: Python and Spark's code are starting

    def look(self, at: float, figures: Mapping[str, StepFigures]) -> None:
        """Note the figures of the steps that have begun, at a moment in seconds."""
        seconds, self._at = at - self._at, at
        self._is_idle = self._is_idle and not any(one.shows_work for of_step in figures.values() for one in of_step)
        if self._is_idle:
            return
        records: float | None = self._totals[1]  # that a step gets, as far as the one before it tells
        for number, (name, step) in enumerate(self._steps.items()):
            map_side, subtasks = figures.get(name, (PartFigures(), PartFigures()))
            of_map = map_shares(map_side, *(self._totals if number == 0 else (None, None)))
            if subtasks.has_begun or subtasks.is_complete:
                of_map = (1.0, 1.0, 1.0)
            received, rows = _amounts(map_side, of_map[0], records, step.work)
            step.has_begun = map_side.has_begun or subtasks.has_begun
            step.look(
                seconds if step.has_begun and not step.is_complete else 0.0,
                (*of_map, *subtask_shares(subtasks, map_side.rows)),
                step.work.of(received, rows),
            )
            records = rows

    def seconds_left(self) -> float | None:
        """Return the seconds until the last step ends; None as long as no task shows how fast it is."""
        steps = list(self._steps.values())
        done, seconds = (sum(sum(one) for one in of) for of in ([s.done for s in steps], [s.seconds for s in steps]))
        if not seconds:
            return None
        pace = seconds / done
        left = [step.seconds_left(pace) for step in steps]
        begun = [number for number, step in enumerate(steps) if step.has_begun]
        # steps under way run at the same time, and those to come one after the other
        return max((left[number] for number in begun), default=0.0) + sum(left[max(begun, default=-1) + 1 :])


def map_shares(part: PartFigures, bytes_total: int | None, records_total: int | None) -> tuple[float, float, float]:
    """Return which shares of the input a map side has read, folded and sent.

    Records or bytes tell what is read if their total is known, else the tasks that have ended.
    """
    if part.is_complete:
        return 1.0, 1.0, 1.0
    if part.bytes_total:  # the tasks read files themselves; some may not have begun
        read = part.bytes_read / max(part.bytes_total, bytes_total or 0)
    elif records_total:  # before bytes: of Parquet, Spark reads only some columns
        read = _FED * min(1.0, part.records / records_total)
    else:
        read = _FED * min(1.0, part.bytes_read / bytes_total) if bytes_total else 0.0
    read = min(1.0, max(part.done, read))
    folded, sent = (
        max(part.done, read * min(1.0, count / part.records_noted)) if part.records_noted else read
        for count in (part.records_folded, part.records_sent)
    )
    return read, folded, min(folded, sent)


def subtask_shares(part: PartFigures, rows_sent: int) -> tuple[float, float, float, float]:
    """Return which shares the subtasks of a step have received, sorted, processed and stored."""
    if part.is_complete:
        return 1.0, 1.0, 1.0, 1.0
    if not part.tasks:
        return 0.0, 0.0, 0.0, 0.0
    done = part.done
    ordered, processed = (min(1.0, max(done, count / part.tasks)) for count in (part.sorted, part.processed))
    received = min(1.0, part.rows / rows_sent) if rows_sent else 0.0
    return max(ordered, received), ordered, processed, done


def _amounts(part: PartFigures, read: float, expected: float | None, work: Work) -> tuple[float, float]:
    """Return about how many records the map side of a step reads in all, and how many rows it makes of them.

    read: the share that it has read.  expected: as many records, as long as it has read none; None: unknown.
    """
    records = part.records / read if part.records and read else float(expected or 1)
    made = part.rows / part.records_folded if part.records_folded else work.rows
    noted = part.records_noted / read if part.records_noted and read else records
    return records, max(made * noted, 1e-9)
