"""Texts over small sources: one job computes all, and has the rows of Spark's batch and of plain Python."""

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.spark.temporary_views import views
from mixedmode.testing import run_graph

DDL = "k string, x bigint, at timestamp"
Row = tuple[Any, ...]
#: (k, x) of each source; those after the second one are live. e has no rows
ROWS: Mapping[str, list[Row]] = {
    "s": [("a", 1), (None, 1), ("b", 2), ("a", 1), (None, None), ("c", 3), ("d", 7)],
    "r": [("a", 1), ("b", 9), (None, None), ("c", 3), ("a", 2), (None, 1), ("a", 2)],
    "e": [],
}
#: mixed mode has a backlog and live epochs; the steps that texts become are compared in all modes by tests of their own
IN_MODES = pytest.mark.parametrize(
    "modes", ["mixed", *(pytest.param(mode, marks=pytest.mark.soak) for mode in ("batch", "streaming"))]
)


def records(rows: list[Row]) -> list[dict[str, Any]]:
    return [
        {"k": k, "x": x, "at": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=n)} for n, (k, x) in enumerate(rows)
    ]


def sources() -> dict[str, Any]:
    return {name: Source.parquet("in", schema=DDL, event_time="at", out_of_orderness="1h") for name in ROWS}


def check_texts(spark: SparkSession, texts: Mapping[str, Collection[Row]], modes: str) -> None:
    """Run a job with these texts, which have these rows."""
    named = {f"text_{number}": (sql, Counter(rows)) for number, (sql, rows) in enumerate(texts.items(), 1)}
    job = Job("texts", sources=sources(), mode="batch")
    for name, (sql, _) in named.items():
        first, *others = (job.source(one) for one in ROWS if f"FROM {one}" in sql or f"JOIN {one}" in sql)
        job = job.output(
            name, (first.union(*others) if others else first).sql(sql, name=name), Sink.parquet(f"out/{name}")
        )
    whole = {name: records(rows) for name, rows in ROWS.items()}
    with views(spark, {name: spark.createDataFrame(rows, DDL) for name, rows in whole.items()}):
        for sql, rows in named.values():
            assert Counter(map(tuple, spark.sql(sql).collect())) == rows, sql
    parts = [{name: rows[part] for name, rows in whole.items()} for part in (slice(2), slice(2, 4), slice(4, None))]
    if modes == "mixed":
        found = run_graph(job, parts[0], live=parts[1:])
    else:
        found = run_graph(job, whole) if modes == "batch" else run_graph(job, live=parts)
    for name, (sql, rows) in named.items():
        outputs = ([value for own, value in row.items() if own != "_all"] for row in found.table(name))
        assert Counter(map(tuple, outputs)) == rows, sql


def check_refused(sql: str, problem: str) -> None:
    """Check that a job with this text is refused at the text, with this message."""
    with pytest.raises(InvalidJobError, match=problem) as raised:
        run_graph(Job("refused", sources=sources(), mode="batch").sql(sql), {name: [] for name in ROWS})
    assert str(raised.value).startswith("steps[0].sql: ")
