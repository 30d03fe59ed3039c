"""Structs, arrays and maps are columns like others: each step returns them with the rows that they came with."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from mixedmode.job import Job, Sink, Source, Stream
from mixedmode.process import CoGroupFunction, KeyedCoProcessFunction
from mixedmode.testing import JobOutputs, run_graph

DDL = "k string, id bigint, at timestamp, s struct<x:double,tags:array<string>>, m map<string,struct<y:int>>"
START = datetime(2024, 1, 1, tzinfo=UTC)


def nested(number: int) -> dict[str, Any]:
    """The columns with parts of the row with this number; NULL in each place for some."""
    struct = {"x": None if number % 3 == 0 else number / 2, "tags": ["", None, "a\x00" * number][: number % 4]}
    entries = [(str(number), {"y": number}), ("none", None), ("empty", {"y": None})]
    return {"s": None if number % 5 == 0 else struct, "m": None if number % 4 == 0 else entries[: number % 3]}


def row(number: int) -> dict[str, Any]:
    at = START + timedelta(minutes=number % 100)
    return {"k": "abc"[number % 3], "id": number, "at": at, **nested(number)}


def job() -> Job:
    return Job(
        "nested",
        sources={name: Source.parquet(name, schema=DDL, event_time="at", out_of_orderness="1h") for name in ("t", "u")},
        mode="batch",
    )


class Open(KeyedCoProcessFunction):
    """Each record of the left, and the rows in force of the other input, which are broadcast."""

    def process_left(self, record: Any, context: Any) -> Iterator[dict[str, Any]]:
        for other in context.broadcast["u"].as_of(context.timestamp).values():
            yield {"id": record["id"], "s": record["s"], "m": record["m"], "uid": other["id"], "us": other["s"]}

    def process_right(self, record: Any, context: Any) -> None:
        pass


class Pairs(CoGroupFunction):
    """All pairs of rows of a key and window."""

    def co_group(self, left: pa.Table, right: pa.Table, context: Any) -> Iterator[dict[str, Any]]:
        for one in left.to_pylist():
            for other in right.to_pylist():
                yield {"id": one["id"], "s": one["s"], "m": one["m"], "uid": other["id"], "us": other["s"]}


OUTPUT = (
    DDL.removeprefix("k string, ").replace("at timestamp, ", "") + ", uid bigint, us " + DDL.split(" ")[7].rstrip(",")
)
PAIR = ["left.k", "left.id", "left.s", "left.m", "right.id AS uid", "right.s AS us"]
Chosen = Callable[[Stream, Stream], Stream]
STEPS: dict[str, Chosen] = {
    "top": lambda t, _: t.key_by("k").top(2, order_by="id desc"),
    "top of rows that change": lambda t, _: (
        t.key_by("k", "id").deduplicate(keep="last").key_by("k").top(2, order_by="id")
    ),
    "first": lambda t, _: t.key_by("k").deduplicate(keep="first"),
    "any": lambda t, _: t.key_by("k").deduplicate(keep="any", within="5m"),
    "last": lambda t, _: t.key_by("k").deduplicate(keep="last"),
    "regular join": lambda t, u: t.join(u, on="k", select=PAIR),
    "outer join": lambda t, u: t.interval_join(u, on="k", within=("-3m", "9m"), type="full", select=PAIR),
    "as-of join": lambda t, u: t.as_of_join(u, on="k", select=PAIR, tie_break="id"),
    "co-group": lambda t, u: t.co_group(u, on="k", function=Pairs, output=OUTPUT, tumbling="10m"),
    "broadcast": lambda t, u: t.co_process(
        u, on="k", function=Open, output=OUTPUT, broadcast={"u": u.broadcast(key="k", tie_break="id")}
    ),
    "aggregate": lambda t, _: t.key_by("k").aggregate(
        id="max(id)", s="max_by(s, id)", m="max_by(m, id)", all="collect_list(struct(id, s, m), 99)"
    ),
    "windows": lambda t, _: (
        t.key_by("k").window(tumbling="10m").aggregate(id="min(id)", s="min_by(s, id)", m="min_by(m, id)")
    ),
}


@pytest.mark.parametrize("step", STEPS)
def test_each_step_returns_columns_with_parts_as_they_came(step: str) -> None:
    made = job()
    made = made.output("o", STEPS[step](made.source("t"), made.source("u")), Sink.console())
    rows = [{"t": [row(n) for n in part], "u": [row(n + 100) for n in part]} for part in (range(20), range(20, 31))]
    everything = {name: [one for part in rows for one in part[name]] for name in ("t", "u")}
    batch, mixed = run_graph(made, everything), run_graph(made, rows[0], live=rows[1:])
    assert checked(batch) == checked(mixed)
    assert checked(batch)


def checked(outputs: JobOutputs) -> list[dict[str, Any]]:
    """The rows of a table, without the columns with parts, which are those of the row with the number in `id`."""
    found = outputs.table("o")
    for one in found:
        for number, struct, entries in (("id", "s", "m"), ("uid", "us", "")):
            if number in one:
                expected = {"s": None, "m": None} if one[number] is None else nested(one[number])
                assert one.pop(struct) == expected["s"]
                assert not entries or one.pop(entries) == expected["m"]
        for each in one.pop("all", []):
            assert {"s": each["s"], "m": each["m"]} == nested(each["id"])
    return found
