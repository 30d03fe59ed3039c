"""The progress of an epoch: its share never falls, and its phases follow each other. Its seconds: test_pace.py."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.types import Epoch
from mixedmode.driver.events import EpochProgress
from mixedmode.driver.pace import COMBINING, PYTHON, StepFigures
from mixedmode.driver.progress import EpochEstimate, Moment, duration_text, progress_text
from tests.driver.paces import IDLE, RECORDS, SIZE, parts, run_of

WHOLE = 60.0


def story() -> list[EpochProgress]:
    """The progress of an epoch of a minute."""
    _, run = run_of(COMBINING, 0.3, 10, WHOLE)
    estimate = EpochEstimate(Epoch(0), is_backlog=True, steps={"step": COMBINING}, bytes_total=SIZE)
    return [estimate.at(Moment(second, {"step": step} if second > IDLE else {})) for second, step in run]


def test_progress_moves_from_nothing_to_everything_through_the_phases() -> None:
    told = story()
    assert (told[0].share, told[0].seconds_left, told[0].bytes_read, told[0].bytes_total) == (0.0, None, 0, SIZE)
    assert list(dict.fromkeys(event.phase for event in told)) == [
        "planning",
        "reading",
        "sorting",
        "processing",
        "storing",
    ]
    assert (told[-1].share, told[-1].bytes_read, told[-1].records) == (1.0, SIZE, RECORDS)


@given(
    st.lists(st.dictionaries(st.sampled_from("ab"), st.tuples(parts, parts)), max_size=6),
    st.none() | st.integers(0, 1_000),
)
def test_whatever_the_figures_say_the_share_never_falls_and_nothing_is_more_than_all(
    figures: Sequence[dict[str, StepFigures]], bytes_total: int | None
) -> None:
    estimate = EpochEstimate(Epoch(3), is_backlog=True, steps={"a": COMBINING, "b": PYTHON}, bytes_total=bytes_total)
    share = 0.0
    for second, steps in enumerate(figures):
        event = estimate.at(Moment(float(second), steps))
        assert share <= event.share <= 1
        assert event.seconds_left is None or event.seconds_left >= 0
        assert event.bytes_total is None or event.bytes_read <= event.bytes_total
        assert progress_text(event)
        share = event.share
    done = estimate.done(10.0)
    assert (done.share, done.phase) == (1.0, "done")
    assert done.bytes_total is None or done.bytes_read == done.bytes_total


def test_a_progress_is_a_text_for_a_person() -> None:
    told = story()
    assert progress_text(told[25]) == (
        "step reading, 42%, 44.8 of 64.0 MB read, 700,000 records, 0 of 4 tasks done, about 39 s left"
    )
    assert progress_text(replace(told[-1], phase="done", records=7)) == (
        "all steps done, committing, 64.0 of 64.0 MB read, 7 records"
    ), "the epoch is not over yet"
    assert [duration_text(seconds) for seconds in (0.2, 89, 90, 3_600, 7_500)] == [
        "1 s",
        "89 s",
        "2 min",
        "60 min",
        "2 h 5 min",
    ]
