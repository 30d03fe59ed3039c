"""Joins: whatever the mode, flip, epochs, parallelism and restarts are, the answer is that of the records.

The oracle is plain Python: a join is two nested loops.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.executor import partners
from mixedmode.job import Stream
from tests.differential.stories import case_folder, local_cases
from tests.differential.test_graphs import SOURCES, Graph, Join, Node, Play, expected, struck
from tests.differential.test_time_in_chains import ON_SPARK, Row, session, tumbling
from tests.differential.timelines import MIXED_ON_SPARK, MS, Case, Event, Mode, cases
from tests.walk.faults import Fault, Faults

Kind = Literal["inner", "left", "right", "full", "semi", "anti"]
#: of a random case
some_mode = st.sampled_from(["mixed", "mixed", "streaming", "batch"])
KINDS: tuple[Kind, ...] = ("inner", "left", "right", "full", "semi", "anti")


def by_value(event: Event, sources: int) -> str:
    """Tell records apart by what they are, not by their time: both sides have rows of the same times."""
    return SOURCES[(event.v or 0) % sources]


def by_time_value_and_count(row: Row) -> tuple[object, ...]:
    return (row["t"], row["v"] is not None, row["v"] or 0, row["n"] is not None, row["n"] or 0)


def as_of(*, keeps_left: bool = True, strictly: bool = False, tolerance_ms: int | None = None) -> Join:
    """Each row of the left, with the value of the row of the right that is in force."""

    def match(row: Row, right: Sequence[Row]) -> Row | None:
        own = [other for other in right if row["k"] is not None and other["k"] == row["k"]]
        before = [other for other in own if other["t"] < row["t"] or (other["t"] == row["t"] and not strictly)]
        found = max(before, key=by_time_value_and_count, default=None)
        if found is not None and tolerance_ms is not None and row["t"] - found["t"] > tolerance_ms * MS:
            return None
        return found

    def apply(left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
        pairs = [(row, match(row, right)) for row in left]
        kept = [(row, found) for row, found in pairs if keeps_left or found is not None]
        return [{"k": row["k"], "v": found and found["v"], "n": row["n"], "t": row["t"]} for row, found in kept]

    def add(left: Stream, right: Stream) -> Stream:
        tolerance: Any = {} if tolerance_ms is None else {"tolerance": f"{tolerance_ms}ms"}
        return left.as_of_join(
            right,
            on="k",
            type="left" if keeps_left else "inner",
            strictly=strictly,
            tie_break=["v", "n"],
            select=["left.k", "right.v", "left.n", "left.t"],
            **tolerance,
        )

    return Join(add, apply)


@st.composite
def as_of_joins(draw: st.DrawFn) -> Join:
    return as_of(
        keeps_left=draw(st.booleans()),
        strictly=draw(st.booleans()),
        tolerance_ms=draw(st.sampled_from([None, 1, 10, 40])),
    )


def is_at_most(row: Row, other: Row) -> bool:
    return row["v"] is not None and other["n"] is not None and row["v"] <= other["n"]


def differs_or_has_no_n(row: Row, other: Row) -> bool:
    return other["n"] is None or (row["v"] is not None and other["v"] is not None and row["v"] != other["v"])


#: {condition of a join: the same in plain Python}
CONDITIONS: dict[str | None, Callable[[Row, Row], bool]] = {
    None: lambda _row, _other: True,
    "left.v <= right.n": is_at_most,
    "left.v <> right.v OR right.n IS NULL": differs_or_has_no_n,
}
some_condition = st.sampled_from([None, *CONDITIONS])


def with_condition(condition: str | None) -> dict[str, Any]:
    return {} if condition is None else {"condition": condition}


def interval(kind: Kind, lower_ms: int, upper_ms: int, condition: str | None = None) -> Join:
    """Pairs with the value of the right and the later time; rows without a partner have NULL, or their own."""

    def is_pair(row: Row, other: Row) -> bool:
        is_near = lower_ms * MS <= other["t"] - row["t"] <= upper_ms * MS
        return row["k"] is not None and row["k"] == other["k"] and is_near and CONDITIONS[condition](row, other)

    def pair(row: Row | None, other: Row | None) -> Row:
        either = row or other
        assert either is not None
        return {
            "k": row and row["k"],
            "v": other and other["v"],
            "n": row and row["n"],
            "t": max(one["t"] for one in (row, other) if one is not None),
        }

    def apply(left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
        pairs = [(row, other) for row in left for other in right if is_pair(row, other)]
        alone = [row for row in left if not any(is_pair(row, other) for other in right)]
        if kind in ("semi", "anti"):
            return alone if kind == "anti" else [row for row in left if any(is_pair(row, other) for other in right)]
        found = [pair(row, other) for row, other in pairs]
        found += [pair(row, None) for row in alone] if kind in ("left", "full") else []
        lone = [other for other in right if not any(is_pair(row, other) for row in left)]
        return found + ([pair(None, other) for other in lone] if kind in ("right", "full") else [])

    def add(left: Stream, right: Stream) -> Stream:
        within, more = (duration(lower_ms), duration(upper_ms)), with_condition(condition)
        if kind in ("semi", "anti"):
            select = ["left.k", "left.v", "left.n", "left.t"]
            return left.interval_join(right, on="k", within=within, type=kind, select=select, **more)
        select = ["left.k", "right.v", "left.n"]
        return left.interval_join(right, on="k", within=within, type=kind, select=select, event_time="t", **more)

    return Join(add, apply)


def duration(ms: int) -> str:
    return f"{'-' * (ms < 0)}{abs(ms)}ms"


@st.composite
def interval_joins(draw: st.DrawFn) -> Join:
    bounds = sorted(draw(st.lists(st.sampled_from([-30, -10, -1, 0, 1, 5, 20]), min_size=2, max_size=2)))
    return interval(draw(st.sampled_from(KINDS)), bounds[0], bounds[1], draw(some_condition))


@st.composite
def graphs(draw: st.DrawFn, joins: st.SearchStrategy[Join]) -> Graph:
    """A join of two sources, or of one with itself, joins of joins, and steps behind them."""
    nodes = [Node(None), Node(None)]
    for _ in range(draw(st.integers(1, 3))):
        inputs = st.integers(0, len(nodes) - 1)
        nodes.append(Node(draw(joins), (draw(inputs), draw(inputs)), "joined"))
    last = len(nodes) - 1
    after = draw(st.sampled_from([None, tumbling(20), session(8)]))
    if after is not None:
        nodes.append(Node(after, (last,)))
    return Graph(tuple(nodes), tuple(range(2, len(nodes))), source_of=by_value)


@contextmanager
def few_keys_first(does: bool) -> Iterator[None]:
    """Leave rows without a partner out also in small joins, where one side is a step."""
    with pytest.MonkeyPatch.context() as patch:
        if does:
            patch.setattr(partners, "MANY_ROWS", 0)
            patch.setattr(partners, "MANY_TIMES", 0)
        yield


@given(case=cases(), mode=some_mode, graph=graphs(as_of_joins()), strikes=struck, leaves_out=st.booleans())
@local_cases(0.05)
def test_as_of_joins_give_the_answer_of_the_records(
    case: Case, mode: Mode, graph: Graph, strikes: list[Fault], faults: Faults, *, leaves_out: bool
) -> None:
    with case_folder() as base, few_keys_first(leaves_out):
        played = Play(case, mode, graph, base, faults=faults, strikes=strikes)
        assert played.outputs() == expected(case, graph)


@given(case=cases(), mode=some_mode, graph=graphs(interval_joins()), strikes=struck, leaves_out=st.booleans())
@local_cases(0.05)
def test_interval_joins_give_the_answer_of_the_records(
    case: Case, mode: Mode, graph: Graph, strikes: list[Fault], faults: Faults, *, leaves_out: bool
) -> None:
    with case_folder() as base, few_keys_first(leaves_out):
        played = Play(case, mode, graph, base, faults=faults, strikes=strikes)
        assert played.outputs() == expected(case, graph)


CHAIN = Graph(
    (
        Node(None),
        Node(None),
        Node(as_of(), (0, 1), "joined"),
        Node(as_of(keeps_left=False, strictly=True, tolerance_ms=10), (2, 0), "joined"),
        Node(tumbling(20), (3,)),
    ),
    (2, 3, 4),
    source_of=by_value,
)


@pytest.mark.parametrize("mode", MIXED_ON_SPARK)
def test_spark_agrees_about_as_of_joins(mode: Mode, spark: SparkSession, tmp_path: Path) -> None:
    with few_keys_first(True):
        assert Play(ON_SPARK, mode, CHAIN, tmp_path, spark).outputs() == expected(ON_SPARK, CHAIN)
