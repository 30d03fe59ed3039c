"""The text around GROUP BY and DISTINCT: words are found outside of quotes, comments and other queries."""

import pytest

from mixedmode.analysis.query_text import before_group_by, without_distinct


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k, sum(v) FROM t GROUP BY k", ("", "FROM t ")),
        ("select k from t where v > 0\ngroup\n by k", ("", "from t where v > 0\n")),
        ("WITH c AS (SELECT 1 FROM t) SELECT k FROM c GROUP BY k", ("WITH c AS (SELECT 1 FROM t) ", "FROM c ")),
        ("SELECT extract(year FROM at) FROM t GROUP BY 1", ("", "FROM t ")),
        ("SELECT k IS DISTINCT FROM s AS d FROM t GROUP BY 1", ("", "FROM t ")),
        ('SELECT \'FROM x\', `from`, "it\\" FROM" FROM t GROUP BY 1', ("", "FROM t ")),
        ("SELECT k -- FROM x GROUP BY y\nFROM t /* GROUP BY z */ GROUP BY k", ("", "FROM t /* GROUP BY z */ ")),
        ("SELECT 'it''s' AS s FROM t WHERE s = 'a group by b' GROUP BY s", ("", "FROM t WHERE s = 'a group by b' ")),
        ("SELECT n + 1 FROM (SELECT count(*) AS n FROM t GROUP BY k) WHERE n > 1", ("", "FROM t ")),
        (
            "SELECT k FROM (SELECT * FROM t WHERE v IN (1, 2)) AS x GROUP BY k",
            ("", "FROM (SELECT * FROM t WHERE v IN (1, 2)) AS x "),
        ),
        ("SELECT k FROM t", None),
        ("SELECT sum(n) FROM (SELECT k, count(*) AS n FROM t GROUP BY k) GROUP BY k", None),
        ("FROM t SELECT k, sum(v) GROUP BY k", None),
        (")) SELECT k FROM t GROUP BY k", (")) ", "FROM t ")),
    ],
)
def test_the_text_before_a_group_by(sql: str, expected: tuple[str, str] | None) -> None:
    assert before_group_by(sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT DISTINCT k FROM t", "SELECT k FROM t"),
        ("select  distinct\n k FROM t WHERE a IS DISTINCT FROM b", "select  k FROM t WHERE a IS DISTINCT FROM b"),
        ("SELECT /* DISTINCT */ DISTINCT k FROM t", "SELECT /* DISTINCT */ k FROM t"),
        ("SELECT count(DISTINCT k) FROM t", None),
        ("SELECT DISTINCT k FROM (SELECT DISTINCT k FROM t)", None),
        ("SELECT 'SELECT DISTINCT' FROM t", None),
    ],
)
def test_the_text_without_distinct(sql: str, expected: str | None) -> None:
    assert without_distinct(sql) == expected
