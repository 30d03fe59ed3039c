"""Keys of several columns, with NULLs, of two inputs and of one with itself: each kind of join against plain Python.

Keys of different types need Spark, which knows the type in which it compares them.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.job import Job, Sink, Source, Stream
from mixedmode.testing import run_graph
from tests.random_cases import random_cases

START = datetime(2026, 1, 1, tzinfo=UTC)
Kind = Literal["as-of", "interval", "regular"]
Row = dict[str, Any]
KINDS: tuple[Kind, ...] = ("as-of", "interval", "regular")
REACH_S = 3

#: one row: two key columns, and its time in seconds; the id makes rows and ties distinct
some_rows = st.lists(
    st.tuples(st.sampled_from([None, 0, 1]), st.sampled_from([None, "", "x"]), st.integers(0, 12)), max_size=10
)


def rows_of(found: Sequence[tuple[int | None, str | None, int]], first: int) -> list[Row]:
    return [{"k": k, "m": m, "id": first + i, "at": START + timedelta(seconds=t)} for i, (k, m, t) in enumerate(found)]


def job() -> Job:
    sources = {
        name: Source.parquet(f"/{name}", schema="k int, m string, id bigint, at timestamp", event_time="at")
        for name in ("a", "b")
    }
    return Job("joined", sources=sources, checkpoint_dir="/c", parallelism=2)


def joined(kind: Kind, left: Stream, right: Stream) -> Stream:
    """A join by both columns, of which one is named on each side."""
    on, select = ["k", "left.m = right.m"], ["left.k", "left.m", "left.id", "right.id AS other", "left.at"]
    if kind == "as-of":
        return left.as_of_join(right, on=on, type="inner", tie_break="id", select=select)
    if kind == "interval":
        return left.interval_join(right, on=on, within=("0s", f"{REACH_S}s"), event_time="at2", select=select)
    return left.join(right, on=on, select=select)


def pairs(kind: Kind, left: Sequence[Row], right: Sequence[Row]) -> list[tuple[Row, Row]]:
    """The pairs of a join, by nested loops."""
    found = []
    for row in left:
        if row["k"] is None or row["m"] is None:
            continue
        own = [other for other in right if (other["k"], other["m"]) == (row["k"], row["m"])]
        if kind == "as-of":
            own = [other for other in own if other["at"] <= row["at"]]
            own = [max(own, key=lambda other: (other["at"], other["id"]))] if own else []
        elif kind == "interval":
            reach = timedelta(seconds=REACH_S)
            own = [other for other in own if timedelta() <= other["at"] - row["at"] <= reach]
        found += [(row, other) for other in own]
    return found


def answer(found: Sequence[Row]) -> Counter[tuple[Any, ...]]:
    return Counter((row["k"], row["m"], row["id"], row["other"]) for row in found)


@pytest.mark.parametrize("kind", KINDS)
@given(left=some_rows, right=some_rows, cut=st.integers(0, 10))
@settings(max_examples=random_cases(6))
def test_several_key_columns_are_equal_together_and_null_is_equal_to_nothing(
    kind: Kind, left: list[Any], right: list[Any], cut: int
) -> None:
    """The rows of the right come in a backlog and in a live epoch, in the order of time."""
    lefts, rights = (sorted(rows_of(one, first), key=lambda row: row["at"]) for one, first in ((left, 0), (right, 100)))
    made = job()
    made = made.output("o", joined(kind, made.source("a"), made.source("b")), Sink.parquet("/out"))
    begin = START + timedelta(seconds=cut)
    parts = [
        {name: [row for row in rows if (row["at"] < begin) == is_first] for name, rows in (("a", lefts), ("b", rights))}
        for is_first in (True, False)
    ]
    found = run_graph(made, parts[0], live=[parts[1]]).table("o")
    expected = pairs(kind, lefts, rights)
    assert answer(found) == Counter((row["k"], row["m"], row["id"], other["id"]) for row, other in expected)


@pytest.mark.parametrize("kind", KINDS)
@given(given_rows=some_rows)
@settings(max_examples=random_cases(8))
def test_a_join_of_a_stream_with_itself_and_a_join_of_that_join(kind: Kind, given_rows: list[Any]) -> None:
    rows = rows_of(given_rows, 0)
    made = job()
    a = made.source("a")
    first = joined(kind, a, a)
    second = joined(kind, first, a)
    made = made.output("first", first, Sink.parquet("/first")).output("second", second, Sink.parquet("/second"))
    found = run_graph(made, {"a": rows})
    once = pairs(kind, rows, rows)
    assert answer(found.table("first")) == Counter((row["k"], row["m"], row["id"], other["id"]) for row, other in once)
    later = [row | {"at": max(row["at"], other["at"])} if kind == "interval" else row for row, other in once]
    twice = pairs(kind, later, rows)
    assert answer(found.table("second")) == Counter((row["k"], row["m"], row["id"], o["id"]) for row, o in twice)
