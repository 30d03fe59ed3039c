"""Records that are too late for the first of several windows: the later steps have the answer of all other records.

The oracle is plain Python: it follows the watermark from epoch to epoch, leaves out the records that are late for the
first step, and applies each step to the rows of the one before.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from mixedmode.job import Sink
from tests.differential.stories import case_folder, local_cases
from tests.differential.test_time_in_chains import (
    LATE,
    Row,
    Step,
    final,
    of_window,
    peaks,
    pieces,
    play,
    session,
    told,
    tumbling,
    windowed,
)
from tests.differential.timelines import MODES, MS, Case, Event, Mode, cases, microseconds
from tests.harness import output_rows


def sliding(size_ms: int, slide_ms: int, *, is_keyed: bool = True) -> Step:
    add = partial(windowed, is_keyed=is_keyed, sliding=f"{size_ms}ms", slide=f"{slide_ms}ms")
    return Step(add, in_windows(sliding_bounds(size_ms, slide_ms), is_keyed=is_keyed), has_key=is_keyed)


def cumulating(size_ms: int, step_ms: int, *, is_keyed: bool = True) -> Step:
    add = partial(windowed, is_keyed=is_keyed, cumulating=f"{size_ms}ms", step=f"{step_ms}ms")
    return Step(add, in_windows(cumulating_bounds(size_ms, step_ms), is_keyed=is_keyed), has_key=is_keyed)


#: the windows of a record's time, [start, end)
Bounds = Callable[[int], list[tuple[int, int]]]


def sliding_bounds(size_ms: int, slide_ms: int) -> Bounds:
    def bounds(time_us: int) -> list[tuple[int, int]]:
        last = time_us // (slide_ms * MS) * slide_ms * MS
        starts = range(last, time_us - size_ms * MS, -slide_ms * MS)
        return [(start, start + size_ms * MS) for start in starts]

    return bounds


def cumulating_bounds(size_ms: int, step_ms: int) -> Bounds:
    def bounds(time_us: int) -> list[tuple[int, int]]:
        start = time_us // (size_ms * MS) * size_ms * MS
        ends = range(start + step_ms * MS, start + size_ms * MS + 1, step_ms * MS)
        return [(start, end) for end in ends if end > time_us]

    return bounds


def in_windows(bounds: Bounds, *, is_keyed: bool) -> Callable[[Sequence[Row]], list[Row]]:
    def apply(rows: Sequence[Row]) -> list[Row]:
        found = defaultdict[Any, list[Row]](list)
        for row in rows:
            for start, end in bounds(row["t"]):
                if end > row.get("over_us", end - 1):
                    found[start, end, row["k"] if is_keyed else None].append(row)
        return [of_window(start, end, k, inside) for (start, end, k), inside in found.items()]

    return apply


@dataclass(frozen=True)
class First:
    """The first step. `bounds`: the windows of a record; of a session, that of the record alone."""

    step: Step
    bounds: Bounds

    def is_over(self, time_us: int, over_us: int) -> bool:
        return max(end for _, end in self.bounds(time_us)) <= over_us


def firsts(draw: st.DrawFn, *, is_keyed: bool) -> First:
    kinds: list[First] = [
        First(tumbling(5, is_keyed=is_keyed), sliding_bounds(5, 5)),
        First(peaks(10, is_keyed=is_keyed), sliding_bounds(10, 10)),
        First(sliding(12, 4, is_keyed=is_keyed), sliding_bounds(12, 4)),
        First(sliding(10, 4, is_keyed=is_keyed), sliding_bounds(10, 4)),
        First(cumulating(12, 4, is_keyed=is_keyed), cumulating_bounds(12, 4)),
        *([First(session(6), lambda t: [(t, t + 6 * MS)])] * is_keyed),
    ]
    return draw(st.sampled_from(kinds))


@dataclass(frozen=True)
class Late:
    case: Case
    first: First
    lateness_ms: int
    more: dict[str, Any]
    chain: tuple[Step, ...]

    def kept(self, mode: Mode) -> list[Row]:
        """The records that are not late for the first step. Their windows that end at `over_us` or before are over."""
        kept, over_us = list[Row](), -(2**62)
        for piece in pieces(self.case, mode):
            rows = [row | {"t": microseconds(row["t"]), "over_us": over_us} for row in piece.to_pylist()]
            kept += [row for row in rows if not self.first.is_over(row["t"], over_us)]
            over_us = max([over_us, *(row["t"] - (self.case.bound_ms + self.lateness_ms) * MS for row in rows)])
        return kept

    def expected(self, mode: Mode) -> Counter[tuple[Any, ...]]:
        rows = self.kept(mode)
        for step in (self.first.step, *self.chain):
            rows = step.apply(rows)
        return told(rows)


@st.composite
def disordered(draw: st.DrawFn) -> Case:
    """Records in any order, in many small epochs."""
    case = draw(cases())
    count = len(case.events)
    cuts = draw(st.sets(st.integers(0, count), min_size=min(count, 3), max_size=8))
    return replace(
        case,
        events=tuple(draw(st.permutations(case.events))),
        bound_ms=draw(st.integers(0, 8)),
        flip=draw(st.integers(0, count // 2)),
        cuts=tuple(sorted(cuts)),
        restores=draw(st.dictionaries(st.integers(0, 8), st.sampled_from([1, 2, 4]), max_size=2)),
    )


@st.composite
def stories(draw: st.DrawFn) -> Late:
    case = draw(disordered())
    is_keyed = draw(st.booleans())
    first = firsts(draw, is_keyed=is_keyed)
    lateness = draw(st.sampled_from([0, 0, 1, 3, 7, 12]))
    more: dict[str, Any] = {}
    if lateness:
        more["allowed_lateness"] = f"{lateness}ms"
    if draw(st.booleans()):
        more["early_results_every"] = "2ms"
    chain: list[Step] = []
    has_key = is_keyed
    for _ in range(draw(st.integers(1, 3))):
        keyed = has_key and draw(st.booleans())
        kinds = [
            tumbling(draw(st.sampled_from([5, 10, 20])), is_keyed=keyed),
            peaks(10, is_keyed=keyed),
            sliding(*draw(st.sampled_from([(12, 4), (10, 4), (20, 10)])), is_keyed=keyed),
            cumulating(20, 5, is_keyed=keyed),
            *([session(draw(st.sampled_from([3, 10])))] * has_key),
        ]
        step = draw(st.sampled_from(kinds))
        settings: dict[str, Any] = {}
        if draw(st.booleans()):
            settings["allowed_lateness"] = f"{draw(st.integers(1, 9))}ms"
        if draw(st.booleans()):
            settings["early_results_every"] = "3ms"
        add: Any = step.add
        chain.append(replace(step, add=partial(add, **settings)))
        has_key = step.has_key
        if draw(st.integers(0, 3)) == 0:
            chain.append(final(is_keyed=has_key and draw(st.booleans())))
            has_key = chain[-1].has_key
    return Late(case, first, lateness, more, tuple(chain))


@given(stories())
@local_cases(0.02)
def test_steps_after_a_window_have_the_answer_of_the_records_that_it_accepts(late: Late) -> None:
    for mode in MODES:
        with case_folder() as base:
            add: Any = late.first.step.add
            first = replace(late.first.step, add=partial(add, late=Sink.parquet(base / "late"), **late.more))
            found = told(play(late.case, mode, [first, *late.chain], base, None))
            assert found == late.expected(mode), mode
            left_out = output_rows(base / "late") if any((base / "late").glob("part-*")) else []
            kept = late.kept(mode)
            assert Counter((r["k"], microseconds(r["t"])) for r in left_out) == Counter(
                (event.key, event.time_us) for event in late.case.events
            ) - Counter((row["k"], row["t"]) for row in kept), mode


#: the record at 45 ms is not late, but comes when the session of the one at 43 ms has ended
AFTER_A_SESSION = replace(
    LATE,
    events=(Event("new", 43 * MS, 1), Event("both", 63 * MS, 2), Event("new", 45 * MS, 4)),
    bound_ms=13,
    flip=2,
    cuts=(1, 2),
)


def test_a_record_that_comes_after_the_end_of_a_session_starts_another(tmp_path: Path) -> None:
    late = Late(AFTER_A_SESSION, First(session(6), lambda t: [(t, t + 6 * MS)]), 0, {}, (tumbling(100),))
    assert {mode: len(late.first.step.apply(late.kept(mode))) for mode in MODES} == {
        "batch": 2,
        "mixed": 3,
        "streaming": 3,
    }
    for mode in MODES:
        found = told(play(late.case, mode, [late.first.step, *late.chain], tmp_path / mode, None))
        assert found == late.expected(mode), mode


def test_some_cases_leave_records_out_in_streaming_and_keep_them_in_mixed_mode() -> None:
    def kept(late: Late) -> dict[Mode, int]:
        return {mode: len(late.kept(mode)) for mode in MODES}

    def is_telling(late: Late) -> bool:
        return kept(late)["streaming"] < kept(late)["mixed"] < kept(late)["batch"] and bool(late.lateness_ms)

    found = find(stories(), is_telling, settings=settings(max_examples=5000, phases=[Phase.generate]))
    assert kept(found)["batch"] == len(found.case.events), "no record is late in batch mode"
