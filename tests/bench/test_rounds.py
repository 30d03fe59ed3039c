"""Turns, ratios within rounds, and targets: from runs, without running anything."""

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode_bench.contestant import EpochSpan, Outcome
from mixedmode_bench.contestants import CONTESTANTS
from mixedmode_bench.results import Entry, Figure, Measured, Ratio, Run
from mixedmode_bench.rounds import figures, live_epochs, median_seconds, ratios, turns
from mixedmode_bench.targets import FIGURES, MULTIPLES, RATIOS

names = st.lists(st.text(min_size=1, max_size=3), unique=True, max_size=6)
seconds = st.floats(0.01, 1e4)


def entry(contestant: str, *by_round: float, events: int = 1000) -> Entry:
    """Of a contestant with these seconds, the first of them cold."""
    runs = tuple(Run(number, Outcome(s)) for number, s in enumerate(by_round))
    return Entry(contestant, contestant, contestant == "mixed", events, runs)


def live(contestant: str, *rounds: tuple[tuple[int, float], ...]) -> Entry:
    """Of a contestant with these epochs, each of (events, seconds), in warm rounds."""
    runs = []
    for number, epochs in enumerate(rounds, 1):
        spans = [EpochSpan(0.0, 50.0, 10_000, is_backlog=True)]
        spans += [EpochSpan(100.0, 100.0 + seconds, events) for events, seconds in epochs]
        runs.append(Run(number, Outcome(99.0, epochs=tuple(spans))))
    return Entry(contestant, contestant, contestant == "mixed", 1000, tuple(runs))


@given(names, st.integers(0, 20))
def test_in_a_round_everyone_runs_once(contestants: list[str], number: int) -> None:
    assert sorted(turns(contestants, number)) == sorted(contestants)


@given(names.filter(bool))
def test_in_as_many_rounds_as_there_are_contestants_each_has_every_place_once(contestants: list[str]) -> None:
    orders = [turns(contestants, number) for number in range(len(contestants))]
    for place in range(len(contestants)):
        assert {order[place] for order in orders} == set(contestants)


@given(st.lists(st.tuples(seconds, seconds), min_size=1, max_size=5), st.integers(1, 10**9))
def test_a_ratio_is_taken_within_each_warm_round(rounds: list[tuple[float, float]], events: int) -> None:
    ours, theirs = ([pair[place] for pair in rounds] for place in (0, 1))
    (ratio,) = ratios(
        "any", [entry("mixed", 1e9, *ours, events=events), entry("spark-batch", 1.0, *theirs, events=events)]
    )
    assert (ratio.slower, ratio.faster) == ("spark-batch", "mixed")
    assert ratio.by_round == pytest.approx([b / a for a, b in rounds])
    assert ratio.value == median(ratio.by_round)
    assert ratio.is_met is None


def test_who_ran_a_part_is_compared_per_event() -> None:
    slow = entry("transform-with-state", 9.0, 30.0, events=100)
    (ratio,) = ratios("any", [entry("mixed", 9.0, 1.0), slow])
    assert ratio.by_round == pytest.approx([300.0])


def test_the_order_of_the_runs_does_not_matter() -> None:
    ours, theirs = entry("mixed", 9.0, 1.0, 2.0), entry("spark-batch", 9.0, 10.0, 40.0)
    turned = Entry("spark-batch", "", is_ours=False, events=1000, runs=theirs.runs[::-1])
    assert ratios("any", [ours, turned]) == ratios("any", [ours, theirs])
    assert ratios("any", [ours, theirs])[0].by_round == (10.0, 20.0)


def test_the_floor_is_what_ours_is_compared_with() -> None:
    (ratio,) = ratios("any", [entry("mixed", 9.0, 3.0), entry("duckdb", 9.0, 1.0)])
    assert (ratio.slower, ratio.faster, ratio.by_round) == ("mixed", "duckdb", (3.0,))


def test_without_one_of_ours_or_a_warm_round_there_is_nothing_to_compare() -> None:
    assert ratios("any", [entry("spark-batch", 9.0, 1.0), entry("duckdb", 9.0, 1.0)]) == ()
    assert ratios("any", [entry("mixed", 9.0), entry("spark-batch", 9.0)]) == ()
    assert median_seconds(entry("mixed", 9.0)) is None


def test_targets_of_ratios_come_first_and_are_met_or_missed_by_the_median() -> None:
    entries = [
        entry("batch", 1.0, 1.0, 1.0, 1.0),
        entry("mixed", 1.0, 1.0, 1.0, 1.0),
        entry("spark-batch", 1.0, 1.0, 2.5, 2.1),
        entry("spark-streaming", 1.0, 14.0, 14.0, 90.0),
        entry("duckdb", 1.0, 0.3, 0.3, 0.1),
    ]
    found = {(r.slower, r.faster): (r.value, r.is_met) for r in ratios("count-sum", entries)}
    assert list(found.items())[:4] == [
        (("batch", "mixed"), (1.0, True)),
        (("spark-streaming", "mixed"), (14.0, False)),
        (("spark-batch", "mixed"), (2.1, True)),
        (("mixed", "duckdb"), (pytest.approx(1 / 0.3), False)),
    ]


@pytest.mark.parametrize(("value", "is_met"), [(3.0, True), (2.9, False)])
def test_a_bound_itself_is_met(value: float, is_met: bool) -> None:
    assert Ratio("a", "b", (value,), at_least=3.0).is_met is is_met
    assert Figure("a", "b", "s", (value,), at_most=2.9).is_met is not is_met


LARGE, SMALL = (500, 2.0), (20, 0.5)


def test_live_epochs_are_large_or_small_and_the_first_one_is_neither() -> None:
    (run,) = live("mixed", ((500, 9.0), LARGE, LARGE, SMALL)).runs
    assert [s.events for s in live_epochs(run.outcome, "large epochs")] == [500, 500]
    assert [s.events for s in live_epochs(run.outcome, "small epochs")] == [20]
    assert [s.events for s in live_epochs(run.outcome, "")] == [500, 500, 20]
    assert live_epochs(Outcome(1.0), "large epochs") == []


def test_the_targets_of_live_are_for_large_epochs_and_small_ones() -> None:
    first = (500, 9.0)
    ours = live("mixed", (first, LARGE, (500, 1.0), (500, 4.0), SMALL), (first, LARGE, SMALL, (20, 0.25)))
    theirs = live("spark-streaming", (first, (500, 8.0), SMALL), (first, (500, 4.0), SMALL))
    large, few, whole = ratios("live", [ours, theirs])
    assert (large.of, large.by_round, large.is_met) == ("large epochs", (4.0, 2.0), False)
    assert (few.of, few.slower, few.is_met) == ("small epochs", "mixed", False)
    assert few.by_round == pytest.approx((1.0, 0.75))
    assert (whole.of, whole.by_round) == ("", (1.0, 1.0))
    rate, small = figures("live", [ours, theirs], ())
    assert (rate.unit, rate.by_round, rate.is_met) == ("events/s", (250.0, 250.0), False)
    assert (small.unit, small.by_round, small.is_met) == ("s", (0.5, 0.375), False)


def counted(*, is_full: bool = True) -> Measured:
    ours = entry("mixed", 9.0, 2.0, 1.0, 3.0)
    return Measured("count-sum", "", 1000, 10, 0, (ours,), is_full=is_full)


def test_one_workload_is_compared_with_another_of_the_same_run() -> None:
    (figure,) = figures("count-sum-40m", [entry("mixed", 9.0, 8.0, 9.0)], [counted()])
    assert (figure.unit, figure.by_round, figure.is_met) == ("x", (4.0, 4.5), False)
    assert figure.name == "seconds, times those of count-sum"
    assert figures("count-sum-40m", [entry("mixed", 9.0, 8.0)], []) == ()
    assert figures("count-sum-40m", [entry("mixed", 9.0, 8.0)], [counted(is_full=False)]) == ()


def test_targets_name_contestants_that_exist() -> None:
    named = {name for targets in RATIOS.values() for target in targets for name in (target.slower, target.faster)}
    named |= {target.contestant for targets in FIGURES.values() for target in targets}
    named |= {target.contestant for targets in MULTIPLES.values() for target in targets}
    assert named <= CONTESTANTS.keys()
