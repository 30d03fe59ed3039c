"""UNION, INTERSECT and EXCEPT in SQL return the rows of Spark's batch in all modes, and of sets in plain Python."""

from collections import Counter
from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from tests.analysis.batch_steps import BatchSteps
from tests.analysis.two_sources import DDL, IN_MODES, ROWS, Row, check_refused, check_texts, records

pytestmark = pytest.mark.usefixtures("spark")

S, R = (frozenset(ROWS[name]) for name in "sr")


def counts(name: str) -> frozenset[Row]:
    """The rows of a GROUP BY k with count(*)."""
    return frozenset(Counter(k for k, _ in ROWS[name]).items())


#: {text: its rows, each of which is there once}
TEXTS: Mapping[str, frozenset[Row]] = {
    "SELECT k, x FROM s INTERSECT SELECT k, x FROM r": S & R,
    "WITH a AS (SELECT k, x FROM r WHERE x > 1) SELECT k, x AS y FROM s MINUS SELECT k, x + 0.0 FROM a": (
        S - {(k, x) for k, x in R if (x or 0) > 1}
    ),
    "FROM r |> SELECT k, x |> EXCEPT (SELECT k, x FROM s)": R - S,
    "SELECT k, x FROM e EXCEPT SELECT k, x FROM s": frozenset(),
    "SELECT k, x FROM s INTERSECT SELECT k, x FROM e": frozenset(),
    (
        "SELECT k FROM s EXCEPT SELECT k FROM s WHERE x > 5 INTERSECT SELECT k FROM s EXCEPT SELECT k FROM r UNION "
        "SELECT 'z' FROM r"
    ): frozenset((k,) for k in {k for k, _ in S} - {"d"} - {k for k, _ in R} | {"z"}),
    # counts change, so rows are retracted
    "SELECT k, count(*) AS n FROM s GROUP BY k EXCEPT SELECT k, count(*) AS n FROM r GROUP BY k": (
        counts("s") - counts("r")
    ),
    "SELECT k, count(*) AS n FROM s GROUP BY k INTERSECT SELECT k, count(*) AS n FROM r GROUP BY k": (
        counts("s") & counts("r")
    ),
    "SELECT k, x FROM s UNION SELECT k, x FROM r": S | R,
    "SELECT k, x FROM s UNION DISTINCT (SELECT k, x FROM r) UNION SELECT upper(k), x + 0.5 FROM s": (
        S | R | {(k and k.upper(), None if x is None else x + 0.5) for k, x in S}
    ),
    "SELECT k FROM e UNION SELECT k FROM s WHERE x > 1": frozenset((k,) for k, x in S if (x or 0) > 1),
    "SELECT k, n FROM (SELECT k, count(*) AS n FROM s GROUP BY k UNION SELECT k, count(*) FROM r GROUP BY k) AS u": (
        counts("s") | counts("r")
    ),
    (
        "WITH u AS (SELECT k, x FROM s UNION ALL (SELECT k, x FROM r) UNION SELECT k, x FROM e) "
        "SELECT x, count(*) AS n FROM u GROUP BY x"
    ): (frozenset(Counter(x for _, x in S | R).items())),
}


@IN_MODES
def test_all_modes_return_the_rows_of_sets(spark: SparkSession, modes: str) -> None:
    check_texts(spark, TEXTS, modes)


def test_unions_of_many_parts_have_one_state_as_far_as_they_follow_each_other(spark: SparkSession) -> None:
    steps = BatchSteps(spark, {name: spark.createDataFrame(records(rows), DDL) for name, rows in ROWS.items()})
    steps.frame("SELECT k FROM s UNION SELECT k FROM r UNION ALL SELECT k FROM s UNION SELECT k FROM r")
    assert {name: step.key_by for name, step in steps.steps.items()} == {"sql-1-1": ("k",), "sql-1": ("k",)}


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT k FROM s UNION VALUES ('a')", "return these other rows again in each epoch"),
        ("SELECT k, x AS K FROM s UNION SELECT k, x FROM r", "INTERSECT and EXCEPT are a key here"),
        ("SELECT k, x AS K FROM s EXCEPT SELECT k, x FROM r", "INTERSECT and EXCEPT are a key here"),
        ("SELECT k FROM s EXCEPT ALL SELECT k FROM r", "write INTERSECT or EXCEPT without ALL, of two inputs"),
        ("SELECT k FROM s INTERSECT VALUES ('a')", "constants belong into WHERE k IN"),
        ("SELECT k FROM s UNION SELECT k FROM r ORDER BY k", "Sort the rows where the output is read"),
        ("SELECT k FROM s UNION SELECT k, x FROM r", "same number of columns"),
    ],
)
def test_a_set_operation_that_no_step_is_is_refused(sql: str, problem: str) -> None:
    check_refused(sql, problem)
