"""ROLLUP, CUBE and GROUPING SETS return the rows of Spark's batch in all modes, and those of plain Python."""

from collections.abc import Collection, Mapping, Sequence

import pytest
from pyspark.sql import SparkSession

from tests.analysis.two_sources import IN_MODES, ROWS, Row, check_refused, check_texts

pytestmark = pytest.mark.usefixtures("spark")


def of_sets(rows: Collection[Row], sets: Sequence[Sequence[int]]) -> dict[Row, list[Row]]:
    """{(the values of a group, NULL where its set lacks the column, grouping_id): the rows of the group}.

    sets: the places of the columns of each set.
    """
    found = dict[Row, list[Row]]()
    for row in rows:
        for places in sets:
            key = [value if at in places else None for at, value in enumerate(row)]
            number = sum(1 << (len(row) - 1 - at) for at in range(len(row)) if at not in places)
            found.setdefault((*key, number), []).append(row)
    return found


def total(rows: Collection[Row]) -> int | None:
    values = [x for _, x in rows if x is not None]
    return sum(values) if values else None


S, R = ROWS["s"], ROWS["r"]
CUBE = [(0, 1), (0,), (1,), ()]
COUNTS = [(k, len(rows)) for (k, _), rows in of_sets([(k,) for k, _ in S], [(0,)]).items()]
#: {text: its rows}
TEXTS: Mapping[str, Collection[Row]] = {
    "SELECT k, x, grouping_id() AS g, count(*) AS n, sum(x) AS total FROM s GROUP BY ROLLUP(k, x)": [
        (*key, len(rows), total(rows)) for key, rows in of_sets(S, [(0, 1), (0,), ()]).items()
    ],
    (
        "SELECT k, x + 1 AS y, grouping_id() AS g, grouping(k) AS a, grouping(x + 1) AS b, upper(k) AS u, "
        "max(x) - 1 AS m FROM r WHERE x < 9 GROUP BY k, x + 1 WITH CUBE HAVING count(*) > 1"
    ): [
        (k, y, g, g >> 1, g & 1, k and k.upper(), max(y for _, y in rows) - 2)
        for (k, y, g), rows in of_sets([(k, x + 1) for k, x in R if x is not None and x < 9], CUBE).items()
        if len(rows) > 1
    ],
    "SELECT n, k, grouping_id() AS g FROM (SELECT k, count(*) AS n FROM s GROUP BY k) GROUP BY CUBE(k, n)": [
        (n, k, g) for k, n, g in of_sets(COUNTS, CUBE)
    ],
    (
        "SELECT x, count(*) AS groups FROM (SELECT k, x, grouping_id() AS g FROM s JOIN r USING (k, x) "
        "GROUP BY GROUPING SETS ((k, x), (x)) HAVING grouping_id() >= 0) GROUP BY x"
    ): [(1, 2), (3, 2)],
    (
        "SELECT g, count(*) AS n, count(at) AS times FROM "
        "(SELECT at, k, grouping_id() AS g FROM s GROUP BY CUBE(at, k)) GROUP BY g"
    ): [(0, 7, 7), (1, 7, 7), (2, len(COUNTS), 0), (3, 1, 0)],
    "SELECT grouping_id() AS g, count(*) AS n FROM s GROUP BY GROUPING SETS (())": [(0, len(S))],
    "SELECT k, grouping_id() AS g FROM e GROUP BY ROLLUP(k)": [],
}


@IN_MODES
def test_all_modes_return_the_rows_of_grouping_sets(spark: SparkSession, modes: str) -> None:
    check_texts(spark, TEXTS, modes)


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT k, count(*) AS n FROM s GROUP BY ROLLUP(k)", r"so select grouping_id\(\)\. missing=grouping_id"),
        (
            "SELECT grouping_id() AS g, window, k FROM s GROUP BY window(at, '1 hour'), ROLLUP(k)",
            r"Put the GROUP BY with the window into parentheses, and write GROUP BY ROLLUP\(hour, k\) around it",
        ),
        ("SELECT grouping_id() AS g, first(x) AS f FROM s GROUP BY CUBE(k)", "first goes by the order of rows here"),
        ("SELECT grouping_id() AS g FROM s GROUP BY CUBE(struct(k, x))", "are of plain values here"),
    ],
)
def test_grouping_sets_that_no_step_has_are_refused(sql: str, problem: str) -> None:
    check_refused(sql, problem)
