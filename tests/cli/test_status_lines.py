"""Progress on a terminal, and where standard output is none."""

import io
import re
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from mixedmode.checkpoint.types import Epoch
from mixedmode.cli.display import Display, lag_text, watermark_text
from mixedmode.cli.status_lines import StatusLines
from mixedmode.driver.events import (
    EpochCommitted,
    EpochProgress,
    EpochStarted,
    PhaseBegan,
    Rescaled,
    RescaleIgnored,
    StepRescaled,
    WentBack,
)
from mixedmode.time import MAX_TIME_US, MIN_TIME_US
from tests.driver.committed import epoch_committed


@dataclass
class HandClock:
    """A clock that a test moves; it begins at 2026-01-01 00:00:00 UTC."""

    at: float = 0.0
    said: list[str] = field(default_factory=list)

    def now_ms(self) -> int:
        return 1_767_225_600_000 + int(self.at * 1000)

    def seconds(self) -> float:
        return self.at

    def lines(self) -> StatusLines:
        return StatusLines(self.said.append, self)

    def pass_seconds(self, lines: StatusLines, seconds: int) -> None:
        for _ in range(seconds):
            self.at += 1
            lines.tick()


def committed(epoch: int, *, is_backlog: bool) -> EpochCommitted:
    return epoch_committed(epoch, is_backlog=is_backlog, records=500, rows_out=5, pairs=5)


def test_an_epoch_that_goes_on_has_a_line_every_ten_seconds() -> None:
    clock = HandClock()
    lines = clock.lines()
    lines.change("epoch 0 (backlog, sorted strategy)")
    clock.pass_seconds(lines, 25)
    assert clock.said == [
        "2026-01-01 00:00:00 UTC  epoch 0 (backlog, sorted strategy)",
        "2026-01-01 00:00:10 UTC  epoch 0 (backlog, sorted strategy), for 10 s",
        "2026-01-01 00:00:20 UTC  epoch 0 (backlog, sorted strategy), for 20 s",
    ]


def test_a_job_that_waits_for_a_day_has_lines_ever_further_apart_up_to_ten_minutes() -> None:
    clock = HandClock()
    lines = clock.lines()
    lines.change("waiting", is_waiting=True)
    clock.pass_seconds(lines, 86_400)
    seconds = [int(line.rpartition("for ")[2].removesuffix(" s")) for line in clock.said[1:]]
    gaps = [after - before for before, after in zip([0, *seconds], seconds, strict=False)]
    assert gaps[:7] == [10, 20, 40, 80, 160, 320, 600]
    assert set(gaps[6:]) == {600}


def test_a_quiet_change_has_a_line_only_once_it_takes_long() -> None:
    clock = HandClock()
    lines = clock.lines()
    for epoch in range(100):
        lines.change(f"epoch {epoch}", is_quiet=True)
        clock.pass_seconds(lines, 1)
    assert clock.said == []
    clock.pass_seconds(lines, 9)
    assert clock.said == ["2026-01-01 00:01:49 UTC  epoch 99, for 10 s"]


def starting() -> tuple[HandClock, Console, Display]:
    """Return the display of a run without a terminal that starts Spark."""
    clock = HandClock()
    console = Console(width=200, file=io.StringIO())
    display = Display(console, Progress(console=console, disable=True), clock.lines(), clock)
    display(PhaseBegan("starting"))
    return clock, console, display


def test_phases_of_a_run_without_a_terminal_are_lines_with_their_time_and_live_epochs_are_not() -> None:
    clock, console, display = starting()
    clock.at = 12.34
    display(PhaseBegan("catching up"))
    display(EpochStarted(Epoch(0), is_backlog=True, strategy="sorted"))
    clock.at = 14
    display(committed(0, is_backlog=True))
    display(PhaseBegan("live"))
    display(EpochStarted(Epoch(1), is_backlog=False, strategy="streaming"))
    display(committed(1, is_backlog=False))
    clock.pass_seconds(display.lines, 10) if display.lines else None
    assert clock.said == [
        "2026-01-01 00:00:00 UTC  starting Spark",
        "2026-01-01 00:00:12 UTC  looking for existing input",
        "2026-01-01 00:00:12 UTC  epoch 0 (backlog, sorted strategy)",
        "2026-01-01 00:00:14 UTC  waiting for new records",
        "2026-01-01 00:00:24 UTC  waiting for new records (2 epochs, 1,000 records in this run), for 10 s",
    ]
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().startswith("started  Spark and the plan are ready after 12.3 s\n")


def test_a_batch_run_tells_of_the_start_before_its_epoch_and_of_no_checkpoint() -> None:
    clock, console, display = starting()
    clock.at = 3
    display(EpochStarted(Epoch(0), is_backlog=True, strategy="sorted"))
    display(committed(0, is_backlog=True))
    display(PhaseBegan("ended"))
    display.print_summary()
    assert isinstance(console.file, io.StringIO)
    started, epoch, *summary = console.file.getvalue().splitlines()
    assert started == "started  Spark and the plan are ready after 3.0 s"
    assert epoch.startswith("backlog ")
    assert [line.split()[0] for line in summary] == ["epochs", "backlog"]


def test_on_a_terminal_the_clock_counts_what_is_under_way_and_not_the_program() -> None:
    now = [0.0]
    console = Console(width=100, file=io.StringIO(), force_terminal=True, _environ={"TERM": "xterm"})
    columns = (TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True, auto_refresh=False, get_time=lambda: now[0])
    display = Display(console, progress)
    display(PhaseBegan("starting"))
    now[0] = 100.0
    display(EpochStarted(Epoch(7), is_backlog=True, strategy="sorted"))
    now[0] = 103.0
    (task,) = progress.tasks
    assert (task.description, task.elapsed) == ("epoch 7 (backlog, sorted strategy)", 3.0)


def test_lines_made_of_two_parts_stay_whole_while_a_moving_line_is_drawn() -> None:
    file = io.StringIO()
    console = Console(width=120, file=file, force_terminal=True, color_system=None, _environ={"TERM": "xterm"})
    with Progress(console=console, transient=True, auto_refresh=False) as progress:
        display = Display(console, progress)
        progress.refresh()
        steps = (StepRescaled("by_key", 2, 4),)
        display(Rescaled(Epoch(7), steps, "asked for with `mixedmode rescale` [now]"))
        display(RescaleIgnored("it is [old]"))
    said = file.getvalue()
    assert "rescale  epoch 7     subtasks of by_key 2 -> 4: asked for with `mixedmode rescale` [now]\n" in said
    assert "rescale  it is [old]\n" in said


def test_a_line_of_an_epoch_tells_when_how_fast_how_far_behind_and_what_needs_attention() -> None:
    console = Console(width=40, file=io.StringIO())
    event = replace(
        committed(12, is_backlog=False),
        strategy="streaming",
        watermark_us=1_767_225_600_000_000,
        created_ms=1_767_225_602_500,
        records_late=3,
        processing_lag_seconds=0.25,
        state_bytes=2048,
    )
    Display(console, Progress(console=console, disable=True))(event)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == (
        "live     00:00:02 UTC  epoch 12             500 records          250/s           5 rows out    2.00 s  "
        "streaming  watermark 2026-01-01 00:00:00 UTC, lag 2.5 s  processing lag 0.2 s  state 2.0 KiB  late 3\n"
    )


def test_one_record_is_no_records() -> None:
    console = Console(width=200, file=io.StringIO())
    display = Display(console, Progress(console=console, disable=True))
    one: dict[str, Any] = {"records": 1, "rows_out": 1, "records_late": 1, "records_ahead": 1, "records_skipped": 1}
    display(replace(committed(12, is_backlog=False), **one))
    display(WentBack(Epoch(6), (), 1, ()))
    display.print_summary()
    assert isinstance(console.file, io.StringIO)
    said = console.file.getvalue()
    assert re.findall(r"\b1 (?:later |more |output )?(?:records|rows|files|entries|epochs)\b", said) == []
    misfits = [line for line in said.splitlines() if line.startswith(("skipped", "late", "ahead"))]
    assert misfits == [
        "skipped: 1 record on which the process function failed",
        "late: 1 record after the end of every window",
        "ahead of the clock: 1 record beyond watermark.max-ahead, without effect on the watermark",
    ]


def test_a_lag_is_told_in_the_largest_unit_of_which_there_are_two() -> None:
    shown = {
        0.04: "0.0 s",
        -2.5: "-2.5 s",
        119.9: "119.9 s",
        120: "2 min",
        7_200: "2 h",
        172_800: "2 d",
        1e8: "1,157 d",
    }
    assert {seconds: lag_text(seconds) for seconds in shown} == shown


def test_progress_replaces_the_text_of_the_epoch_under_way_and_waits_for_its_line() -> None:
    clock = HandClock()
    console = Console(width=200, file=io.StringIO())
    display = Display(console, Progress(console=console, disable=True), clock.lines(), clock)
    display(EpochStarted(Epoch(0), is_backlog=True, strategy="sorted"))
    assert display.lines is not None
    for second in range(1, 12):
        clock.pass_seconds(display.lines, 1)
        display(under_way(second))
    assert clock.said == [
        "2026-01-01 00:00:00 UTC  epoch 0 (backlog, sorted strategy)",
        (
            "2026-01-01 00:00:10 UTC  epoch 0 (backlog): by_key reading, 9%, 9.0 of 100 MB read, 900 records, "
            "1 of 4 tasks done, about 2 min left, for 10 s"
        ),
    ]


def under_way(second: int) -> EpochProgress:
    return EpochProgress(
        epoch=Epoch(0),
        is_backlog=True,
        seconds=float(second),
        step="by_key",
        phase="reading",
        share=second / 100,
        seconds_left=100.0 - second,
        records=100 * second,
        records_total=None,
        bytes_read=1_000_000 * second,
        bytes_total=100_000_000,
        tasks_done=1,
        tasks_total=4,
    )


def test_watermarks_beyond_pythons_years_are_shown() -> None:
    shown = {
        None: "none",
        MIN_TIME_US: "none",
        MAX_TIME_US: "end of input",
        1_000_000: "1970-01-01 00:00:01 UTC",
        253_402_300_800_000_000: "10000-01-01 00:00:00 UTC",
        -62_135_596_800_000_001: "0000-12-31 23:59:59 UTC",
    }
    assert {watermark: watermark_text(watermark) for watermark in shown} == shown
