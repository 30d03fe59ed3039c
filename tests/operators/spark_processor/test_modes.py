"""Classes of Spark in jobs: one answer in batch, streaming and mixed mode, that of a few lines of plain Python."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mixedmode.job import Job, Source
from mixedmode.testing import run_graph
from tests.operators.spark_processor import processors
from tests.operators.spark_processor.processors import WAIT_MS

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "k string, t timestamp, v bigint, words string"


def records(count: int) -> list[dict[str, Any]]:
    """Records in the order of their times, of which no two have one."""
    chosen = random.Random(count)
    times = sorted(chosen.sample(range(1800), count))
    return [
        {
            "k": chosen.choice(["a", "b", None]),
            "t": START + timedelta(seconds=second),
            "v": chosen.choice([1, 2, -3, None]),
            "words": chosen.choice(["x", "y x", "drop", None, ""]),
        }
        for second in times
    ]


ROWS = records(60)


def counted() -> Iterable[dict[str, Any]]:
    counts = Counter[Any]()
    for row in ROWS:
        counts[row["k"]] += 1
        yield {"k": row["k"], "n": counts[row["k"]]}


def totalled() -> Iterable[dict[str, Any]]:
    totals = Counter[Any]()
    for row, counts in zip(ROWS, counted(), strict=True):
        totals[row["k"]] += row["v"] or 0
        yield {**counts, "total": float(totals[row["k"]]), "at": row["t"], "v": row["v"]}


def quiet() -> Iterable[dict[str, Any]]:
    for row in ROWS:
        later = [one["t"] for one in ROWS if one["k"] == row["k"] and one["t"] > row["t"]]
        if not later or (later[0] - row["t"]).total_seconds() * 1000 > WAIT_MS:
            yield {"k": row["k"], "at": int(row["t"].timestamp() * 1000), "v": row["v"]}


def worded() -> Iterable[dict[str, Any]]:
    words, counts = defaultdict[Any, list[str]](list), defaultdict[Any, Counter[str]](Counter)
    for row in ROWS:
        found, seen = words[row["k"]], counts[row["k"]]
        found += (row["words"] or "").split()
        seen.update((row["words"] or "").split())
        if seen.pop("drop", 0):
            found[:] = [one for one in found if one != "drop"] or ["none"]
        yield {"k": row["k"], "words": list(found), "counts": repr(sorted((w, n, n) for w, n in seen.items()))}


def shown(row: dict[str, Any]) -> str:
    return repr([str(value) if isinstance(value, datetime) else value for value in row.values()])


CASES: dict[str, tuple[dict[str, Any], Callable[[], Iterable[dict[str, Any]]]]] = {
    "RunningCount": ({"output": "k string, n bigint", "time_mode": "None"}, counted),
    "PandasCount": (
        {"output": "k string, n int, total double, at timestamp, v int", "time_mode": "None", "rows_as": "pandas"},
        totalled,
    ),
    "Quiet": ({"output": "k string, at bigint, v bigint", "time_mode": "EventTime"}, quiet),
    "Words": ({"output": "k string, words array<string>, counts string", "time_mode": "None"}, worded),
}


@pytest.mark.parametrize("name", CASES)
def test_a_class_has_one_answer_in_all_modes(name: str) -> None:
    settings, oracle = CASES[name]
    source = Source.json("in", schema=SCHEMA, event_time="t", out_of_orderness="1s")
    job = (
        Job("spark-class", mode="batch", sources={"t": source})
        .key_by("k")
        .process(getattr(processors, name), **settings)
    )
    expected = sorted(map(shown, oracle()))
    epochs = [{"t": ROWS[start : start + 7]} for start in range(0, len(ROWS), 7)]
    batch = run_graph(job, {"t": ROWS})
    mixed = run_graph(job, {"t": ROWS[:30]}, live=[{"t": ROWS[30:33]}, {"t": ROWS[33:50]}, {"t": ROWS[50:]}])
    streaming = run_graph(job, live=epochs)
    for found in (batch, mixed, streaming):
        assert sorted(map(shown, found.table())) == expected
