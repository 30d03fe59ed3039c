"""The watermarks of the steps of a graph, over epochs in which sources are idle and come back."""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from mixedmode.plan.reads import StepTime
from mixedmode.tasks.progress import Progress
from mixedmode.tasks.timing import Timing
from mixedmode.time import MIN_TIME_US, Seen, Strategy, WatermarkState

SOURCES = ("a", "b", "c")
IDLE_MS = 10
#: chains of steps: each reads the one before it, and perhaps further sources
CHAINS = st.lists(st.frozensets(st.sampled_from(SOURCES)), min_size=1, max_size=4).filter(lambda chain: bool(chain[0]))
#: of each epoch: how long after the previous one it begins, and the greatest event times of the sources with records
EPOCHS = st.lists(
    st.tuples(st.sampled_from([0, IDLE_MS]), st.dictionaries(st.sampled_from(SOURCES), st.none() | st.integers(0, 99))),
    min_size=2,
    max_size=8,
)


def steps_of(chain: list[frozenset[str]]) -> dict[str, StepTime]:
    """Return the steps of a chain, first to last.  chain: the sources that each of them reads itself."""
    sources = [frozenset[str]().union(*chain[: number + 1]) for number in range(len(chain))]
    names = [f"step{number}" for number in range(len(chain))]
    return {
        name: StepTime(sources[number], downstream=dict(zip(names[number + 1 :], sources[number + 1 :], strict=True)))
        for number, name in enumerate(names)
    }


@given(CHAINS, EPOCHS)
@example([frozenset("a"), frozenset("b")], [(0, {"a": 5, "b": 3}), (IDLE_MS, {"b": 50}), (0, {"a": 6})])
@example([frozenset("a"), frozenset(), frozenset("b")], [(0, {"b": 3}), (IDLE_MS, {"b": 50}), (0, {"a": 6})])
def test_no_step_is_ahead_of_a_step_upstream_and_none_goes_back(
    chain: list[frozenset[str]], epochs: list[tuple[int, dict[str, int | None]]]
) -> None:
    strategies = {name: Strategy(0, IDLE_MS, None) for name in SOURCES}
    backlog = frozenset[str]()
    timing = Timing(
        WatermarkState.initial(SOURCES, 0), strategies, 0, None, backlog, None, False, None, fires_all=False
    )
    steps, before = steps_of(chain), [MIN_TIME_US] * len(chain)
    for pause_ms, times in epochs:
        timing = replace(timing, clock_ms=timing.clock_ms + pause_ms)
        progress = Progress(splits={(name, ""): Seen(1, time) for name, time in times.items()})
        late = [timing.of(name, step).late_us() for name, step in steps.items()]
        assert late == before, "a step begins where it was after the previous epoch"
        after = [timing.of(name, step).after(progress).watermark_us for name, step in steps.items()]
        assert after == sorted(after, reverse=True), "so a window of a step is late in none downstream"
        assert all(new >= old for old, new in zip(before, after, strict=True))
        timing = replace(
            timing, before=timing.after(progress), steps=timing.steps_after(progress, steps), timed=frozenset(SOURCES)
        )
        before = after


def test_a_step_whose_sources_are_not_idle_is_moved_by_them_alone() -> None:
    strategies = {name: Strategy(0, None, None) for name in SOURCES}
    backlog = frozenset[str]()
    timing = Timing(
        WatermarkState.initial(SOURCES, 0), strategies, 0, None, backlog, None, False, None, fires_all=False
    )
    steps = steps_of([frozenset("a"), frozenset("b")])
    progress = Progress(splits={("a", ""): Seen(1, 5), ("b", ""): Seen(1, 50)})
    assert [timing.of(name, step).after(progress).watermark_us for name, step in steps.items()] == [5, 5]
    progress = Progress(splits={("a", ""): Seen(1, 50), ("b", ""): Seen(1, 5)})
    assert [timing.of(name, step).after(progress).watermark_us for name, step in steps.items()] == [50, 5]
