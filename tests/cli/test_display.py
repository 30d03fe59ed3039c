"""The screen shows rescaling, and the return to an older checkpoint."""

import os

import pytest
from rich.console import Console
from rich.progress import Progress

from mixedmode.checkpoint.types import CheckedCheckpoint, Damage, Epoch
from mixedmode.cli.consoles import RunConsole
from mixedmode.cli.display import Display
from mixedmode.driver.events import PublishedLate, Rescaled, RescaleIgnored, SparkLogRepaired, StepRescaled, WentBack


def shown(console: Console, tell: str) -> list[str]:
    with console.capture() as capture:
        display = Display(console, Progress(console=console, disable=True))
        if tell == "rescaled":
            steps = (StepRescaled("by_key", 2, 4), StepRescaled("by_bucket", 1, 3))
            display(Rescaled(Epoch(7), steps, "asked for with `mixedmode rescale`"))
        else:
            display(RescaleIgnored("it is [old]"))
    return capture.get().splitlines()


def test_a_change_of_parallelism_is_a_line() -> None:
    assert shown(Console(width=200), "rescaled") == [
        "rescale  epoch 7     subtasks of by_key 2 -> 4, by_bucket 1 -> 3: asked for with `mixedmode rescale`"
    ]


def test_a_request_that_does_not_count_is_told() -> None:
    assert shown(Console(width=200), "ignored") == ["rescale  it is [old]"]


def a_display() -> Display:
    console = Console(width=60)
    return Display(console, Progress(console=console, disable=True))


def test_going_back_says_what_is_damaged_in_lines_that_are_not_cut_and_once_more_in_the_summary() -> None:
    display = a_display()
    runs = [Damage("state", f"/c/runs/step/{number}.sst", "a run of the state is missing") for number in range(7)]
    manifest = Damage("manifest", "/c/manifests/[8].json", "its manifest is missing")
    damaged = (CheckedCheckpoint(Epoch(8), (manifest,)), CheckedCheckpoint(Epoch(7), tuple(runs)))
    with display.console.capture() as capture:
        display(WentBack(Epoch(6), damaged, 1_200, ("", "late")))
        display.print_summary()
    assert capture.get().splitlines() == [
        "damaged  checkpoint 8: its manifest is missing, file=/c/manifests/[8].json",
        *(
            f"damaged  checkpoint 7: a run of the state is missing, file=/c/runs/step/{number}.sst"
            for number in range(5)
        ),
        "damaged  checkpoint 7: and 2 more files",
        (
            "back     going on from checkpoint 6: what came after it is read again; 1,200 output files or rows of "
            "later epochs rolled back"
        ),
        "         rows of later epochs stay in the main output, which cannot be rolled back; they come again",
        "         rows of later epochs stay in output 'late', which cannot be rolled back; they come again",
        "went back to checkpoint 6, as damaged ones came after it: 7, 8",
        "nothing new: no epoch was committed in this run",
    ]


def test_what_was_mended_of_sparks_log_is_told() -> None:
    display = a_display()
    with display.console.capture() as capture:
        display(SparkLogRepaired(("/c/spark/offsets/7",)))
    assert capture.get() == (
        "mended   an entry of Spark's log was missing or damaged, and not needed, file=/c/spark/offsets/7\n"
    )


def test_what_an_earlier_start_had_committed_and_not_published_is_told() -> None:
    display = a_display()
    with display.console.capture() as capture:
        display(PublishedLate(Epoch(7)))
        display.print_summary()
    assert capture.get().splitlines() == [
        "published  epoch 7: an earlier start committed it, and ended before it was all published",
        "nothing new: no epoch was committed in this run, and epoch 7 was published",
    ]


def test_a_run_whose_display_nobody_reads_any_more_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    file = os.fdopen(writer, "w")
    console = RunConsole(file=file, width=80)
    display = Display(console, Progress(console=console, disable=True))
    for _ in range(2):
        display(RescaleIgnored("it is old"))
    with pytest.raises(BrokenPipeError):
        file.close()
    (record,) = caplog.records
    assert record.getMessage() == (
        "the program that reads standard output has ended, so the run has no display from here on; the job goes on. "
        "To end it, press Ctrl-C or send SIGTERM"
    )
