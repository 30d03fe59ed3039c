"""The autoscaler's decision: by table, and by properties over any load; and a job that reacts to it, simulated."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.driver.events import processing_lag_seconds
from mixedmode.driver.scaling import EpochLoad, Keep, Load, Scale, ScaleTargets, decide_scale

TARGETS = ScaleTargets(
    parallelism_min=1, parallelism_max=8, utilization=0.7, lag_ms=None, throughput=None, cool_down_ms=60_000
)


def an_epoch(seconds: float, *, records: int = 0, period: float = 1.0, lag: float = 0.0) -> EpochLoad:
    return EpochLoad(records, seconds, period, lag)


def load(parallelism: int, *epochs: EpochLoad, since_ms: int | None = None, is_pinned: bool = False) -> Load:
    return Load(parallelism, 1.0, epochs, since_ms, is_pinned)


UTILIZATION_MET = "busy 60% of the time, target 70%"


@pytest.mark.parametrize(
    ("found", "targets", "decision"),
    [
        (load(2, *5 * [an_epoch(0.6)]), {}, Keep(UTILIZATION_MET)),
        (load(2, *5 * [an_epoch(0.9)]), {}, Scale(3, "busy 90% of the time, target 70%")),
        (load(2, *5 * [an_epoch(0.1)]), {}, Scale(1, "busy 10% of the time, target 70%")),
        (load(4, *5 * [an_epoch(0.5)]), {}, Keep("busy 50% of the time, target 70%")),
        (load(4, *5 * [an_epoch(0.4)]), {}, Scale(3, "busy 40% of the time, target 70%")),
        # an epoch after a pause is long, and the job is not busy
        (load(2, *5 * [an_epoch(6.0, period=600.0)]), {}, Scale(1, "busy 1% of the time, target 70%")),
        # one epoch, or two, that are slow decide nothing
        (load(2, an_epoch(9.0), an_epoch(9.0, period=9.0), *3 * [an_epoch(0.6)]), {}, Keep(UTILIZATION_MET)),
        # only the last epochs count
        (load(2, *20 * [an_epoch(0.9)], *5 * [an_epoch(0.6)]), {}, Keep(UTILIZATION_MET)),
        (load(2, *4 * [an_epoch(0.9)]), {}, Keep("4 of 5 epochs seen since the last change")),
        (
            load(8, *5 * [an_epoch(0.9)]),
            {},
            Keep("busy 90% of the time, target 70%, and 8 is the most it may choose"),
        ),
        (
            load(2, *5 * [an_epoch(0.1)]),
            {"parallelism_min": 2},
            Keep("busy 10% of the time, target 70%, and 2 is the fewest it may choose"),
        ),
        (
            load(4, *5 * [an_epoch(8.0, period=8.0)]),
            {"parallelism_max": 5},
            Scale(5, "busy 100% of the time, target 70%"),
        ),
        (load(2, *5 * [an_epoch(0.9)], since_ms=59_999), {}, Keep("cooling down after the last change")),
        (load(2, *5 * [an_epoch(0.9)], since_ms=60_000), {}, Scale(3, "busy 90% of the time, target 70%")),
        (
            load(2, *5 * [an_epoch(0.9)], is_pinned=True),
            {},
            Keep("a parallelism was asked for with `mixedmode rescale`"),
        ),
        (load(9), {}, Scale(8, "9 is outside the bounds 1 to 8")),
        (load(1), {"parallelism_min": 3}, Scale(3, "1 is outside the bounds 3 to 8")),
        (
            load(2, *5 * [an_epoch(0.6, records=50_000)]),
            {"throughput": 10_000},
            Scale(5, "25,000 records/s per subtask, target 10,000"),
        ),
        (
            load(5, *5 * [an_epoch(0.1, records=50_000)]),
            {"throughput": 10_000},
            Keep("busy 10% of the time, target 70%; 10,000 records/s per subtask, target 10,000"),
        ),
        # the result of an epoch is to be there a tenth of a second after it began
        (load(2, *5 * [an_epoch(0.2, lag=0.2)]), {"lag_ms": 100}, Scale(4, "0.2 s behind, target 0.1 s")),
        (
            load(2, *5 * [an_epoch(0.6, lag=0.6)]),
            {"lag_ms": 10_000},
            Keep(f"{UTILIZATION_MET}; 0.6 s behind, target 10 s"),
        ),
        # far behind, and it goes away by itself: the work would need fewer, which can wait
        (
            load(4, *5 * [an_epoch(3.0, period=30.0, lag=32.0)]),
            {"lag_ms": 10_000},
            Keep("busy 10% of the time, target 70%; 32.0 s behind, target 10 s"),
        ),
    ],
)
def test_what_is_decided(found: Load, targets: dict[str, int], decision: Scale | Keep) -> None:
    assert decide_scale(found, replace(TARGETS, **targets)) == decision


@pytest.mark.parametrize(
    ("seconds", "before", "lag"), [(0.3, 0.5, 0.3), (0.3, 1.0, 0.3), (3.0, 1.0, 3.0), (3.0, 5.0, 7.0), (0.5, 5.0, 4.5)]
)
def test_a_record_waits_for_the_epoch_before_its_own_and_for_its_own(seconds: float, before: float, lag: float) -> None:
    assert processing_lag_seconds(seconds, before, 1.0) == pytest.approx(lag)


SECONDS = st.floats(0.001, 100.0)
EPOCHS = st.lists(
    st.builds(
        lambda seconds, waited, records, lag: EpochLoad(records, seconds, 1.0 + waited, lag),
        SECONDS,
        SECONDS,
        st.integers(0, 10**7),
        SECONDS,
    ),
    max_size=12,
)


@st.composite
def targets_of(draw: st.DrawFn) -> ScaleTargets:
    low = draw(st.integers(1, 20))
    return ScaleTargets(
        parallelism_min=low,
        parallelism_max=draw(st.integers(low, 40)),
        utilization=draw(st.floats(0.05, 1.0)),
        lag_ms=draw(st.none() | st.integers(1, 10**6)),
        throughput=draw(st.none() | st.integers(1, 10**6)),
        cool_down_ms=draw(st.integers(1, 10**6)),
    )


LOADS = st.builds(Load, st.integers(1, 50), st.just(1.0), EPOCHS, st.none() | st.integers(0, 2 * 10**6), st.booleans())


@given(found=LOADS, targets=targets_of())
def test_a_choice_is_within_the_bounds_another_one_and_not_within_a_cool_down(
    found: Load, targets: ScaleTargets
) -> None:
    decision = decide_scale(found, targets)
    assert decision.reason
    if isinstance(decision, Scale):
        assert targets.parallelism_min <= decision.to <= targets.parallelism_max
        assert decision.to != found.parallelism
        assert not found.is_pinned
        assert found.since_change_ms is None or found.since_change_ms >= targets.cool_down_ms


@given(
    found=LOADS, targets=targets_of(), more=st.lists(st.tuples(SECONDS, st.integers(0, 10**6), SECONDS), min_size=12)
)
def test_more_load_never_gives_fewer_subtasks(
    found: Load, targets: ScaleTargets, more: list[tuple[float, int, float]]
) -> None:
    heavier = [
        EpochLoad(e.records + records, e.seconds + seconds, e.period_seconds, e.lag_seconds + lag)
        for e, (seconds, records, lag) in zip(found.epochs, more, strict=False)
    ]
    before, after = (chosen(one, targets) for one in (found, replace(found, epochs=heavier)))
    assert after >= before


def chosen(found: Load, targets: ScaleTargets) -> int:
    decision = decide_scale(found, targets)
    return decision.to if isinstance(decision, Scale) else found.parallelism


@given(
    work=st.floats(0.01, 20.0),
    fixed=st.floats(0.0, 0.4),
    rate=st.integers(0, 100_000),
    start=st.integers(1, 16),
    sway=st.lists(st.floats(-0.1, 0.1), min_size=1, max_size=30),
    lag_ms=st.none() | st.integers(200, 60_000),
    throughput=st.none() | st.integers(1_000, 100_000),
    utilization=st.floats(0.45, 1.0),
)
def test_under_a_steady_load_the_number_comes_to_rest_without_turning(
    work: float,
    fixed: float,
    rate: int,
    start: int,
    sway: list[float],
    lag_ms: int | None,
    throughput: int | None,
    utilization: float,
) -> None:
    """`work` seconds of one subtask for each second of input, shared out; `fixed` seconds an epoch, which are not."""
    targets = replace(TARGETS, parallelism_max=16, lag_ms=lag_ms, throughput=throughput, utilization=utilization)
    parallelism, numbers, epochs = start, [start], list[EpochLoad]()
    before = 0.0
    for number in range(400):
        period = max(1.0, before)
        arrived = 1 + sway[number % len(sway)]
        seconds = fixed * arrived + work * arrived * period / parallelism
        epochs.append(
            EpochLoad(int(rate * arrived * period), seconds, period, processing_lag_seconds(seconds, before, 1.0))
        )
        before = min(seconds, 3600.0)
        decision = decide_scale(Load(parallelism, 1.0, epochs, None), targets)
        if isinstance(decision, Scale):
            parallelism, epochs = decision.to, []
            numbers.append(parallelism)
    steps = {after > now for now, after in pairwise(numbers)}
    assert len(steps) <= 1, f"it turned: {numbers}"
    assert len(numbers) <= 16, f"it does not converge: {numbers}"
