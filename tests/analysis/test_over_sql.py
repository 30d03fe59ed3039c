"""SQL with functions OVER the rows before returns the rows of Spark's batch in all modes, and those of plain Python."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from decimal import Decimal
from itertools import accumulate
from statistics import mean
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.analysis.two_sources import IN_MODES, ROWS, Row, check_refused, check_texts

pytestmark = pytest.mark.usefixtures("spark")

S = ROWS["s"]
KEYED = defaultdict[Any, list[Any]](list)
for key, value in S:
    KEYED[key].append(value)


def added(*functions: Any) -> list[Row]:
    """The rows (k, x) of s by key, with the values of functions of (its values so far, that of the row last)."""
    return [
        (k, values[at], *(function(values[: at + 1]) for function in functions))
        for k, values in KEYED.items()
        for at in range(len(values))
    ]


def before(values: list[Any]) -> Any:
    return values[-2] if len(values) > 1 else None


def total(values: list[Any]) -> Any:
    seen = [one for one in values if one is not None]
    return sum(seen) if seen else None


def middle(values: list[Any]) -> Any:
    seen = [one for one in values if one is not None]
    return Decimal(sum(seen)) / len(seen) if seen else None


def newest(values: list[Any]) -> Any:
    return next((one for one in reversed(values) if one is not None), None)


W = "(PARTITION BY k ORDER BY at)"
TWO = "(PARTITION BY k ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
#: {text: its rows}
TEXTS: Mapping[str, Collection[Row]] = {
    f"SELECT k, x, lag(x) OVER {W} AS b, sum(x) OVER {W} AS s, count(*) OVER {W} AS n FROM s": added(
        before, total, len
    ),
    f"SELECT k, x, sum(x) OVER {TWO} AS s, last(x) IGNORE NULLS OVER w AS v, rank() OVER w FROM s WINDOW w AS {W}": (
        added(lambda values: total(values[-2:]), newest, len)
    ),
    f"SELECT k, x, x - lag(x + 1, 1) OVER {W} AS more, row_number() OVER {W} FROM s WHERE x > 0": [
        (k, x, None if b is None else x - b - 1, n)
        for k, values in KEYED.items()
        for n, (b, x) in enumerate(zip([None, *values], values, strict=False), 1)
        if x
    ],
    "SELECT k, sum(x / 4BD) OVER (PARTITION BY k ORDER BY at) AS s FROM s": [
        (k, s if s is None else Decimal(s) / 4) for k, _, s in added(total)
    ],
    f"SELECT k, avg(CAST(x AS DECIMAL(4, 1))) OVER {W} AS m FROM s": [
        (k, m if m is None else round(Decimal(m), 5)) for k, _, m in added(middle)
    ],
    "SELECT x, sum(x) OVER (ORDER BY at, x) AS s FROM s": [
        (x, total_) for x, total_ in zip([x for _, x in S], accumulate(x or 0 for _, x in S), strict=True)
    ],
    f"SELECT k, n FROM (SELECT k, x, count(x) OVER {W} AS n, at FROM s) WHERE n = 2 OR x IS NULL": [
        (k, n) for k, x, n in added(lambda values: sum(one is not None for one in values)) if n == 2 or x is None
    ],
    f"SELECT k, max(n) AS m FROM (SELECT k, dense_rank() OVER {W} AS n FROM s) GROUP BY k": (
        [(k, len(values)) for k, values in KEYED.items()]
    ),
    f"FROM s |> EXTEND avg(x) OVER {W} AS m |> WHERE m > 1 |> SELECT k, m": [
        (k, m) for k, _, m in added(lambda values: mean([one for one in values if one is not None] or [0.0])) if m > 1
    ],
    "SELECT x, sum(x) OVER (ORDER BY at RANGE BETWEEN INTERVAL 2 MINUTES PRECEDING AND CURRENT ROW) AS s FROM s": [
        (x, total([one for _, one in S[max(0, at - 2) : at + 1]])) for at, (_, x) in enumerate(S)
    ],
    "SELECT k, n - lag(n) OVER (PARTITION BY k ORDER BY w.end) AS more FROM "
    "(SELECT k, window(at, '3 minutes') AS w, count(*) AS n FROM s GROUP BY ALL)": [
        (k, n - b if b else None)
        for k, counts in {"a": [1, 1], None: [1, 1], "b": [1], "c": [1], "d": [1]}.items()
        for b, n in zip([None, *counts], counts, strict=False)
    ],
    f"SELECT k, x, lag(x, 1, -1) OVER {W} AS b, lag(x) IGNORE NULLS OVER {W} FROM s": added(
        lambda values: values[-2] if len(values) > 1 else -1, lambda values: newest(values[:-1])
    ),
    "SELECT k, lag(x) OVER (PARTITION BY k ORDER BY at) AS b FROM e": [],
}


@IN_MODES
def test_all_modes_return_the_rows_of_over(spark: SparkSession, modes: str) -> None:
    check_texts(spark, TEXTS, modes)


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT lead(x) OVER (PARTITION BY k ORDER BY at) AS n FROM s", "lead reads a row that comes later"),
        ("SELECT sum(x) OVER (PARTITION BY k) AS n FROM s", "it needs ORDER BY with the event time"),
        (
            "SELECT sum(x) OVER (PARTITION BY k ORDER BY x) AS n FROM s",
            "Its ORDER BY begins with the event time of the input, under",
        ),
        (
            "SELECT sum(x) OVER (PARTITION BY k ORDER BY at DESC) AS n FROM s",
            "every column of its ORDER BY is ascending",
        ),
        ("SELECT row_number() OVER (PARTITION BY k ORDER BY x DESC) AS n FROM s", "Say how many rows are kept"),
        ("SELECT row_number() OVER (PARTITION BY k ORDER BY x) AS n FROM s", "Say how many rows are kept"),
        (
            "SELECT sum(x) OVER (ORDER BY at ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS n FROM s",
            "this is no frame that is known here",
        ),
        (
            "SELECT sum(x) OVER (ORDER BY at RANGE BETWEEN CURRENT ROW AND INTERVAL '1' HOUR FOLLOWING) AS n FROM s",
            "this is no frame that is known here",
        ),
        ("SELECT stddev(x) OVER (ORDER BY at) AS n FROM s", "there is no function stddev of an over step"),
        ("SELECT sum(x) FILTER (WHERE x > 1) OVER (ORDER BY at) AS n FROM s", r"write if\(condition, x, NULL\) as its"),
        ("SELECT lag(x, 1, x) OVER (ORDER BY at) AS n FROM s", "a default: a number, a text in quotes, true or false"),
        (
            "SELECT lag(x, 2) IGNORE NULLS OVER (ORDER BY at) AS n FROM s",
            "only first_value and last_value take",
        ),
        ("SELECT k, sum(count(*)) OVER (ORDER BY k) AS n FROM s GROUP BY k", "put the GROUP BY into parentheses"),
        (
            "SELECT lag(x) OVER (ORDER BY at) AS a, lag(x) OVER (PARTITION BY k ORDER BY at) AS b FROM s",
            "have one PARTITION BY and ORDER BY here",
        ),
        (
            "SELECT k, lag(n) OVER (PARTITION BY k ORDER BY n) AS m FROM (SELECT k, count(*) AS n FROM s GROUP BY k)",
            "Its ORDER BY begins with the event time of the input, under",
        ),
        (
            "SELECT k, lag(x) OVER (PARTITION BY k ORDER BY t) AS b FROM (SELECT k, x, at AS t FROM s)",
            "event time of the input, under its own name",
        ),
    ],
)
def test_what_no_over_step_computes_is_refused(sql: str, problem: str) -> None:
    check_refused(sql, problem)
