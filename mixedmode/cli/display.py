"""The display of a running job, and the summary at its end.

On a terminal: a line per committed epoch, and a moving line for the epoch under way, with the time since it began.
Elsewhere (a log, CI): the lines per epoch, and those of status_lines.py.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import assert_never

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from mixedmode.checkpoint.types import epoch_kind
from mixedmode.cli.consoles import RunConsole, human_bytes, output_console, plain_table
from mixedmode.cli.status_lines import StatusLines, ticking
from mixedmode.clock import Clock, SystemClock
from mixedmode.config import JobSpec, resolve_mode
from mixedmode.counts import counted
from mixedmode.driver.events import (
    EpochCommitted,
    EpochFailed,
    EpochProgress,
    EpochStarted,
    Event,
    Flipped,
    Notice,
    Phase,
    PhaseBegan,
    PublishedLate,
    RecordsExpired,
    Rescaled,
    RescaleIgnored,
    SparkLogRepaired,
    WentBack,
)
from mixedmode.driver.progress import progress_text
from mixedmode.time import MAX_TIME_US, MIN_TIME_US

_WAITING = "waiting for new records"
_DAMAGES_SHOWN = 5  # of one checkpoint, since a missing folder is one damage for each of its files
_QUIET_EPOCHS = 200  # from this epoch on, only every tenth epoch has a line


@dataclass
class Totals:
    """Sums over the backlog epochs, or the live epochs, of one run."""

    epochs: int = 0
    records: int = 0
    rows_out: int = 0
    pairs: int = 0
    seconds: float = 0.0
    migration_seconds: float = 0.0
    records_late: int = 0
    records_ahead: int = 0
    records_skipped: int = 0

    def add(self, event: EpochCommitted) -> None:
        """Add one epoch."""
        self.epochs += 1
        self.records += event.records
        self.rows_out += event.rows_out
        self.pairs += event.pairs
        self.seconds += event.seconds
        self.migration_seconds += event.migration_seconds
        self.records_late += event.records_late
        self.records_ahead += event.records_ahead
        self.records_skipped += event.records_skipped

    @property
    def records_per_second(self) -> float:
        """The rate over the time in which epochs were under way."""
        return self.records / self.seconds if self.seconds else 0.0


@dataclass
class Display:
    """An observer that prints. `totals` are by is_backlog, and `flip` is set once a mixed job is live.

    `lines` is None if the console is a terminal.
    """

    console: Console
    progress: Progress
    lines: StatusLines | None = None
    clock: Clock = field(default_factory=SystemClock)
    totals: dict[bool, Totals] = field(default_factory=lambda: {True: Totals(), False: Totals()})
    flip: Flipped | None = None
    went_back: WentBack | None = None
    last: EpochCommitted | None = None
    published_late: PublishedLate | None = None

    def __post_init__(self) -> None:
        self._is_over = False
        self._has_checkpoints = False  # a batch run has none
        self._starting_since: float | None = None
        self._task = self.progress.add_task("starting Spark", total=None)

    def __call__(self, event: Event) -> None:  # noqa: C901, PLR0912  # one case for each kind of event
        """Show one event."""
        match event:
            case PhaseBegan(phase):
                self._phase_began(phase)
            case Notice(text):
                self._say("[bold]note[/]     ", text)
            case RecordsExpired():
                self._say("[bold]note[/]     ", event.text)
            case EpochStarted():
                self._epoch_started(event)
            case EpochProgress():
                self._epoch_progress(event)
            case EpochCommitted():
                self._epoch_committed(event)
            case EpochFailed():
                self._epoch_failed(event)
            case Flipped():
                self._flipped(event)
            case Rescaled():
                self._rescaled(event)
            case RescaleIgnored(reason):
                self._say("[bold]rescale[/]  ", reason)
            case WentBack():
                self._went_back(event)
            case SparkLogRepaired(files):
                text = "an entry of Spark's log was missing or damaged, and not needed"
                for file in files:
                    self._say("[bold]mended[/]   ", f"{text}, file={file}")
            case PublishedLate():
                self.published_late = event
                text = f"epoch {event.epoch}: an earlier start committed it, and ended before it was all published"
                self._say("[bold]published[/]  ", text)
            case _:
                assert_never(event)

    def _phase_began(self, phase: Phase) -> None:
        text = {
            "starting": "starting Spark",
            "catching up": "looking for existing input",
            "live": _WAITING,
            "paused": "paused until `mixedmode resume`",
            "ended": "done",
            "over": "the input of this job has ended",
        }[phase]
        self._is_over = self._is_over or phase == "over"
        if phase == "starting":
            self._starting_since = self.clock.seconds()
        else:
            self._spark_started()
        self._has_checkpoints = self._has_checkpoints or phase == "catching up"
        self._status(text, is_waiting=phase == "live")

    def _spark_started(self) -> None:
        if self._starting_since is not None:
            seconds, self._starting_since = self.clock.seconds() - self._starting_since, None
            self.console.print(f"[bold]started[/]  Spark and the plan are ready after {seconds:.1f} s", highlight=False)

    def _epoch_started(self, event: EpochStarted) -> None:
        self._spark_started()  # a batch run has no phase between
        kind = epoch_kind(is_backlog=event.is_backlog)
        self._status(f"epoch {event.epoch} ({kind}, {event.strategy} strategy)", is_quiet=not event.is_backlog)

    def _epoch_committed(self, event: EpochCommitted) -> None:
        self.totals[event.is_backlog].add(event)
        self.last = event
        if event.epoch < _QUIET_EPOCHS or event.epoch % 10 == 0:
            self.console.print(_epoch_line(event), highlight=False, soft_wrap=True)
        epochs = sum(total.epochs for total in self.totals.values())
        records = sum(total.records for total in self.totals.values())
        done = f"{counted(epochs, 'epoch')}, {counted(records, 'record')}"
        self._status(f"{_WAITING} ({done} in this run)", is_waiting=True, is_quiet=True)

    def _epoch_progress(self, event: EpochProgress) -> None:
        kind = epoch_kind(is_backlog=event.is_backlog)
        text = f"epoch {event.epoch} ({kind}): {progress_text(event)}"
        self.progress.update(self._task, description=text)
        if self.lines is not None:
            self.lines.describe(text)

    def _epoch_failed(self, event: EpochFailed) -> None:
        times = f"{event.failures} of {event.tolerable} tolerable failures in a row"
        self._say("[bold]failed[/]   ", f"epoch {event.epoch} is run again ({times})")
        self._say("", event.reason)

    def _went_back(self, event: WentBack) -> None:
        self.went_back = event
        for checkpoint in event.damaged:
            for damage in checkpoint.damages[:_DAMAGES_SHOWN]:
                self._say(f"[bold]damaged[/]  checkpoint {checkpoint.epoch}: ", str(damage))
            more = len(checkpoint.damages) - _DAMAGES_SHOWN
            if more > 0:
                self._say(f"[bold]damaged[/]  checkpoint {checkpoint.epoch}: ", f"and {counted(more, 'more file')}")
        taken = counted(event.files_rolled_back, "output file or row", "output files or rows")
        self._say(
            "[bold]back[/]     ",
            f"going on from checkpoint {event.to}: what came after it is read again; {taken} of later epochs "
            "rolled back",
        )
        for name in event.not_rolled_back:
            output = f"output {name!r}" if name else "the main output"
            self._say(
                "         ", f"rows of later epochs stay in {output}, which cannot be rolled back; they come again"
            )

    def _say(self, heading: str, text: str) -> None:
        """Print a line that is not cut. Its text may contain any character."""
        self.console.print(Text.from_markup(heading).append(text), highlight=False, soft_wrap=True)

    def _status(self, text: str, *, is_waiting: bool = False, is_quiet: bool = False) -> None:
        """Show what the job does now, and reset the clock beside it."""
        self.progress.reset(self._task, description=text)
        if self.lines is not None:
            self.lines.change(text, is_waiting=is_waiting, is_quiet=is_quiet)

    def _flipped(self, event: Flipped) -> None:
        self.flip = event
        after = "there was no backlog" if event.after_epoch is None else f"checkpoint {event.after_epoch} taken"
        self.console.print(f"[bold]flip[/]     {_clock(event.at_ms)}  live from here on; {after}", highlight=False)

    def _rescaled(self, event: Rescaled) -> None:
        steps = ", ".join(f"{step.operator_id} {step.before} -> {step.now}" for step in event.steps)
        self._say("[bold]rescale[/]  ", f"epoch {event.epoch:<5} subtasks of {steps}: {event.reason}")

    def print_summary(self) -> None:
        """Print backlog against live, and the state of the job. A run without a committed epoch has no figures."""
        if self.went_back is not None:
            left = ", ".join(str(checkpoint.epoch) for checkpoint in reversed(self.went_back.damaged))
            self._say("", f"went back to checkpoint {self.went_back.to}, as damaged ones came after it: {left}")
        if self.last is None:
            text = "nothing new: no epoch was committed in this run"
            if self.published_late is not None:
                text += f", and epoch {self.published_late.epoch} was published"
            if self._is_over:
                text = "nothing to do: --drain, or the end of bounded sources, has ended the input of this job for good"
            self.console.print(text, highlight=False, soft_wrap=True)
            return
        self.console.print(self._summary_table())
        if self.flip is not None and self.flip.after_epoch is not None:
            backlog = self.totals[True]
            rate = backlog.pairs / backlog.migration_seconds if backlog.migration_seconds else 0.0
            self.console.print(
                f"flip at {_clock(self.flip.at_ms)}: {counted(backlog.pairs, '(key, state) pair')} migrated "
                f"at {rate:,.0f} pairs/s, checkpoint {self.flip.after_epoch} taken",
                highlight=False,
            )
        self._print_misfits()
        if not self._has_checkpoints:
            return
        watermark = watermark_text(self.last.watermark_us)
        state = human_bytes(self.last.state_bytes)
        self.console.print(
            f"last checkpoint {self.last.epoch}: state {state} in runs, watermark {watermark}", highlight=False
        )

    def _print_misfits(self) -> None:
        """Print the numbers of records that are not in the result, or whose event time was ignored."""
        late = sum(total.records_late for total in self.totals.values())
        ahead = sum(total.records_ahead for total in self.totals.values())
        skipped = sum(total.records_skipped for total in self.totals.values())
        misfits = {
            "skipped": (skipped, "on which the process function failed"),
            "late": (late, "after the end of every window"),
            "ahead of the clock": (ahead, "beyond watermark.max-ahead, without effect on the watermark"),
        }
        for name, (count, why) in misfits.items():
            if count:
                self.console.print(f"{name}: {counted(count, 'record')} {why}", highlight=False)

    def _summary_table(self) -> Table:
        numbers = ("epochs", "records", "records/s", "rows out", "state pairs", "seconds")
        table = plain_table(("", *numbers), numbers=numbers)
        for is_backlog, name in ((True, "backlog"), (False, "live")):
            total = self.totals[is_backlog]
            if total.epochs:
                table.add_row(
                    name,
                    f"{total.epochs:,}",
                    f"{total.records:,}",
                    f"{total.records_per_second:,.0f}",
                    f"{total.rows_out:,}",
                    f"{total.pairs:,}",
                    f"{total.seconds:.1f}",
                )
        return table


@contextmanager
def screen(spec: JobSpec, title: str = "") -> Iterator[Display]:
    """Return a display for one run, as a context manager. The moving line disappears at the end.

    title: stands in the first line; by default, the mode.
    """
    console, clock = output_console(RunConsole), SystemClock()
    title = title or f"{resolve_mode(spec).mode} mode"
    console.print(f"[bold]{escape(spec.name)}[/]  {title}", highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with ExitStack() as stack:
        progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        stack.enter_context(progress)
        lines = None
        if not console.is_terminal:
            lines = StatusLines(lambda text: _say_now(console, text), clock)
            stack.enter_context(ticking(lines))
        yield Display(console, progress, lines, clock)


def watermark_text(watermark_us: int | None) -> str:
    """Return a watermark for a person. Python's datetime ends with the year 9999; event times do not."""
    if watermark_us is None or watermark_us == MIN_TIME_US:
        return "none"
    if watermark_us == MAX_TIME_US:
        return "end of input"
    return str(np.datetime64(watermark_us // 1_000_000, "s")).replace("T", " ") + " UTC"


def lag_text(seconds: float) -> str:
    """Return a lag for a person, in the largest unit of which there are two. It is negative if the clock is behind."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.1f} s"


def _say_now(console: Console, text: str) -> None:
    """Print a line as it is."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _epoch_line(event: EpochCommitted) -> str:
    kind = f"{epoch_kind(is_backlog=event.is_backlog):<7}"
    lag = event.lag_seconds
    event_time = "" if lag is None else f"  watermark {watermark_text(event.watermark_us)}, lag {lag_text(lag)}"
    waited = event.processing_lag_seconds
    event_time += "" if waited is None else f"  processing lag {lag_text(waited)}"
    state = ""
    if event.state_bytes:
        entries = f"{counted(event.state_entries, 'entry', 'entries')}, " if event.state_entries else ""
        state = f"  state {entries}{human_bytes(event.state_bytes)}"
    notable = {"late": event.records_late, "ahead of the clock": event.records_ahead}
    notable |= {"skipped": event.records_skipped, "spilled runs": event.spilled_runs}
    for step, figures in event.joins.items():
        notable |= {f"late {side} of {step}": n for side, n in zip(("left", "right"), figures.late, strict=True)}
    notes = "".join(f"  {name} {count:,}" for name, count in notable.items() if count)
    return (
        f"[bold]{kind}[/]  {_clock(event.created_ms)}  epoch {event.epoch:<5} {counted(event.records, 'record'):>20}  "
        f"{event.records_per_second:>11,.0f}/s  {counted(event.rows_out, 'row'):>15} out  {event.seconds:6.2f} s  "
        f"{event.strategy}{event_time}{state}{notes}"
    )


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S UTC")
