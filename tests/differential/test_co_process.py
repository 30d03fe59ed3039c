"""Functions over two inputs: whatever the mode, flip, epochs, parallelism and restarts are, the answer is the same.

The oracle is plain Python: nested loops over the records.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.job import Stream
from mixedmode.process import CoGroupFunction, KeyedCoProcessFunction, MapState
from tests.differential.stories import case_folder, local_cases
from tests.differential.test_graphs import Graph, Join, Node, Play, expected, struck
from tests.differential.test_joins import by_value, graphs, some_mode
from tests.differential.test_time_in_chains import ON_SPARK, Row, final
from tests.differential.timelines import MIXED_ON_SPARK, MS, Case, Mode, cases
from tests.walk.faults import Fault, Faults

OUTPUT = "k string, v bigint, n bigint, t timestamp"


class Near(KeyedCoProcessFunction):
    """For each row of the left, the sum and the number of the rows of the right less than `reach_ms` away."""

    lefts = MapState(int, int)
    rights = MapState(int, list[int | None])

    def __init__(self, reach_ms: int) -> None:
        self.reach_us = reach_ms * MS

    def process_left(self, record: Any, context: Any) -> None:
        self.lefts[context.timestamp] = self.lefts.get(context.timestamp, 0) + 1
        context.timers.register_event_time_timer(context.timestamp + self.reach_us)

    def process_right(self, record: Any, context: Any) -> None:
        self.rights[context.timestamp] = [*self.rights.get(context.timestamp, []), record["v"]]
        context.timers.register_event_time_timer(context.timestamp + 2 * self.reach_us)

    def on_timer(self, timestamp: int, context: Any) -> Iterator[Row]:
        time = timestamp - self.reach_us
        for _ in range(self.lefts.pop(time, 0)):
            values = [v for at, own in self.rights.items() if abs(at - time) < self.reach_us for v in own]
            yield {"k": context.current_key, "v": sum(v or 0 for v in values), "n": len(values), "t": timestamp}
        self.rights.pop(time - self.reach_us, None)


def near(reach_ms: int) -> Join:
    def apply(left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
        found = []
        for row in left:
            values = [
                other["v"] for other in right if other["k"] == row["k"] and abs(other["t"] - row["t"]) < reach_ms * MS
            ]
            v, n = sum(v or 0 for v in values), len(values)
            found.append({"k": row["k"], "v": v, "n": n, "t": row["t"] + reach_ms * MS})
        return found

    def add(left: Stream, right: Stream) -> Stream:
        return left.co_process(right, on="k", function=Near, args={"reach_ms": reach_ms}, output=OUTPUT, event_time="t")

    return Join(add, apply)


some_functions = st.sampled_from([1, 10, 30]).map(near)


@given(case=cases(), mode=some_mode, graph=graphs(some_functions), strikes=struck)
@local_cases(0.04)
def test_functions_of_two_inputs_give_the_answer_of_the_records(
    case: Case, mode: Mode, graph: Graph, strikes: list[Fault], faults: Faults
) -> None:
    with case_folder() as base:
        played = Play(case, mode, graph, base, faults=faults, strikes=strikes)
        assert played.outputs() == expected(case, graph)


GROUPED = "v bigint, n bigint, c string"


class Compared(CoGroupFunction):
    """The sum of the left, the number of rows of the right, and all rows in the order in which they come."""

    def co_group(self, left: pa.Table, right: pa.Table, context: Any) -> pa.Table:
        seen = " ".join(f"{t}:{v}" for table in (left, right) for t, v in in_order(table))
        columns = [pa.array([value]) for value in (pc.sum(left.column("v")).as_py(), right.num_rows, seen)]
        return pa.table(columns, schema=pa.schema([("v", pa.int64()), ("n", pa.int64()), ("c", pa.string())]))


def in_order(table: pa.Table) -> list[tuple[int, int | None]]:
    times = table.column("t").cast(pa.int64()).to_pylist()
    return list(zip(times, table.column("v").to_pylist(), strict=True))


def compared(size_ms: int, slide_ms: int) -> Join:
    def apply(left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
        sides: dict[Any, tuple[list[Row], list[Row]]] = {}
        for side, rows in enumerate((left, right)):
            for row in rows:
                last = row["t"] // (slide_ms * MS) * slide_ms * MS
                for start in range(last, row["t"] - size_ms * MS, -slide_ms * MS):
                    sides.setdefault((start, row["k"]), ([], []))[side].append(row)
        found = []
        for (start, k), (own, others) in sides.items():
            bounds = {"window_start": start, "window_end": start + size_ms * MS}
            found.append({**bounds, "k": k, **compared_rows(own, others)})
        return found

    def add(left: Stream, right: Stream) -> Stream:
        window: Any = {"tumbling": f"{size_ms}ms"}
        if slide_ms != size_ms:
            window = {"sliding": f"{size_ms}ms", "slide": f"{slide_ms}ms"}
        return left.co_group(right, on="k", function=Compared, output=GROUPED, **window)

    return Join(add, apply)


def in_sessions(gap_ms: int) -> Join:
    gap_us = gap_ms * MS

    def apply(left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
        keys: dict[Any, list[tuple[int, int, Row]]] = {}
        for side, rows in enumerate((left, right)):
            for row in rows:
                keys.setdefault(row["k"], []).append((row["t"], side, row))
        found = []
        for k, events in keys.items():
            sessions: list[list[tuple[int, int, Row]]] = []
            for event in sorted(events, key=lambda event: event[0]):
                if sessions and event[0] <= sessions[-1][-1][0] + gap_us:
                    sessions[-1].append(event)
                else:
                    sessions.append([event])
            for session in sessions:
                own, others = ([row for _, side, row in session if side == wanted] for wanted in (0, 1))
                result = compared_rows(own, others)
                bounds = {"window_start": session[0][0], "window_end": session[-1][0] + gap_us}
                found.append({**bounds, "k": k, **result})
        return found

    def add(left: Stream, right: Stream) -> Stream:
        return left.co_group(right, on="k", function=Compared, output=GROUPED, session=f"{gap_ms}ms")

    return Join(add, apply)


def compared_rows(own: Sequence[Row], others: Sequence[Row]) -> Row:
    """Return what Compared returns for the rows of both sides."""
    texts = [f"{row['t']}:{row['v']}" for rows in (own, others) for row in sorted(rows, key=by_time_and_row)]
    values = [row["v"] for row in own if row["v"] is not None]
    return {"v": sum(values) if values else None, "n": len(others), "c": " ".join(texts)}


def by_time_and_row(row: Row) -> tuple[object, ...]:
    return row["t"], row["v"] is not None, row["v"] or 0


@given(
    case=cases(),
    mode=some_mode,
    join=st.one_of(
        st.sampled_from([(5, 5), (20, 20), (20, 5), (30, 7)]).map(lambda sizes: compared(*sizes)),
        st.sampled_from([1, 2, 5, 12]).map(in_sessions),
    ),
    inputs=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    strikes=struck,
)
@local_cases(0.04)
def test_co_groups_give_the_answer_of_the_records(
    case: Case, mode: Mode, join: Join, inputs: tuple[int, int], strikes: list[Fault], faults: Faults
) -> None:
    graph = Graph((Node(None), Node(None), Node(near(10), (0, 1)), Node(join, inputs)), (2, 3), source_of=by_value)
    with case_folder() as base:
        played = Play(case, mode, graph, base, faults=faults, strikes=strikes)
        assert played.outputs() == expected(case, graph)


CHAIN = Graph(
    (
        Node(None),
        Node(None),
        Node(near(10), (0, 1), "near"),
        Node(near(5), (2, 2), "near"),
        Node(compared(20, 20), (3, 1), "groups"),
        Node(final(is_keyed=True), (4,)),
        Node(in_sessions(4), (2, 1), "sessions"),
    ),
    (2, 3, 4, 5, 6),
    source_of=by_value,
)


@pytest.mark.parametrize("mode", MIXED_ON_SPARK)
def test_spark_agrees_about_functions_of_two_inputs(mode: Mode, spark: SparkSession, tmp_path: Path) -> None:
    assert Play(ON_SPARK, mode, CHAIN, tmp_path, spark).outputs() == expected(ON_SPARK, CHAIN)
