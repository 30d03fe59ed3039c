"""A run of the benchmark: starts who takes part, lets them take turns, checks their answers, collects what it took.

Everything that must not outlive the run stands on one stack (processes, folders), so that the end, an
error and Ctrl-C all leave the machine as it was, but for the data, which are kept, and the result.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from mixedmode.errors import InvalidJobError
from mixedmode_bench.answers import Answers
from mixedmode_bench.contestant import Contestant
from mixedmode_bench.contestants import ENDS_INPUT, MODES, make_contestant
from mixedmode_bench.data import Data, data_for
from mixedmode_bench.machine import this_machine
from mixedmode_bench.measure import Gauge
from mixedmode_bench.plan import Group, Options, Point, groups
from mixedmode_bench.results import Document, Entry, Measured, Run
from mixedmode_bench.rounds import figures, ratios, turns
from mixedmode_bench.supervisor import LIMITS, Worker
from mixedmode_bench.worker import TaskNote, Verb
from mixedmode_bench.workload import Size

Say = Callable[[str], None]

_WARM_UP_PART = 50  # of the events
_WARM_UP_EVENTS_MIN = 1_000
_WARM_UP_WHOLE_MAX_S = 30.0


@dataclass(frozen=True, slots=True)
class Place:
    """The places of a run. `data` is kept; `save` is called after each workload with the results so far."""

    data: Path
    say: Say
    save: Callable[[Document], None]
    limits: Mapping[Verb, float] = field(default_factory=lambda: LIMITS)


def run_benchmark(options: Options, place: Place) -> Document:
    """Measure all that was asked for.  Raises MixedmodeError at a wrong answer, or if a contestant fails."""
    document = Document(
        command=options.command,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        rounds=options.rounds,
        machine=this_machine(options.cores),
        measured=(),
    )
    contestants, missing = who_takes_part(options)
    for name, why in missing.items():
        place.say(f"left out: {name}, which lacks {why}")
    for group in groups(options):
        with closing(_run_group(group, contestants, missing, options, place, document.measured)) as found:
            for measured in found:
                document = replace(document, measured=(*document.measured, measured))
                place.save(document)
    if not document.measured:
        msg = (
            "none of the contestants can compute what was asked for. Name others with --modes and --peers. "
            f"workloads={', '.join(options.workloads)}, contestants={', '.join(contestants)}"
        )
        raise InvalidJobError(msg)
    return document


def who_takes_part(options: Options) -> tuple[dict[str, Contestant], dict[str, str]]:
    """Those that can run here, and why others cannot.  Raises InvalidJobError for one that was asked for by name."""
    found, missing = {}, {}
    for name in options.contestants:
        contestant = make_contestant(name)
        why = contestant.missing()
        if why is None:
            found[name] = contestant
        elif name in options.required:
            msg = f"a contestant that was asked for cannot run here: it lacks {why}. contestant={name}"
            raise InvalidJobError(msg)
        else:
            missing[name] = why
    return found, missing


@dataclass
class _Participant:
    """A contestant at one point: its process, its size, what its answer has to be, and its runs so far."""

    contestant: Contestant
    worker: Worker
    size: Size
    answers: Answers
    note: TaskNote
    warm_up: TaskNote | None = None
    runs: list[Run] = field(default_factory=list)


def _run_group(
    group: Group,
    contestants: Mapping[str, Contestant],
    missing: Mapping[str, str],
    options: Options,
    place: Place,
    before: tuple[Measured, ...],
) -> Generator[Measured]:
    """Yield the measurements of each point of a group; none if nobody can compute them."""
    wanted = _wanted(group, contestants)
    left_out = {**missing, **{name: "it cannot compute this" for name in contestants if name not in wanted}}
    with _scratch() as scratch, ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for number, point in enumerate(group.points):
            place.say("")
            place.say(f"{point.name}: {point.size.events:,} events, {point.size.keys:,} keys; {point.workload.title}")
            if not wanted:
                place.say("  left out, as none of the contestants can compute it")
                return
            with _PointRun(point, scratch, place) as point_run:
                for contestant in wanted.values():
                    point_run.data_of(contestant)  # before anyone runs
                for name, contestant in wanted.items():
                    if name not in workers:
                        workers[name] = _started(stack, name, scratch, options, place)
                    point_run.add(contestant, workers[name])
                point_run.run_rounds(range(0 if number == 0 else 1, 1 + group.rounds), group.rounds)
                measured = point_run.measured({} if group.only is not None else left_out, before)
            before = (*before, measured)
            yield measured
        for worker in workers.values():
            worker.close()


def _wanted(group: Group, contestants: Mapping[str, Contestant]) -> dict[str, Contestant]:
    workload = group.points[0].workload
    chosen = {n: c for n, c in contestants.items() if group.only is None or n in group.only}
    return {name: contestant for name, contestant in chosen.items() if contestant.takes(workload)}


def _started(stack: ExitStack, name: str, scratch: Path, options: Options, place: Place) -> Worker:
    folder = scratch / name.replace(":", ".")
    worker = stack.enter_context(Worker(name, folder, cores=options.cores, limits=place.limits))
    began = time.perf_counter()
    worker.start()
    place.say(f"  started   {name:28} {time.perf_counter() - began:8.2f} s")
    return worker


class _PointRun:
    """The runs of one point, by those who take part, and what they share: the data and the answers."""

    def __init__(self, point: Point, scratch: Path, place: Place) -> None:
        self._point = point
        self._scratch = scratch
        self._place = place
        self._data: dict[Size, Data] = {}
        self._answers: dict[Size, Answers] = {}
        self._participants: list[_Participant] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def data_of(self, contestant: Contestant) -> None:
        """Write the data that a contestant reads, unless they exist already, and compute the answer."""
        workload, size = self._point.workload, self._size_for(contestant)
        if size in self._data:
            return
        began = time.perf_counter()
        data = self._data[size] = data_for(workload, size, self._place.data)
        origin = f"written in {time.perf_counter() - began:.1f} s" if data.is_new else "kept from an earlier run"
        self._place.say(f"  data      {size.events:,} events, {data.input_bytes / 1e6:,.0f} MB, {origin}")
        self._answers[size] = self._stack.enter_context(Answers(workload, data, self._scratch))

    def add(self, contestant: Contestant, worker: Worker) -> None:
        """Add a contestant, and let its process prepare the data."""
        size = self._size_for(contestant)
        data = self._data[size]
        note = self._note(size, data)
        worker.prepare(note)
        small = size.at_most(max(_WARM_UP_EVENTS_MIN, size.events // _WARM_UP_PART))
        warm_up = None
        if small != size and self._point.workload.feed is None:  # with a feed, a run begins with what fills the state
            warm_up = self._note(small, data_for(self._point.workload, small, self._place.data))
            worker.prepare(warm_up)
        self._participants.append(_Participant(contestant, worker, size, self._answers[size], note, warm_up))

    def run_rounds(self, numbers: range, rounds: int) -> None:
        """Run the rounds. The first answer of each contestant is checked."""
        by_name = {participant.worker.name: participant for participant in self._participants}
        for number in numbers:
            for name in turns(list(by_name), number):
                participant = by_name[name]
                if number > 0:
                    self._warm_up(participant)
                run = self._run(participant, number)
                rate = participant.size.events / run.outcome.seconds
                label = "cold" if number == 0 else f"{number} of {rounds}"
                self._place.say(f"  {label:9} {name:28} {run.outcome.seconds:8.2f} s  {rate:12,.0f} events/s")
            self._stack.close()  # every first answer is checked: the answers' memory is for those that run

    def measured(self, left_out: Mapping[str, str], before: tuple[Measured, ...]) -> Measured:
        """Return the measurements of this point."""
        point = self._point
        entries = tuple(_entry(participant) for participant in self._participants)
        return Measured(
            workload=point.name,
            title=point.workload.title,
            events=point.size.events,
            keys=point.size.keys,
            input_bytes=next(iter(self._data.values())).input_bytes,
            entries=entries,
            ratios=ratios(point.name, entries),
            left_out=left_out,
            figures=figures(point.name, entries, before),
            is_full=point.is_full,
        )

    def _size_for(self, contestant: Contestant) -> Size:
        most = contestant.events_max.get(self._point.name, contestant.events_max.get(""))
        return self._point.size if most is None else self._point.size.at_most(most)

    def _note(self, size: Size, data: Data) -> TaskNote:
        return TaskNote(self._point.where, size, data.tables, self._scratch / "work", data.waiting)

    def _warm_up(self, participant: _Participant) -> None:
        """Prepare a warm run, not measured: read its files into the system's cache, and run once.

        Between two runs of a contestant, all others have theirs. Meanwhile Spark ends its Python workers, and the
        system may take files out of its cache: then the run would be a cold one for some of them, and not for others.
        A machine may also have to fetch anew each page of memory that was given back meanwhile, which can take as long
        as a short run itself: so who is fast runs the whole workload once before.
        """
        for file in self._data[participant.size].tables.rglob("*.*"):
            file.read_bytes()
        if participant.warm_up is not None:
            is_fast = bool(participant.runs) and participant.runs[-1].outcome.seconds <= _WARM_UP_WHOLE_MAX_S
            note = participant.note if is_fast else participant.warm_up
            with _work_folder(note):
                participant.worker.run(note)

    def _run(self, participant: _Participant, number: int) -> Run:
        with _work_folder(participant.note):
            with Gauge(participant.worker.pid) as gauge:
                outcome = participant.worker.run(participant.note)
            if not participant.runs:
                self._check(participant)
        run = Run(number, outcome, gauge.peak_bytes, gauge.written_bytes)
        participant.runs.append(run)
        return run

    def _check(self, participant: _Participant) -> None:
        file = self._scratch / "answer.parquet"
        participant.worker.answer(participant.note, file)
        name = participant.worker.name
        participant.answers.check(name, file, may_lack=name not in ENDS_INPUT)
        file.unlink()


def _entry(participant: _Participant) -> Entry:
    name = participant.worker.name
    return Entry(name, participant.contestant.title, name in MODES, participant.size.events, tuple(participant.runs))


@contextmanager
def _work_folder(note: TaskNote) -> Iterator[None]:
    """Make the folder for all that a run writes; it is removed after the run."""
    note.work.mkdir()
    try:
        yield
    finally:
        shutil.rmtree(note.work, ignore_errors=True)


@contextmanager
def _scratch() -> Iterator[Path]:
    """The folder for all that a group of workloads writes; it is removed with what is in it."""
    with tempfile.TemporaryDirectory(prefix="mixedmode-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
