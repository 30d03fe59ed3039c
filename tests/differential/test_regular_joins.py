"""Joins without a bound in time: whatever the mode, flip, epochs, parallelism and restarts are, the final answer is
that of the records. Their inputs only add rows, or change: an aggregate comes before.

The oracle is plain Python: a join is two nested loops. Rows that change are compared behind an aggregate by all of
their columns, which counts them, or as they are if the key of the inputs identifies them.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.job import Stream
from mixedmode.operators.join.layout import JoinType
from tests.differential.stories import case_folder, local_cases
from tests.differential.test_graphs import Graph, Join, Node, Play, expected, struck
from tests.differential.test_joins import CONDITIONS, by_value, some_condition, some_mode, with_condition
from tests.differential.test_time_in_chains import ON_SPARK, Row, Step, by_key
from tests.differential.timelines import MIXED_ON_SPARK, Case, Mode, cases
from tests.walk.faults import Fault, Faults

KINDS: tuple[JoinType, ...] = ("inner", "left", "right", "full", "semi", "anti")


def regular(kind: JoinType, condition: str | None = None) -> Join:
    """The values of rows of both sides with one key, for which the condition holds."""

    def is_pair(left: Row, right: Row) -> bool:
        return left["k"] is not None and left["k"] == right["k"] and CONDITIONS[condition](left, right)

    def rights(row: Row, others: Sequence[Row]) -> list[Row]:
        return [other for other in others if is_pair(row, other)]

    def lefts(row: Row, others: Sequence[Row]) -> list[Row]:
        return [other for other in others if is_pair(other, row)]

    def pair(left: Row | None, right: Row | None) -> Row:
        key = right if kind == "right" else left
        return {"k": key and key["k"], "v": left and left["v"], "n": right and right["v"], "t": None}

    def apply(left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
        if kind in ("semi", "anti"):
            return [row | {"t": None} for row in left if bool(rights(row, right)) == (kind == "semi")]
        found = [pair(row, other) for row in left for other in rights(row, right)]
        if kind in ("left", "full"):
            found += [pair(row, None) for row in left if not rights(row, right)]
        if kind in ("right", "full"):
            found += [pair(None, row) for row in right if not lefts(row, left)]
        return found

    def add(left: Stream, right: Stream) -> Stream:
        key = "right.k" if kind == "right" else "left.k"
        select = ["left.k", "left.v", "left.n"] if kind in ("semi", "anti") else [key, "left.v", "right.v AS n"]
        return left.join(right, on="k", type=kind, select=select, **with_condition(condition))

    return Join(add, apply)


def computed() -> Join:
    """A left join with an expression over both sides, which Spark evaluates behind the join."""

    def apply(left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
        def total(row: Row) -> int | None:
            return None if row["v"] is None or row["n"] is None else row["v"] + row["n"]

        return [row | {"n": total(row)} for row in regular("left").apply(left, right)]

    return Join(
        lambda left, right: left.join(right, on="k", type="left", select=["left.k", "left.v", "left.v + right.v AS n"]),
        apply,
    )


def counted() -> Step:
    """Return a step that counts equal rows."""

    def apply(rows: Sequence[Row]) -> list[Row]:
        found = Counter((row["k"], row["v"], row["n"]) for row in rows)
        return [{"k": k, "v": v, "n": n, "c": count} for (k, v, n), count in found.items()]

    return Step(lambda job: job.key_by("k", "v", "n").aggregate(c="count(*)"), apply, emits_windows=False)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """A join of two inputs, or of one with itself, and perhaps a join of that join with an input."""
    nodes = [Node(None), Node(None)]
    nodes += [Node(by_key(), (source,), is_changelog=True) for source in (0, 1) if draw(st.booleans())]
    by_k = set(range(2, len(nodes)))  # the nodes that have one row of each key
    inputs = st.integers(0, len(nodes) - 1)
    outputs = list[int]()
    last = draw(inputs)
    for _ in range(draw(st.integers(1, 2))):
        pair = draw(st.permutations([last, draw(inputs)]))
        kind = draw(st.sampled_from(KINDS))
        changes = kind != "inner" or any(nodes[i].is_changelog for i in pair)
        nodes.append(Node(regular(kind, draw(some_condition)), (pair[0], pair[1]), is_changelog=changes))
        last = len(nodes) - 1
        if kind != "full" and {*pair[: 1 if kind in ("semi", "anti") else 2]} <= by_k:
            by_k.add(last)
        if (not changes or last in by_k) and draw(st.booleans()):
            outputs.append(last)
        else:
            nodes.append(Node(counted(), (last,), is_changelog=True))
            outputs.append(len(nodes) - 1)
    return Graph(tuple(nodes), tuple(outputs), source_of=by_value)


@given(case=cases(), mode=some_mode, graph=graphs(), strikes=struck)
@local_cases(0.05)
def test_joins_give_the_answer_of_the_records(
    case: Case, mode: Mode, graph: Graph, strikes: list[Fault], faults: Faults
) -> None:
    with case_folder() as base:
        played = Play(case, mode, graph, base, faults=faults, strikes=strikes)
        assert played.outputs() == expected(case, graph)


OF_CHANGES = Graph(
    (
        Node(None),
        Node(None),
        Node(by_key(), (1,), is_changelog=True),
        Node(regular("inner"), (0, 1)),
        Node(computed(), (0, 2), is_changelog=True),
        Node(regular("full", "left.v <= right.n"), (4, 4), is_changelog=True),
        Node(counted(), (4,), is_changelog=True),
        Node(counted(), (5,), is_changelog=True),
    ),
    (3, 6, 7),
    source_of=by_value,
)


@pytest.mark.parametrize("mode", MIXED_ON_SPARK)
def test_spark_agrees_about_joins(mode: Mode, spark: SparkSession, tmp_path: Path) -> None:
    assert Play(ON_SPARK, mode, OF_CHANGES, tmp_path, spark).outputs() == expected(ON_SPARK, OF_CHANGES)
