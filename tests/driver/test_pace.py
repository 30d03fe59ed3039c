"""The seconds left of an epoch: right if the costs are, near if they are about right, and near in recorded runs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.driver.pace import COMBINING, PYTHON, ROW_BY_ROW, WINDOWS, EpochPace, PartFigures, StepFigures, Work
from tests.driver.paces import IDLE, RECORDS, SIZE, parts, run_of
from tests.random_cases import random_cases

RECORDED = Path(__file__).parent / "recorded"


def told(work: Work, figures_by_second: Sequence[tuple[float, StepFigures]]) -> list[tuple[float, float | None]]:
    """The seconds left at each moment."""
    pace = EpochPace({"step": work}, SIZE)
    found = []
    for second, step in figures_by_second:
        pace.look(second, {"step": step} if second > IDLE else {})
        found.append((second, pace.seconds_left()))
    return found


works = st.sampled_from([COMBINING, WINDOWS, ROW_BY_ROW, PYTHON])


@settings(max_examples=random_cases(15))
@given(works, st.integers(1, 20), st.floats(0.1, 1.0), st.floats(20, 5_000))
def test_if_each_phase_takes_as_long_as_its_cost_says_the_seconds_left_are_right(
    work: Work, slices: int, made: float, seconds: float
) -> None:
    begin, run = run_of(replace(work, rows=made), made, slices, seconds, looks=300)
    for second, left in told(replace(work, rows=made), run):
        if second > max(begin, (IDLE + seconds) / 3):
            assert left == pytest.approx(IDLE + seconds - second, abs=0.1 * seconds), second


@settings(max_examples=random_cases(15))
@given(works, st.integers(1, 20), st.floats(0.9, 1.1), st.lists(st.floats(0.9, 1.1), min_size=8, max_size=8))
def test_from_a_third_on_they_are_within_30_percent_if_the_costs_are_about_right(
    work: Work, slices: int, rows: float, wrong: list[float]
) -> None:
    costs = [cost * factor for cost, factor in zip(astuple(work)[1:], wrong, strict=True)]
    _, run = run_of(Work(work.rows, *costs), rows * work.rows, slices, 1_000.0)
    errors = [abs((left or 0) / (1_000 + IDLE - second) - 1) for second, left in told(work, run) if 340 < second < 900]
    assert median(errors) < 0.3


@pytest.mark.parametrize("file", sorted(RECORDED.glob("*.json")), ids=lambda file: str(file.stem))
def test_from_a_third_of_a_recorded_run_on_the_median_error_is_below_30_percent(file: Path) -> None:
    """bench/eta.py has recorded them."""
    story = json.loads(file.read_text(encoding="utf-8"))
    works = {"keys": COMBINING, "days": WINDOWS, "function": PYTHON}
    work = works[file.stem.split("-")[0]]
    names = {name for _, steps in story["moments"] for name in steps}
    pace = EpochPace(dict.fromkeys(names, work), story["bytes_total"], story["records_total"])
    errors = []
    for second, steps in story["moments"]:
        pace.look(second, {name: (PartFigures(**first), PartFigures(**then)) for name, (first, then) in steps.items()})
        if story["seconds"] / 3 <= second <= 0.9 * story["seconds"]:
            left = pace.seconds_left()
            assert left is not None, second
            errors.append(abs(left / (story["seconds"] - second) - 1))
    assert median(errors) < 0.3
    assert max(errors) < 1


def test_of_steps_that_run_at_the_same_time_the_slower_one_counts() -> None:
    _, slow = run_of(COMBINING, 0.3, 5, 100.0)
    _, fast = run_of(COMBINING, 0.3, 5, 50.0)
    pace = EpochPace({"a": COMBINING, "b": COMBINING}, SIZE)
    for second, step in slow:
        quick = next((one for at, one in fast if at >= second), fast[-1][1])
        pace.look(second, {"a": step, "b": quick} if second > IDLE else {})
        if 60 < second < 95:
            assert pace.seconds_left() == pytest.approx(106 - second, rel=0.3)
    assert pace.seconds_left() == 0


def test_a_step_that_has_not_begun_counts_after_those_under_way() -> None:
    _, run = run_of(COMBINING, 0.3, 5, 100.0)
    alone, both = EpochPace({"a": COMBINING}, SIZE), EpochPace({"a": COMBINING, "b": COMBINING}, SIZE)
    for second, step in run[:30]:
        for pace in (alone, both):
            pace.look(second, {"a": step})
    rest, whole = alone.seconds_left(), both.seconds_left()
    assert rest is not None
    assert whole is not None
    costs = COMBINING.of(RECORDS, 0.3 * RECORDS)
    later = sum(COMBINING.of(0.3 * RECORDS, 0.09 * RECORDS)) / sum(costs) * 100
    assert whole - rest == pytest.approx(later, rel=0.1), "at most as many records as the first step has rows"


def test_input_that_spark_reads_is_measured_by_its_bytes_or_records_or_else_by_its_tasks() -> None:
    work = Work(rows=0.5, read=1.0, fold=0, make=0, send=0, receive=0, sort=0, process=1.0, store=0)

    def left(part: PartFigures, bytes_total: int | None = None, records_total: int | None = None) -> float | None:
        pace = EpochPace({"a": work}, bytes_total, records_total)
        pace.look(0.0, {})
        pace.look(10.0, {"a": (part, PartFigures())})
        return pace.seconds_left()

    def expected(share: float) -> object:
        return pytest.approx(10 / share * (1.5 - share))

    assert left(PartFigures(tasks=10, bytes_read=500, records=1), 1_000) == expected(0.85 * 0.5)
    assert left(PartFigures(tasks=10, bytes_read=1, records=25), 1_000, 50) == expected(0.85 * 0.5)
    assert left(PartFigures(tasks=10, tasks_done=2, bytes_read=500, records=9)) == expected(0.2)
    assert left(PartFigures(tasks=10, bytes_read=500, records=9)) is None


@given(
    st.lists(st.dictionaries(st.sampled_from("ab"), st.tuples(parts, parts)), max_size=6),
    st.none() | st.integers(0, 1_000),
    st.none() | st.integers(0, 1_000),
)
def test_whatever_the_figures_say_the_seconds_left_are_not_negative(
    looks: Sequence[Mapping[str, StepFigures]], bytes_total: int | None, records_total: int | None
) -> None:
    pace = EpochPace({"a": COMBINING, "b": PYTHON}, bytes_total, records_total)
    for second, steps in enumerate(looks):
        pace.look(float(second), steps)
        left = pace.seconds_left()
        assert left is None or left >= 0
