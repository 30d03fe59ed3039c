"""The progress of an epoch: its share never falls, and its estimate is right if the parts are as heavy as expected."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.types import Epoch
from mixedmode.driver.events import EpochProgress
from mixedmode.driver.progress import (
    COMBINING,
    ROW_BY_ROW,
    EpochEstimate,
    Moment,
    PartFigures,
    StepFigures,
    duration_text,
    progress_text,
)

TASKS, RECORDS, SIZE = 4, 1_000_000, 64_000_000
MADE = 0.5  # rows that the map side makes of a record; with COMBINING, the subtasks have 0.7 of its weight
IDLE = 6.0


def map_side(share: float) -> PartFigures:
    """A map side that reads and folds at an even pace, at this share of its work."""
    return PartFigures(
        tasks=TASKS if share > 0 else 0,
        tasks_done=TASKS if share >= 1 else 0,
        is_complete=share >= 1,
        records=int(RECORDS * share),
        rows=int(RECORDS * share * MADE),
        bytes_read=SIZE * share,
        bytes_folded=SIZE * share,
        bytes_total=SIZE,
    )


def subtasks(share: float) -> PartFigures:
    """Subtasks that receive for 35 % of their time, process for 50 %, and then store."""
    return PartFigures(
        tasks=TASKS if share > 0 else 0,
        tasks_done=TASKS if share >= 1 else 0,
        is_complete=share >= 1,
        rows=int(RECORDS * MADE * min(1.0, share / 0.35)),
        processed=TASKS * min(1.0, max(0.0, (share - 0.35) / 0.5)),
        stored=TASKS * (share >= 0.925),
    )


def moment(seconds: float, map_seconds: float, subtask_seconds: float) -> Moment:
    """The figures of an epoch of one step some seconds after it began."""
    after = seconds - IDLE
    of_map = min(1.0, max(0.0, after / map_seconds))
    of_subtasks = min(1.0, max(0.0, (after - map_seconds) / subtask_seconds))
    return Moment(seconds, {"step": (map_side(of_map), subtasks(of_subtasks))} if after > 0 else {})


def story(map_seconds: float, subtask_seconds: float) -> tuple[float, list[EpochProgress]]:
    """The seconds of an epoch, and its progress, told once a second."""
    whole = IDLE + map_seconds + subtask_seconds
    estimate = EpochEstimate(Epoch(0), is_backlog=True, steps={"step": COMBINING}, bytes_total=SIZE)
    return whole, [
        estimate.at(moment(float(second), map_seconds, subtask_seconds)) for second in range(1, int(whole) + 1)
    ]


@pytest.mark.parametrize("seconds", [30, 300, 3_000])
@pytest.mark.parametrize("ratio", [0.55, 0.7, 0.9])
def test_from_a_third_on_the_seconds_left_are_right_within_30_percent_if_the_weights_are_about_right(
    seconds: float, ratio: float
) -> None:
    whole, told = story(seconds, seconds * ratio)
    for event in told:
        left = whole - event.seconds
        if event.seconds < whole / 3 or left < 0.1 * whole:
            continue
        assert event.seconds_left == pytest.approx(left, rel=0.3), event


def test_progress_moves_from_nothing_to_everything_through_the_phases() -> None:
    _, told = story(40, 20)
    assert (told[0].share, told[0].seconds_left, told[0].bytes_read, told[0].bytes_total) == (0.0, None, 0, SIZE)
    assert list(dict.fromkeys(event.phase for event in told)) == [
        "planning",
        "reading",
        "sorting",
        "processing",
        "storing",
    ]
    assert (told[-1].share, told[-1].bytes_read, told[-1].records) == (1.0, SIZE, RECORDS)


def test_of_steps_that_run_at_the_same_time_the_slower_one_counts() -> None:
    estimate = EpochEstimate(Epoch(0), is_backlog=True, steps={"a": COMBINING, "b": COMBINING}, bytes_total=SIZE)
    whole = IDLE + 50 + 35
    for second in range(1, int(whole) + 2):
        both = {"a": moment(second, 50, 35).steps, "b": moment(second, 25, 18).steps}
        event = estimate.at(Moment(second, {name: steps["step"] for name, steps in both.items() if steps}))
        if IDLE + 25 + 18 < second < 0.9 * whole:  # b has ended
            assert event.seconds_left == pytest.approx(whole - second, rel=0.3)
            assert event.step == "a"
    assert event.seconds_left == 0


parts = st.builds(
    PartFigures,
    tasks=st.integers(0, 8),
    tasks_done=st.integers(0, 8),
    is_complete=st.booleans(),
    records=st.integers(0, 10),
    rows=st.integers(0, 10),
    bytes_read=st.floats(0, 1e9),
    bytes_folded=st.floats(0, 1e9),
    bytes_total=st.floats(0, 1e9),
    processed=st.floats(0, 8),
    stored=st.floats(0, 8),
)


@given(
    st.lists(st.dictionaries(st.sampled_from("ab"), st.tuples(parts, parts)), max_size=6),
    st.none() | st.integers(0, 1_000),
)
def test_whatever_the_figures_say_the_share_never_falls_and_nothing_is_more_than_all(
    figures: Sequence[dict[str, StepFigures]], bytes_total: int | None
) -> None:
    estimate = EpochEstimate(
        Epoch(3), is_backlog=True, steps={"a": COMBINING, "b": ROW_BY_ROW}, bytes_total=bytes_total
    )
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


def test_input_that_spark_reads_is_measured_by_its_bytes_or_else_by_its_tasks() -> None:
    estimate = EpochEstimate(Epoch(0), is_backlog=True, steps={"a": COMBINING}, bytes_total=1_000)
    estimate.at(Moment(0.0, {}))
    event = estimate.at(Moment(10.0, {"a": (PartFigures(tasks=10, tasks_done=1, bytes_read=500), PartFigures())}))
    whole = 10 / (0.85 * 0.5)  # half is read after 10 s, and reading ends before the map side does
    assert event.seconds_left == pytest.approx(whole - 10 + 0.3 * 1.4 * whole), "expected for the subtasks"
    parquet = EpochEstimate(Epoch(0), is_backlog=True, steps={"a": COMBINING}, bytes_total=1_000, records_total=50)
    event = parquet.at(Moment(10.0, {"a": (PartFigures(tasks=10, bytes_read=1, records=25), PartFigures())}))
    assert event.bytes_read == 500, "by the records: of Parquet, Spark counts hardly any bytes"
    unknown = EpochEstimate(Epoch(0), is_backlog=True, steps={"a": COMBINING})
    unknown.at(Moment(0.0, {}))
    event = unknown.at(Moment(10.0, {"a": (PartFigures(tasks=10, tasks_done=2, bytes_read=500), PartFigures())}))
    assert event.seconds_left == pytest.approx(40 + 0.3 * 1.4 * 50)
    assert (event.bytes_read, event.bytes_total) == (500, None)


def test_a_progress_is_a_text_for_a_person() -> None:
    _, told = story(40, 20)
    assert progress_text(told[25]) == (
        "step reading, 35%, 32.0 of 64.0 MB read, 500,000 records, 0 of 4 tasks done, about 48 s left"
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


def test_reading_alone_is_no_ground_for_an_estimate_since_a_slice_is_folded_after_it() -> None:
    estimate = EpochEstimate(Epoch(0), is_backlog=True, steps={"a": COMBINING}, bytes_total=100)
    read = PartFigures(tasks=2, records=80, bytes_read=80, bytes_total=100)
    for second in (4.0, 5.0):
        event = estimate.at(Moment(second, {"a": (read, PartFigures())} if second > 4 else {}))
        assert (event.share, event.seconds_left) == (0.0, None)
    folded = replace(read, bytes_folded=80, rows=40)
    event = estimate.at(Moment(12.0, {"a": (folded, PartFigures())}))
    map_seconds = (12 - 4) / 0.8
    assert event.seconds_left == pytest.approx(0.2 * map_seconds + 0.5 * 1.4 * map_seconds)
