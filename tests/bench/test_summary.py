"""The summary of a workload: medians of the warm rounds, the fastest first, ratios to ours whichever way round."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode_bench.contestant import Outcome
from mixedmode_bench.results import Entry, Run
from mixedmode_bench.summary import (
    Spread,
    by_workload,
    lines,
    medians,
    memory_by_role,
    ours,
    roles_of,
    rounds_text,
    typical,
)
from tests.bench.invented import count_sum, document, entry, live

seconds = st.floats(0.001, 1e4)


@given(st.lists(seconds, min_size=1))
def test_a_spread_is_in_order(values: list[float]) -> None:
    spread = Spread.of(values)
    assert min(values) == spread.low <= spread.mid <= spread.high == max(values)


@given(seconds, st.lists(seconds, min_size=1, max_size=6))
def test_the_cold_run_stands_apart_and_the_typical_one_is_a_warm_one(cold: float, warm: list[float]) -> None:
    runs = tuple(Run(number, Outcome(value)) for number, value in enumerate([cold, *warm]))
    made = Entry("mixed", "ours", is_ours=True, events=10, runs=runs)
    (line,) = lines(replace(count_sum(), entries=(made,), ratios=()))
    assert line.cold_s == cold
    assert (line.seconds.low, line.seconds.high) == (min(warm), max(warm))
    assert line.per_event_s.mid == pytest.approx(line.seconds.mid / 10)
    chosen = typical(made)
    assert chosen.round > 0
    assert abs(chosen.outcome.seconds - line.seconds.mid) == min(abs(value - line.seconds.mid) for value in warm)


def test_with_a_cold_run_only_that_one_is_shown() -> None:
    only_cold = entry("mixed", 2.0, 10, noise=(1.0,))
    (line,) = lines(replace(count_sum(), entries=(only_cold,), ratios=()))
    assert line.seconds.mid == line.cold_s == 2.0


def test_a_ratio_is_a_multiple_of_ours_whichever_way_round_it_is_stated() -> None:
    times = {line.entry.contestant: line.times for line in lines(count_sum())}
    assert times["mixed"] is None
    assert times["spark-batch"] is not None
    assert times["spark-batch"].mid == pytest.approx(6.4 / 2.31, rel=0.01)
    assert times["duckdb"] is not None
    assert times["duckdb"].mid == pytest.approx(0.72 / 2.31, rel=0.01)
    assert times["duckdb"].low <= times["duckdb"].mid <= times["duckdb"].high


def test_a_ratio_of_a_part_is_not_taken_for_that_of_the_whole() -> None:
    only_part = replace(live(), ratios=tuple(ratio for ratio in live().ratios if ratio.of))
    assert all(line.times is None for line in lines(only_part))


def test_without_one_of_ours_there_is_nothing_to_compare_with() -> None:
    peers = replace(count_sum(), entries=tuple(e for e in count_sum().entries if not e.is_ours))
    assert ours(peers) is None
    assert ours(count_sum()) == "mixed"


def test_unusual_roles_are_added_up_and_come_last() -> None:
    peaks = {"sh": 1, "JVM": 10, "Thread-3": 2, "driver": 5}
    made = entry("mixed", 1.0, 10, peaks=peaks, noise=(1.0,))
    found = lines(replace(count_sum(), entries=(made,), ratios=()))
    assert {role: size >> 20 for role, size in memory_by_role(found[0]).items()} == {"JVM": 10, "driver": 5, "other": 3}
    assert roles_of(found) == ["JVM", "driver", "other"]


def test_sizes_of_a_workload_stand_together() -> None:
    assert [len(sizes) for sizes in by_workload(document())] == [1, 1, 6]


def test_medians_are_of_those_that_have_the_part() -> None:
    assert medians([{"a": 1.0}, {"a": 3.0, "b": 5.0}]) == {"a": 2.0, "b": 5.0}


@pytest.mark.parametrize(
    ("rounds", "text"),
    [
        ([(0,)], "cold runs only"),
        ([(0, 1)], "one warm round"),
        ([(0, 1, 2), (0, 1, 2)], "medians of 2 warm rounds"),
        ([(0, 1), (0, 1, 2, 3)], "medians of 1 to 3 warm rounds"),
    ],
)
def test_the_rounds_are_those_that_were_run(rounds: list[tuple[int, ...]], text: str) -> None:
    """A run may have fewer than were asked for, as `scaling` has."""
    whole = document()
    entries = tuple(
        replace(whole.measured[0].entries[0], runs=tuple(Run(n, Outcome(1.0)) for n in ns)) for ns in rounds
    )
    assert rounds_text(replace(whole, measured=(replace(whole.measured[0], entries=entries),))) == text
