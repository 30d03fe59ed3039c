"""SQL with |> returns the rows of Spark's batch in all modes, and those of plain Python."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.analysis.two_sources import IN_MODES, ROWS, Row, check_refused, check_texts

pytestmark = pytest.mark.usefixtures("spark")


def sums(rows: Collection[Row]) -> dict[Any, Any]:
    """{k: the sum of x}; None for no number."""
    values = defaultdict[Any, list[int]](list)
    for k, x in rows:
        values[k] += [] if x is None else [x]
    return {k: sum(of_key) if of_key else None for k, of_key in values.items()}


S = ROWS["s"]
COUNTS = Counter(k for k, _ in S)
PAIRS = [(k, x) for k, x in S for other, _ in ROWS["r"] if k is not None and k == other]
#: {text: its rows}
TEXTS: Mapping[str, Collection[Row]] = {
    "FROM s |> WHERE x > 1 |> AGGREGATE sum(x) AS n GROUP BY k": sums([(k, x) for k, x in S if x and x > 1]).items(),
    "FROM s |> EXTEND x + 1 AS y |> AGGREGATE sum(s.x) AS n GROUP BY s.k AS a |> WHERE n < 5 |> EXTEND n * 2 AS m": (
        [(k, n, n * 2) for k, n in sums(S).items() if n is not None and n < 5]
    ),
    "FROM s |> JOIN r ON s.k = r.k |> AGGREGATE sum(s.x) AS n GROUP BY r.k": sums(PAIRS).items(),
    "FROM s |> AGGREGATE count(*) AS n GROUP BY k -- of k\n |> AGGREGATE count(*) AS m GROUP BY n |> SELECT m, n": (
        [(m, n) for n, m in Counter(COUNTS.values()).items()]
    ),
    "WITH c AS (FROM s |> AGGREGATE count(*) AS n GROUP BY k) SELECT k, n FROM c WHERE n > 1": (
        [(k, n) for k, n in COUNTS.items() if n > 1]
    ),
    "SELECT k, x FROM s UNION SELECT k, x FROM r |> AGGREGATE count(*) AS n GROUP BY k": (
        Counter(k for k, _ in {*S, *ROWS["r"]}).items()
    ),
    "FROM s |> SELECT k |> UNION (SELECT k FROM r) |> EXTEND upper(k) AS u": (
        {(k, k and k.upper()) for k, _ in [*S, *ROWS["r"]]}
    ),
    "FROM s |> EXTEND row_number() OVER (PARTITION BY k ORDER BY at) AS n |> WHERE n = 1 |> SELECT k, x": (
        dict(reversed(S)).items()
    ),
    "FROM e |> AGGREGATE count(*) AS n GROUP BY k": [],
}


@IN_MODES
def test_all_modes_return_the_rows_of_pipes(spark: SparkSession, modes: str) -> None:
    check_texts(spark, TEXTS, modes)


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("FROM s |> AGGREGATE count(*) AS n GROUP BY k |> ORDER BY n", "Sort the rows where the output is read"),
        ("FROM s |> AGGREGATE first(x) AS n GROUP BY k", "first goes by the order of rows here"),
        ("FROM s |> AGGREGATE sum(x) AS n GROUP BY y", "name `y` cannot be resolved"),
    ],
)
def test_a_pipe_that_no_step_is_is_refused(sql: str, problem: str) -> None:
    check_refused(sql, problem)
