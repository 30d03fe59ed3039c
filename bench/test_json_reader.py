"""Reading JSON lines: this program, which refuses text behind a value, against Spark's reader, which drops it.

    pytest -q -s bench/test_json_reader.py

Each round reads a folder with one reader after the other, warm, into a hash of all columns. It includes the scan for
text behind values. The figure is the ratio of the medians, so a busy machine changes it less than seconds. `as text` is
the way of files that cannot be scanned, here because the option `lineSep` is set.
"""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.connectors.files.source import FileSource
from mixedmode.job import Source

ROUNDS, FILES, SAMPLE = 5, 4, 2_500
RATIO_MAX = 1.5  # guards against a regression: runs printed 1.07 to 1.37, on a busy machine too
FLIGHTS = (
    "date timestamp, carrier string, number int, origin string, destination string, delay long, distance long, "
    "cancelled boolean, price double, day date"
)
WIDE = ", ".join([*(f"text_{i} string" for i in range(30)), *(f"number_{i} long" for i in range(10))])
NESTED = f"{FLIGHTS}, seats array<struct<row: int, free: boolean>>"


def flight(rng: np.random.Generator) -> dict[str, Any]:
    month, day, hour, minute, number, delay, distance, price = rng.integers(0, [12, 28, 24, 60, 9999, 300, 3000, 900])
    date = f"2024-{month + 1:02}-{day + 1:02}"
    origin, destination = rng.choice(["SFO", "LAX", "JFK", "ORD", "ATL", "DFW"], 2)
    return {
        "date": f"{date} {hour:02}:{minute:02}:00",
        "carrier": "UA",
        "number": int(number),
        "origin": str(origin),
        "destination": str(destination),
        "delay": int(delay) - 20,
        "distance": int(distance),
        "cancelled": bool(delay < 3),
        "price": float(price) / 7,
        "day": date,
    }


def wide(rng: np.random.Generator) -> dict[str, Any]:
    texts = {f"text_{i}": f"a longer text {number}" for i, number in enumerate(rng.integers(0, 10**9, 30).tolist())}
    return {**texts, **{f"number_{i}": number for i, number in enumerate(rng.integers(0, 10**9, 10).tolist())}}


def nested(rng: np.random.Generator) -> dict[str, Any]:
    return {**flight(rng), "seats": [{"row": row, "free": row > 1} for row in range(3)]}


@pytest.mark.parametrize(
    ("make", "ddl", "rows"),
    [(flight, FLIGHTS, 1_000_000), (wide, WIDE, 150_000), (nested, NESTED, 300_000)],
    ids=["flights", "wide", "nested"],
)
def test_json_reader(
    session: SparkSession,
    tmp_path: Path,
    make: Callable[[np.random.Generator], dict[str, Any]],
    ddl: str,
    rows: int,
) -> None:
    rng = np.random.default_rng(7)
    sample = "".join(f"{json.dumps(make(rng))}\n" for _ in range(SAMPLE))
    for number in range(FILES):
        (tmp_path / f"{number}.json").write_text(sample * (rows // SAMPLE // FILES))
    scanned = Source.json(tmp_path, schema=ddl)
    as_text = Source.json(tmp_path, schema=ddl, options={"lineSep": "\n"})
    readers: dict[str, Callable[[], DataFrame]] = {
        "Spark": lambda: session.read.schema(ddl).json(str(tmp_path), mode="FAILFAST"),
        "mixedmode": lambda: FileSource(session, scanned, where="bench").batch(),
        "as text": lambda: FileSource(session, as_text, where="bench").batch(),
    }
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    for number in range(ROUNDS + 1):
        for name, read in readers.items():
            began = time.perf_counter()
            frame = read()
            assert frame.agg(F.count("*"), F.max(F.hash(*frame.columns))).collect()[0][0] == rows
            if number:  # the first round warms
                seconds[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    ratios = {name: median / medians["Spark"] for name, median in medians.items()}
    told = ", ".join(f"{name} {median:.2f} s (ratio {ratios[name]:.2f})" for name, median in medians.items())
    print(f"\n{make.__name__}: {told}; mixedmode at most {RATIO_MAX}")
    assert ratios["mixedmode"] <= RATIO_MAX
