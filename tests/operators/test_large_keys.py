"""A key that is much larger than `sort-memory`: the answer is the same, and functions get all of its records.

docs/operations.md says which steps hold what of a key in memory.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from mixedmode.process import KeyedBatchProcessFunction, KeyedProcessFunction, ValueState
from mixedmode.testing import AggregateHarness, FunctionHarness

ROWS = 6_000
LITTLE, AMPLE = "20KB", "64MB"  # the rows of the key are some 150 KB
SCHEMA = "k string, v bigint, at timestamp"


def records() -> list[dict[str, Any]]:
    """One giant key between two small ones, in no order of time."""
    giant = [{"k": "giant", "v": i, "at": i * 7919 % ROWS * 10_000} for i in range(ROWS)]
    return [{"k": "a", "v": 1, "at": 5}, *giant, {"k": "z", "v": 2, "at": 5}]


class OneByOne(KeyedProcessFunction):
    """The number of records before each, and whether their times ascend."""

    seen = ValueState(int, default=0)
    latest = ValueState(int, default=-1)

    def process_element(self, record: Any, context: Any) -> Iterator[dict[str, Any]]:
        self.seen.value += 1
        in_order = context.timestamp >= self.latest.value
        self.latest.value = context.timestamp
        if self.seen.value % 2_000 == 0 or not in_order:
            yield {"k": record["k"], "n": self.seen.value, "v": record["v"], "bytes": 0}


class AllAtOnce(KeyedBatchProcessFunction):
    """The number of records of each call, and how large they are."""

    def process_rows(self, rows: pa.Table, context: Any) -> list[dict[str, Any]]:
        return [{"k": context.current_key, "n": rows.num_rows, "v": rows["v"][0].as_py(), "bytes": rows.nbytes}]


@pytest.mark.parametrize("function", [OneByOne, AllAtOnce])
def test_a_process_function_gets_a_large_key_whole(
    function: type[KeyedProcessFunction | KeyedBatchProcessFunction],
) -> None:
    found = []
    for memory in (LITTLE, AMPLE):
        harness = FunctionHarness(
            function,
            key_by="k",
            schema=SCHEMA,
            output="k string, n bigint, v bigint, bytes bigint",
            event_time="at",
            backlog=True,
            sort_memory=memory,
        )
        harness.feed(records())
        harness.end()
        found.append(sorted((row["k"], row["n"], row["v"]) for row in harness.take()))
    assert found[0] == found[1]
    if function is AllAtOnce:
        assert [n for _, n, _ in found[0]] == [1, ROWS, 1]
    else:
        assert [n for _, n, _ in found[0]] == [2_000, 4_000, 6_000]


@pytest.mark.parametrize(
    ("window", "windows"),
    [
        ({"session": "5ms"}, ROWS),
        ({"session": "20ms"}, 1),
        ({"count": 1_000}, ROWS // 1_000),
        ({"tumbling": "1s"}, 60),
    ],
)
def test_windows_of_a_large_key_are_the_same(window: Any, windows: int) -> None:
    found = []
    for memory in (LITTLE, AMPLE):
        harness = AggregateHarness(
            key_by="k",
            schema=SCHEMA,
            aggregate={"n": "count(*)", "total": "sum(v)"},
            window=window,
            event_time="at",
            backlog=True,
            sort_memory=memory,
        )
        harness.feed(records())
        harness.end()
        found.append([row for row in harness.take() if row["k"] == "giant"])
    assert sorted(map(repr, found[0])) == sorted(map(repr, found[1]))
    assert len(found[0]) == windows
    assert sum(row["total"] for row in found[0]) == ROWS * (ROWS - 1) // 2
