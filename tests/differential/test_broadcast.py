"""Functions with broadcast inputs: whatever mode, flip, epochs, parallelism and restarts are, the answer is the same.

The oracle is plain Python: nested loops over the records.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.job import Broadcast, Stream
from mixedmode.process import KeyedCoProcessFunction, KeyedProcessFunction, ValueState
from tests.differential.stories import case_folder, local_cases
from tests.differential.test_graphs import Graph, Join, Node, Play, expected, struck
from tests.differential.test_joins import as_of, by_time_value_and_count, by_value, graphs, some_mode
from tests.differential.test_time_in_chains import ON_SPARK, Row
from tests.differential.timelines import MIXED_ON_SPARK, MS, Case, Mode, cases
from tests.walk.faults import Fault, Faults

OUTPUT = "k string, v bigint, n bigint, t timestamp"
DELAY = 3 * MS


class Rated(KeyedProcessFunction):
    """For each record, its number in its key, and the row of its key in force; later, all rows in force."""

    seen = ValueState(int, default=0)

    def __init__(self, back_ms: int) -> None:
        self.back_us = back_ms * MS

    def process_element(self, record: Any, context: Any) -> Iterator[Row]:
        self.seen.value += 1
        own = context.broadcast["rates"].as_of(context.timestamp).get(context.current_key)
        yield {"k": record["k"], "v": own and own["v"], "n": self.seen.value, "t": context.timestamp}
        context.timers.register_event_time_timer(context.timestamp + DELAY)

    def on_timer(self, timestamp: int, context: Any) -> Iterator[Row]:
        rows = context.broadcast["rates"].as_of(timestamp - self.back_us)
        total = sum(row["v"] or 0 for row in rows.values())
        yield {"k": context.current_key, "v": total, "n": -len(rows), "t": timestamp}


def in_force(rows: Sequence[Row], time_us: int, tolerance_ms: int | None) -> dict[Any, Row]:
    found: dict[Any, Row] = {}
    for row in sorted(rows, key=by_time_value_and_count):
        if row["t"] <= time_us:
            found[row["k"]] = row
    return {k: row for k, row in found.items() if tolerance_ms is None or time_us - row["t"] <= tolerance_ms * MS}


def rates(stream: Stream, tolerance_ms: int | None, back_ms: int) -> dict[str, Broadcast[Stream]]:
    more: Any = {} if tolerance_ms is None else {"tolerance": f"{tolerance_ms}ms"}
    return {"rates": stream.broadcast(key="k", tie_break=["v", "n"], history=f"{back_ms}ms", **more)}


def rated(tolerance_ms: int | None, back_ms: int) -> Join:
    def apply(left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
        found, numbers = list[Row](), Counter[Any]()
        for row in sorted(left, key=by_time_value_and_count):
            numbers[row["k"]] += 1
            own = in_force(right, row["t"], tolerance_ms).get(row["k"])
            found.append({"k": row["k"], "v": own and own["v"], "n": numbers[row["k"]], "t": row["t"]})
        for k, time_us in {(row["k"], row["t"] + DELAY) for row in left}:
            rows = in_force(right, time_us - back_ms * MS, tolerance_ms)
            found.append({"k": k, "v": sum(row["v"] or 0 for row in rows.values()), "n": -len(rows), "t": time_us})
        return found

    def add(left: Stream, right: Stream) -> Stream:
        broadcast = rates(right, tolerance_ms, back_ms)
        return left.key_by("k").process(
            Rated, output=OUTPUT, event_time="t", args={"back_ms": back_ms}, broadcast=broadcast
        )

    return Join(add, apply)


class Both(KeyedCoProcessFunction):
    """For each record of either side, its number in its key, and the number of rows in force."""

    seen = ValueState(int, default=0)

    def process_left(self, record: Any, context: Any) -> Row:
        self.seen.value += 1
        rows = context.broadcast["rates"].as_of(context.timestamp)
        return {"k": record["k"], "v": self.seen.value, "n": len(rows), "t": context.timestamp}

    def process_right(self, record: Any, context: Any) -> Row:
        return {**self.process_left(record, context), "n": None}


def both() -> Join:
    """Both sides read the left; the rows in force are those of the right."""

    def apply(left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
        found, numbers = list[Row](), Counter[Any]()
        for row in sorted(left, key=lambda row: row["t"]):
            numbers[row["k"], row["t"]] += 1
        seen = Counter[Any]()
        for (k, time_us), count in sorted(numbers.items(), key=lambda item: item[0][1]):
            for n in [len(in_force(right, time_us, None))] * count + [None] * count:
                seen[k] += 1
                found.append({"k": k, "v": seen[k], "n": n, "t": time_us})
        return found

    def add(left: Stream, right: Stream) -> Stream:
        broadcast = rates(right, None, 0)
        return left.co_process(left, on="k", function=Both, output=OUTPUT, event_time="t", broadcast=broadcast)

    return Join(add, apply)


some_functions = st.one_of(
    st.builds(rated, st.sampled_from([None, 1, 10, 40]), st.sampled_from([0, 5, 30])), st.builds(both)
)


@given(case=cases(), mode=some_mode, graph=graphs(some_functions), strikes=struck)
@local_cases(0.04)
def test_functions_with_broadcast_inputs_give_the_answer_of_the_records(
    case: Case, mode: Mode, graph: Graph, strikes: list[Fault], faults: Faults
) -> None:
    with case_folder() as base:
        played = Play(case, mode, graph, base, faults=faults, strikes=strikes)
        assert played.outputs() == expected(case, graph)


CHAIN = Graph(
    (Node(None), Node(None), Node(rated(20, 5), (0, 1)), Node(both(), (2, 1)), Node(as_of(), (3, 0))),
    (2, 3, 4),
    source_of=by_value,
)


@pytest.mark.parametrize("mode", MIXED_ON_SPARK)
def test_spark_agrees_about_broadcast_inputs(mode: Mode, spark: SparkSession, tmp_path: Path) -> None:
    assert Play(ON_SPARK, mode, CHAIN, tmp_path, spark).outputs() == expected(ON_SPARK, CHAIN)
