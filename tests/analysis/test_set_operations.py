"""UNION in SQL returns the rows of Spark's batch in all modes, and those of sets in plain Python."""

from collections import Counter
from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from mixedmode.errors import InvalidJobError
from mixedmode.job import Job
from mixedmode.testing import run_graph
from tests.analysis.batch_steps import BatchSteps
from tests.analysis.two_sources import DDL, IN_MODES, ROWS, Row, check_texts, records, sources

pytestmark = pytest.mark.spark

S, R = (frozenset(ROWS[name]) for name in "sr")


def counts(name: str) -> frozenset[Row]:
    """The rows of a GROUP BY k with count(*)."""
    return frozenset(Counter(k for k, _ in ROWS[name]).items())


#: {text: its rows, each of which is there once}
UNIONS: Mapping[str, frozenset[Row]] = {
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
    check_texts(spark, UNIONS, modes)


def test_unions_of_many_parts_have_one_state_as_far_as_they_follow_each_other(spark: SparkSession) -> None:
    steps = BatchSteps(spark, {name: spark.createDataFrame(records(rows), DDL) for name, rows in ROWS.items()})
    steps.frame("SELECT k FROM s UNION SELECT k FROM r UNION ALL SELECT k FROM s UNION SELECT k FROM r")
    assert {name: step.key_by for name, step in steps.steps.items()} == {"sql-1-1": ("k",), "sql-1": ("k",)}


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT k FROM s UNION VALUES ('a')", "return these other rows again in each epoch"),
        ("SELECT k, x AS K FROM s UNION SELECT k, x FROM r", "SELECT DISTINCT and UNION are a key here"),
        ("SELECT k FROM s UNION SELECT k FROM r ORDER BY k", "Sort the rows where the output is read"),
        ("SELECT k FROM s UNION SELECT k, x FROM r", "same number of columns"),
    ],
)
def test_a_set_operation_that_no_step_is_is_refused(sql: str, problem: str) -> None:
    with pytest.raises(InvalidJobError, match=problem) as raised:
        run_graph(Job("refused", sources=sources(), mode="batch").sql(sql), {name: [] for name in ROWS})
    assert str(raised.value).startswith("steps[0].sql: ")
